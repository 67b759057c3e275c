#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/data_test_support.h"

namespace ingot {
namespace {

std::string render(const std::string& source, const std::string& input = "{}") {
  return ChatTemplate::parse(source).render(parse_json(input, "test"));
}

std::string error_of(const std::string& source, const std::string& input = "{}") {
  try {
    return "no error: " + render(source, input);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ChatTemplate, ParsesEveryPublishedTemplate) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test_data("chat-templates"))) {
    if (entry.path().extension() != ".jinja") continue;
    EXPECT_NO_THROW(ChatTemplate::parse(read_text_file(entry.path().string()))) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 30u);
}

TEST(ChatTemplate, RendersPublishedExamples) {
  const std::string path = test_data("chat-templates/hf_jinja_e2e.json");
  setenv("TZ", "UTC", 1);
  RenderOptions options{std::time_t{1752148800}};  // 10 July 2025, the day that one of the expected texts names
  Json file = read_json_file(path);
  for (const auto& group : file.as_object()) {
    for (const auto& example : group.value().as_object()) {
      const JsonObject& test = example.value().as_object();
      EXPECT_EQ(ChatTemplate::parse(get_string(test, "chat_template")).render(test.at("data"), options),
                get_string(test, "target"))
          << example.key();
    }
  }
}

// Python's spelling in that of JSON.
std::string as_json_prints(std::string text) {
  for (auto [from, to] : {std::pair<std::string, std::string>{"True", "true"},
                          {"False", "false"},
                          {"None", "null"},
                          {"Undefined", "undefined"},
                          {"'", "\""}}) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

TEST(ChatTemplate, RendersSmallCases) {
  const std::string path = test_data("chat-templates/hf_jinja_templates.json");
  // Their expectations are not jinja2's: it refuses str + int, len() of a generator, `null`, replace(count=…), and
  // holds that True equals 1.
  const std::set<std::string> other = {"FOR_LOOP_UNPACKING",
                                       "FOR_LOOP_OBJECTS",
                                       "REPLACE",
                                       "MEMBERSHIP",
                                       "MEMBERSHIP_NEGATION_1",
                                       "MEMBERSHIP_NEGATION_2",
                                       "FILTER_OPERATOR_4",
                                       "FILTER_OPERATOR_5",
                                       "FILTER_OPERATOR_6",
                                       "FILTER_OPERATOR_7",
                                       "FILTER_OPERATOR_11",
                                       "FILTER_OPERATOR_12",
                                       "OBJECT_OPERATORS_2",
                                       "MACROS_2"};
  Json file = read_json_file(path);
  size_t equal = 0;
  for (const Json& item : file.as_array()) {
    const JsonObject& test = item.as_object();
    std::string name = get_string(test, "name");
    if (other.count(name) != 0) continue;
    std::string got = error_of(get_string(test, "template"), to_json(test.at("context")));
    got = got.starts_with("no error: ") ? got.substr(10) : got;
    EXPECT_EQ(as_json_prints(got), as_json_prints(get_string(test, "expected"))) << name;
    ++equal;
  }
  EXPECT_EQ(equal, file.as_array().size() - other.size());
}

std::string marked(const std::string& source, const std::string& input) {
  std::string out;
  for (const auto& piece : ChatTemplate::parse(source).render_pieces(parse_json(input, "test"))) {
    out += (piece.from_template ? "T<" : "I<") + piece.text + ">";
  }
  return out;
}

TEST(ChatTemplate, KnowsWhoWroteEachByte) {
  std::string chat = R"({"messages": [{"role": "user", "content": " a<|im_end|>b "}], "bos_token": "<s>", "x": "<s>"})";
  EXPECT_EQ(marked("{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content|trim }}<|im_end|>"
                   "{% endfor %}{{ x }}",
                   chat),
            "T<<s><|im_start|>user\n>I<a<|im_end|>b>T<<|im_end|>>I<<s>>");
  EXPECT_EQ(marked("{{ messages[0].content[1:4] + 'x' ~ messages[0].content[-3:] }}", chat), "I<a<|>T<x>I<>b >");
  EXPECT_EQ(marked("{{ '<|' + messages[0].role + '|>' }}", chat), "T<<|user|>>");
  EXPECT_EQ(marked("{{ '<|' + messages[0].role + '|>' }}", R"({"messages": [{"role": "im_end"}]})"),
            "T<<|>I<im_end>T<|>>");
  EXPECT_EQ(marked("{{ messages|tojson }}", R"({"messages": [{"k": "v\n"}]})"), "T<[{\">I<k>T<\": \">I<v\\n>T<\"}]>");
  EXPECT_EQ(marked("{{ messages }}", R"({"messages": ["v"]})"), "T<['>I<v>T<']>");
}

TEST(ChatTemplate, KeepsWritersThroughFiltersAndMethods) {
  std::string in = R"({"s": "Ab,c", "l": ["x", "y"]})";
  EXPECT_EQ(marked("{{ s|upper }}", in), "I<AB,C>");
  EXPECT_EQ(marked("{{ s.replace(',', '<|>') }}", in), "I<Ab>T<<|>>I<c>");
  EXPECT_EQ(marked("{{ 'q;q'.replace(';', s) }}", in), "T<q>I<Ab,c>T<q>");
  EXPECT_EQ(marked("{{ s.split(',')|join('-') }}", in), "I<Ab>T<->I<c>");
  EXPECT_EQ(marked("{{ l|join(s[0]) }}", in), "I<xAy>");
  EXPECT_EQ(marked("{{ (s ~ '!')|reverse }}", in), "T<!>I<c,bA>");
  EXPECT_EQ(marked("{{ '{}={:>6}'.format('k', s) }}", in), "T<k=  >I<Ab,c>");
  EXPECT_EQ(marked("{{ '%s|%5s' % (s, l[0]) }}", in), "I<Ab,c>T<|    >I<x>");
  EXPECT_EQ(marked("{{ s|e }}{{ ('<' ~ l[0])|e }}", in), "I<Ab,c>T<&lt;>I<x>");
  EXPECT_EQ(marked("{% set t %}[{{ s }}]{% endset %}{{ t[1:-1] }}{{ t * 2 }}", in),
            "I<Ab,c>T<[>I<Ab,c>T<][>I<Ab,c>T<]>");
  EXPECT_EQ(marked("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(s)|indent(2, true) }}", in), "T<  <>I<Ab,c>T<>>");
  EXPECT_EQ(marked("{{ s|title }}{{ s|length }}{{ s.index('c') }}", in), "I<Ab,c>T<43>");
}

TEST(ChatTemplate, NamesThePlaceOfAnError) {
  EXPECT_EQ(error_of("a\n{% if x %}\n{{ y.z.w }}{% endif %}", R"({"x": 1, "y": {}})"),
            "[template] line 3, column 4: 'dict object' has no attribute 'z'");
  EXPECT_EQ(error_of("a\n{{ nope.z }}"), "[template] line 2, column 4: 'nope' is undefined");
  EXPECT_EQ(error_of("\n\n{{ raise_exception('Only user {}') }}"), "[template] line 3, column 4: Only user {}");
  EXPECT_EQ(error_of("a\n\n{% endif %}"), "[template] line 3, column 4: Encountered unknown tag 'endif'");
  EXPECT_EQ(error_of("\n{{ x|nosuch }}"), "[template] line 2, column 6: No filter named 'nosuch'");
  EXPECT_EQ(error_of("{{ 'abc"), "[template] line 1, column 4: unexpected char \"'\"");
  EXPECT_EQ(error_of("ü{# é #}{{ 'ß' is nosuch }}"), "[template] line 1, column 16: No test named 'nosuch'");
  EXPECT_NE(error_of("{{ x }}", "[1]").find("object"), std::string::npos);
}

TEST(ChatTemplate, RefusesUnknownFiltersAtLoad) {
  for (const char* source : {"{{ x|nosuch }}", "{% for m in [] %}{{ m|nosuch }}{% endfor %}",
                             "{% set a %}{% endset %}"
                             "{% filter nosuch %}{% endfilter %}",
                             "{{ 1 is nosuch }}"}) {
    EXPECT_THROW(ChatTemplate::parse(source), Error) << source;
  }
  // As in jinja2 a branch may name filters that only other engines know: an error once it is taken.
  ChatTemplate branch = ChatTemplate::parse("{% if x %}\n{{ x|nosuch }}{% endif %}ok");
  EXPECT_EQ(branch.render(parse_json("{}", "test")), "ok");
  EXPECT_THROW(branch.render(parse_json(R"({"x": 1})", "test")), Error);
}

TEST(ChatTemplate, UsesTheClockThatItIsGiven) {
  setenv("TZ", "UTC", 1);
  ChatTemplate chat_template = ChatTemplate::parse("{{ strftime_now('%d %b %Y %H:%M') }}");
  EXPECT_EQ(chat_template.render(JsonObject(), {std::time_t{0}}), "01 Jan 1970 00:00");
  EXPECT_EQ(render("{{ strftime_now('%Y')|int > 2000 }}"), "True");
}

}  // namespace
}  // namespace ingot
