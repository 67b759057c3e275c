#include "text/normalizer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "text/chars.h"
#include "text/unicode.h"

namespace ingot {

namespace {

std::string_view strip(std::string_view text, bool left, bool right) {
  const auto space = [&](size_t pos) { return (category_of(char_at(text, pos)) & kSpace) != 0; };
  size_t begin = 0;
  while (left && begin < text.size() && space(begin)) begin += char_length(text[begin]);
  text.remove_prefix(begin);
  while (right && !text.empty()) {
    const size_t last = char_before(text, text.size());
    if (!space(last)) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string squeeze_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out.push_back(c);
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// The text after `step` in `out`; false with `out` as it was where the step changes nothing.
bool apply_step(const NormalizerStep& step, std::string_view text, std::string& out) {
  switch (step.kind) {
    case NormalizerStep::Kind::kNfc:
      return to_nfc(text, out);
    case NormalizerStep::Kind::kNfd:
      out = to_nfd(text);
      return true;
    case NormalizerStep::Kind::kPrepend:
      if (text.empty()) return false;
      out.reserve(step.to.size() + text.size());
      out.assign(step.to).append(text);
      return true;
    case NormalizerStep::Kind::kReplace:
      if (text.find(step.from) == text.npos) return false;
      out = replace_all(text, step.from, step.to);
      return true;
    case NormalizerStep::Kind::kStrip:
      out.assign(strip(text, step.left, step.right));
      return true;
    case NormalizerStep::Kind::kSqueezeSpaces:
      out = squeeze_spaces(text);
      return true;
  }
  return false;
}

}  // namespace

// One character of one byte by up to four: " " by "▁" in all texts of many models. Without a jump for each word, whose
// length no processor guesses.
static std::string replace_byte(std::string_view text, char from, std::string_view to) {
  const auto n = static_cast<size_t>(std::count(text.begin(), text.end(), from));
  std::string out(text.size() - n + n * to.size() + 4, '\0');
  std::array<char, 4> replacement{};
  std::copy(to.begin(), to.end(), replacement.begin());
  char* p = out.data();
  for (const char c : text) {
    const std::array<char, 4> plain = {c, 0, 0, 0};
    std::memcpy(p, c == from ? replacement.data() : plain.data(), 4);
    p += c == from ? to.size() : 1;
  }
  out.resize(out.size() - 4);
  return out;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.size() == 1 && to.size() <= 4) return replace_byte(text, from[0], to);
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  size_t done = 0;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  return out.append(text, done, text.npos);
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer) const {
  std::string next;
  for (const NormalizerStep& step : steps_) {
    next.clear();
    if (!apply_step(step, text, next)) continue;
    std::swap(buffer, next);
    text = buffer;
  }
  return text;
}

}  // namespace ingot
