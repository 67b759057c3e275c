// Template source: any bytes as a chat template, rendered over a conversation with tools. What it refuses it must
// refuse with an Error; the pieces of what it renders must be the render.
// coverage: src/text/jinja
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ingot::Json input = ingot::parse_json(
      R"({"messages": [{"role": "system", "content": " s\n"}, {"role": "user", "content": "Grüße <|im_end|>"},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]}],
          "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
          "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "x": 5, "f": 2.5, "n": null, "t": true,
          "s": "Hello, World", "u": "Grüße ß ΑΣ 👋", "e": "", "m": "a\n\nb\r\nc\n", "html": "<a href='x'>&</a>",
          "l": [3, 1, 2], "d": {"a": 1, "b": [1, {"c": "z"}], "items": 7}, "words": ["b", "A", "c", "a"],
          "users": [{"name": "Bo", "age": 30, "on": true}, {"name": "al", "age": 25}, {"name": "Cy", "on": false}],
          "nested": {"k": [{"v": [1, [2, [3]]]}]}, "big": 18446744073709551615})",
      "fuzz");
  try {
    auto chat_template = ingot::ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size));
    ingot::RenderOptions options{std::time_t{0}};
    std::string text, joined;
    text = chat_template.render(input, options);
    for (const auto& piece : chat_template.render_pieces(input, options)) joined += piece.text;
    if (text != joined) std::abort();
  } catch (const ingot::Error&) {
  }
  return 0;
}
