// Template input: any JSON as the variables of templates that use most of the language.
// coverage: src/text/chat_template.cpp src/text/chat_template_input.cpp
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/chat_template_input.h"

namespace {

constexpr const char* kTemplates[] = {
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim }}{% if m.tool_calls %}{{ m.tool_calls|tojson(indent=2) "
    "}}"
    "{% endif %}{{ loop.last }}{% endfor %}{{ tools }}",
    "{% for k, v in d|dictsort %}{{ k|title }}={{ v|string|upper|indent }}{% endfor %}{{ s[1:-1] }}{{ "
    "s.split(',')|join }}"
    "{{ l|sort|unique|list }}{{ l|map('string')|join('-') }}{{ '%s %d' % (s, n) }}{{ '{:>9}'.format(s) }}",
    "{% macro walk(x) %}{% if x is mapping %}{% for k, v in x.items() %}{{ k }}:{{ walk(v) }}{% endfor %}{% elif x is"
    " string %}{{ x|replace('a', 'b')|e }}{% elif x is iterable %}{% for i in x %}{{ walk(i) }}{% endfor %}{% else %}"
    "{{ x }}{% endif %}{% endmacro %}{{ walk(messages) }}{{ walk(d) }}{{ walk(l) }}",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  static const ChatTemplate templates[] = {ChatTemplate::parse(kTemplates[0]), ChatTemplate::parse(kTemplates[1]),
                                           ChatTemplate::parse(kTemplates[2])};
  Json input;
  try {
    input = parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  } catch (const Error&) {
    return 0;
  }
  for (const ChatTemplate& chat_template : templates) {
    try {
      chat_template.render(input);
    } catch (const Error&) {
    }
    try {
      render_chat(chat_template, as_object(input, "input"));
    } catch (const Error&) {
    }
  }
  return 0;
}
