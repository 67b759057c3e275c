#include "text/model/byte_level.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace ingot {

namespace {

// Characters of the alphabet reach up to U+0143; entry: the byte, or -1.
constexpr size_t kLetters = 0x144;

constexpr std::array<int16_t, kLetters> make_alphabet() {
  std::array<int16_t, kLetters> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  size_t next = 0x100;
  for (size_t byte = 0; byte < 256; byte++) {
    // Printable Latin-1 characters stand for themselves, the other 68 bytes for U+0100 and on.
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    bytes[printable ? byte : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<int16_t, kLetters> kAlphabet = make_alphabet();

constexpr std::array<uint16_t, 256> make_letters() {
  std::array<uint16_t, 256> letters{};
  for (size_t cp = 0; cp < kLetters; cp++) {
    if (kAlphabet[cp] >= 0) letters[static_cast<size_t>(kAlphabet[cp])] = static_cast<uint16_t>(cp);
  }
  return letters;
}

constexpr std::array<uint16_t, 256> kLetterOf = make_letters();

}  // namespace

bool append_byte_level(std::string_view text, std::string& out) {
  const size_t before = out.size();
  for (size_t pos = 0; pos < text.size();) {
    // Letters of the alphabet have one byte or two; anything longer is refused below whatever it decodes to.
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[pos + i])); };
    uint32_t cp = byte(0);
    size_t length = 1;
    if (cp >= 0x80) length = cp >= 0xC2 && cp < 0xE0 && pos + 1 < text.size() && (byte(1) & 0xC0) == 0x80 ? 2 : 0;
    if (length == 2) cp = (cp & 0x1F) << 6 | (byte(1) & 0x3F);
    if (length == 0 || cp >= kLetters || kAlphabet[cp] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(static_cast<unsigned char>(kAlphabet[cp])));
    pos += length;
  }
  return true;
}

void append_byte_letters(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) utf8_append(out, kLetterOf[static_cast<unsigned char>(byte)]);
}

}  // namespace ingot
