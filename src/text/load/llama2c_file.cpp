// The tokenizer.bin of llama2.c: the longest token's length, then for each token a score, a length and its bytes, with
// spaces where SentencePiece has ▁. Tokens 0, 1 and 2 are unknown, BOS and EOS, the next 256 the bytes.
#include <bit>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/load/tokenizer_load.h"
#include "text/split/normalizer.h"

namespace ingot {

namespace {

constexpr size_t kReserved = 3;
constexpr size_t kBytes = 256;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }
  uint32_t u32() {
    const std::string_view bytes = take(4);
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return value;
  }
  std::string_view take(size_t n) {
    if (n > rest_.size()) throw Error("[tokenizer] llama2.c: {} bytes wanted, {} left", n, rest_.size());
    const std::string_view result = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return result;
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::unique_ptr<Tokenizer> parse_llama2c(std::string_view bytes, const std::string& path) {
  Reader reader(bytes);
  const uint32_t longest = reader.u32();
  TokenizerParts parts;
  Vocab& vocab = *parts.vocab;
  std::vector<float> scores;
  static constexpr const char* kNames[] = {"<unk>", "<s>", "</s>"};
  for (size_t i = 0; !reader.done(); i++) {
    scores.push_back(std::bit_cast<float>(reader.u32()));
    const uint32_t length = reader.u32();
    if (length > longest) {
      throw Error("[tokenizer] {}: token {} has {} bytes, the longest is said to have {}", path, i, length, longest);
    }
    const std::string_view text = reader.take(length);
    if (i < kReserved) {
      vocab.add(kNames[i], i == 0 ? TokenKind::kUnknown : TokenKind::kControl);
      continue;
    }
    if (i < kReserved + kBytes) {
      if (parse_byte_token(text) != static_cast<uint8_t>(i - kReserved)) {
        throw Error("[tokenizer] {}: token {} is '{}', not the byte {}", path, i, utf8_printable(text), i - kReserved);
      }
      vocab.add(text, TokenKind::kByte);
      continue;
    }
    const Token token = vocab.add(replace_all(text, " ", "\xE2\x96\x81"), TokenKind::kNormal);
    if (text.empty() || !vocab.index(token)) {
      throw Error("[tokenizer] {}: token {} ('{}') is empty or there twice", path, i, utf8_printable(text));
    }
  }
  if (vocab.size() <= kReserved + kBytes) throw Error("[tokenizer] {} has {} tokens only", path, vocab.size());
  parts.unknown = 0;
  parts.bos = 1;
  parts.eos = 2;
  parts.prefix = {1};
  build_sentencepiece({}, scores, parts);
  for (Token token = 0; token < static_cast<Token>(kReserved); token++) {
    parts.added.add({.id = token, .content = kNames[token], .special = true}, Normalizer());
  }
  parts.kind = "SentencePiece BPE, llama2.c";
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace ingot
