#include "text/decoder.h"

#include "text/byte_level.h"
#include "text/normalizer.h"
#include "text/vocab.h"

namespace ingot {

namespace {

std::string decode_entry(const Decoder& decoder, std::string_view entry, bool first) {
  std::string text(entry);
  if (first && !decoder.drop_in_first.empty()) text = replace_all(text, decoder.drop_in_first, "");
  for (const auto& [from, to] : decoder.replace) {
    if (text.find(from) != text.npos) text = replace_all(text, from, to);
  }
  if (decoder.byte_fallback) {
    if (const auto byte = parse_byte_token(text)) return std::string(1, static_cast<char>(*byte));
  }
  if (decoder.byte_level) {
    std::string bytes;
    if (append_byte_level(text, bytes)) return bytes;
  }
  return text;
}

}  // namespace

void Decoder::append(std::string_view entry, State& state, std::string& out) const {
  const std::string text = decode_entry(*this, entry, state.first);
  if (state.strip_left < 0) state.strip_left = strip_left;
  size_t begin = 0;
  while (state.strip_left > 0 && begin < text.size()) {
    if (text[begin] != ' ') {
      state.strip_left = 0;
      break;
    }
    state.strip_left--;
    begin++;
  }
  state.first = false;
  out.append(text, begin);
}

std::string Decoder::bytes(std::string_view entry) const { return decode_entry(*this, entry, false); }

}  // namespace ingot
