// Fuzz target: the regular expressions of tokenizers, which come with the model. The first line is the pattern, the
// rest the text that it cuts. slow: a match ends after two seconds.
// coverage: src/text/split/matcher.cpp src/text/split/regex_translate.cpp src/text/split/regex_pcre2.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/split/matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kText = 256;  // so that most inputs take less than a millisecond
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string text = ingot::utf8_replace_invalid(input.substr(std::min(line + 1, input.size())).substr(0, kText));
  try {
    std::vector<ingot::Piece> pieces;
    ingot::make_matcher(input.substr(0, line))->find_all(text, pieces);
    uint32_t end = 0;
    for (const ingot::Piece& piece : pieces) {
      if (piece.begin < end || piece.end < piece.begin || piece.end > text.size()) std::abort();
      end = piece.end;
    }
  } catch (const ingot::Error&) {
  }
  return 0;
}
