#include "text/split/normalizer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"
#include "text/model/byte_level.h"
#include "text/unicode/unicode.h"
#include "text/unicode/unicode_library.h"

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

// Every character that `keep` gives, changed as it says: keep(cp) is the character to write, or kDrop.
constexpr uint32_t kDrop = UINT32_MAX;
template <class Keep>
std::string map_characters(std::string_view text, Keep&& keep) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size(); pos += char_length(text[pos])) {
    const uint32_t cp = keep(char_at(text, pos));
    if (cp != kDrop) utf8_append(out, cp);
  }
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size(); pos += char_length(text[pos])) append_lower(out, char_at(text, pos));
  return out;
}

uint32_t bert_clean(uint32_t cp) {
  if (cp == '\t' || cp == '\n' || cp == '\r') return ' ';
  if (cp == 0xFFFD || is_other_8(cp)) return kDrop;
  return (category_of(cp) & kSpace) ? ' ' : cp;
}

bool is_ideograph(uint32_t cp) {
  return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) || (cp >= 0x20000 && cp <= 0x2A6DF) ||
         (cp >= 0x2A700 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) || (cp >= 0xF900 && cp <= 0xFAFF) ||
         (cp >= 0x2F800 && cp <= 0x2FA1F);
}

std::string space_ideographs(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (size_t pos = 0; pos < text.size(); pos += char_length(text[pos])) {
    const std::string_view character = text.substr(pos, char_length(text[pos]));
    const bool apart = is_ideograph(char_at(text, pos));
    out.append(apart ? " " : "").append(character).append(apart ? " " : "");
  }
  return out;
}

uint32_t nmt(uint32_t cp) {
  if ((cp >= 0x1 && cp <= 0x8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F)) return kDrop;
  if (cp == 0x7F || cp == 0x8F || cp == 0x9F) return kDrop;
  const bool space = cp == 0x9 || cp == 0xA || cp == 0xC || cp == 0xD || cp == 0x1680 ||
                     (cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 || cp == 0xFEFF ||
                     cp == 0xFFFD;
  return space ? ' ' : cp;
}

void check_size(size_t size, size_t limit) {
  if (size > limit) throw Error("[tokenizer] normalization makes more than {} bytes of a text", limit);
}

bool apply_simple(NormalizerStep::Kind kind, std::string_view text, std::string& out) {
  using Kind = NormalizerStep::Kind;
  switch (kind) {
    case Kind::kNfd:
      out = to_nfd(text);
      return true;
    case Kind::kNfkc:
      return to_nfkc(text, out);
    case Kind::kNfkd:
      out = to_nfkd(text);
      return true;
    case Kind::kSqueezeSpaces:
      out = squeeze_spaces(text);
      return true;
    case Kind::kLowercase:
      out = lowercase(text);
      return true;
    case Kind::kStripMarks:
      out = map_characters(text, [](uint32_t cp) { return is_mark_9(cp) ? kDrop : cp; });
      return true;
    case Kind::kStripNonspacing:
      out = map_characters(text, [](uint32_t cp) { return is_nonspacing_8(cp) ? kDrop : cp; });
      return true;
    case Kind::kBertClean:
      out = map_characters(text, bert_clean);
      return true;
    case Kind::kBertIdeographs:
      out = space_ideographs(text);
      return true;
    case Kind::kNmt:
      out = map_characters(text, nmt);
      return true;
    case Kind::kByteLevel:
      append_byte_letters(text, out);
      return true;
    default:
      return to_nfc(text, out);
  }
}

// The text after `step` in `out`; false with `out` as it was where the step changes nothing.
bool apply_step(const NormalizerStep& step, std::string_view text, size_t limit, std::string& out) {
  switch (step.kind) {
    case NormalizerStep::Kind::kPrepend:
      if (text.empty()) return false;
      out.reserve(step.to.size() + text.size());
      out.assign(step.to).append(text);
      return true;
    case NormalizerStep::Kind::kReplace:
      if (text.find(step.from) == text.npos) return false;
      out = replace_all(text, step.from, step.to, limit);
      return true;
    case NormalizerStep::Kind::kReplaceMatches:
      return replace_matches(*step.matcher, text, step.to, limit, out);
    case NormalizerStep::Kind::kStrip:
      out.assign(strip(text, step.left, step.right));
      return true;
    case NormalizerStep::Kind::kCharsmap:
      return step.charsmap->apply_clusters(text, out);
    default:
      return apply_simple(step.kind, text, out);
  }
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

bool replace_matches(const Matcher& matcher, std::string_view text, std::string_view to, size_t limit,
                     std::string& out) {
  std::vector<Piece> matches;
  if (!text.empty()) matcher.find_all(text, matches);
  if (matches.empty()) return false;
  size_t done = 0;
  for (const Piece match : matches) {
    out.append(text.substr(done, match.begin - done)).append(to);
    check_size(out.size(), limit);
    done = match.end;
  }
  out.append(text.substr(done));
  return true;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to, size_t limit) {
  if (from.size() == 1 && to.size() <= 4 && text.size() <= limit / 4) return replace_byte(text, from[0], to);
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  size_t done = 0;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    check_size(out.size(), limit);
    done = at + from.size();
  }
  return out.append(text, done, text.npos);
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer) const {
  const size_t limit = 64 * text.size() + (size_t{16} << 20);
  std::string next;
  for (const NormalizerStep& step : steps_) {
    next.clear();
    if (!apply_step(step, text, limit, next)) continue;
    check_size(next.size(), limit);
    std::swap(buffer, next);
    text = buffer;
  }
  return text;
}

}  // namespace ingot
