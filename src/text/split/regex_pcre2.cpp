// Regular expressions through PCRE2, with limits on time and memory. Built where PCRE2 is; regex_none.cpp otherwise.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <chrono>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"
#include "text/split/matcher.h"

namespace ingot {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxPattern = 65536;
constexpr uint32_t kMaxNesting = 100;            // of groups: the compiler recurses
constexpr uint32_t kHeapKiB = 64 << 10;          // backtracking frames of one match lie on the heap
constexpr uint32_t kSteps = 1'000'000;           // of one match, besides 16 for each byte of text
constexpr size_t kWindow = 256;                  // places tried between two looks at the clock
constexpr auto kTime = std::chrono::seconds(2);  // of one text, besides 2 s for each MiB

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
template <class T>
using Handle = std::unique_ptr<T, Free>;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  const int length = pcre2_get_error_message(code, buffer, sizeof buffer);
  return length < 0 ? "unknown error" : std::string(reinterpret_cast<const char*>(buffer));
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

class Pcre2Matcher final : public Matcher {
 public:
  explicit Pcre2Matcher(std::string_view pattern) : pattern_(pattern) {
    const std::string translated = regex_to_pcre2(pattern);
    const Handle<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
    if (context == nullptr) throw std::bad_alloc();
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context.get(), kMaxNesting);
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(units(translated), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT, &error, &at,
                              context.get()));
    if (code_ == nullptr) {
      throw Error("[tokenizer] the pattern {}: {} at byte {} of its translation", utf8_printable(pattern, 400),
                  message_of(error), at);
    }
  }

  void find_all(std::string_view text, std::vector<Piece>& out) const override {
    const Handle<pcre2_match_data> data(pcre2_match_data_create(1, nullptr));
    const Handle<pcre2_match_context> context(pcre2_match_context_create(nullptr));
    if (data == nullptr || context == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), static_cast<uint32_t>(kSteps + 16 * std::min<size_t>(text.size(), 1 << 27)));
    pcre2_set_heap_limit(context.get(), kHeapKiB);
    const auto deadline = Clock::now() + kTime + std::chrono::microseconds(2 * text.size());
    size_t last_end = SIZE_MAX;  // of the last match
    for (size_t pos = 0; pos <= text.size();) {
      const size_t limit = std::min(text.size(), pos + kWindow);
      pcre2_set_offset_limit(context.get(), limit);
      const int found =
          pcre2_match(code_.get(), units(text), text.size(), pos, PCRE2_NO_UTF_CHECK, data.get(), context.get());
      if (found == PCRE2_ERROR_NOMATCH) {
        pos = limit + 1;
        while (pos < text.size() && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80) pos++;
      } else if (found < 0) {
        fail(message_of(found), text.size());
      } else {
        const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data.get());
        const size_t begin = match[0], end = match[1];
        if (begin == end && end == last_end) {  // no empty match right behind the last one
          if (end >= text.size()) break;
          pos = end + char_length(text[end]);
          continue;
        }
        if (end < begin || (last_end != SIZE_MAX && begin < last_end)) fail("a match that ends before it begins", 0);
        out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
        pos = last_end = end;
      }
      if (Clock::now() > deadline) fail("it takes too long", text.size());
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what, size_t bytes) const {
    throw Error("[tokenizer] the pattern {} on a text of {} bytes: {}", utf8_printable(pattern_, 400), bytes, what);
  }

  std::string pattern_;
  Handle<pcre2_code> code_;
};

}  // namespace

std::shared_ptr<const Matcher> compile_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    throw Error("[tokenizer] the pattern {} has {} bytes, at most {} allowed", utf8_printable(pattern, 400),
                pattern.size(), kMaxPattern);
  }
  return std::make_shared<Pcre2Matcher>(pattern);
}

bool has_regex() { return true; }

}  // namespace ingot
