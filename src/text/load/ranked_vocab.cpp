#include "text/load/ranked_vocab.h"

#include <algorithm>
#include <array>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/model/bpe.h"

namespace ingot {

namespace {

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

void check_bytes(const Vocab& vocab, const std::string& path) {
  for (int i = 0; i < 256; i++) {
    const char byte = static_cast<char>(i);
    if (vocab.find(std::string_view(&byte, 1)) == kNoToken) {
      throw Error("[tokenizer] {}: the byte 0x{:02X} has no token", path, i);
    }
  }
}

// Finds the two tokens that each token's bytes are at last, when they merge by rank. Another pair of the same bytes
// never meets in any text: while no merge reaches over the token's ends, its bytes merge as they do alone. So one merge
// for each token says the same as its rank, and the table by pairs serves.
class PairFinder {
 public:
  PairFinder(const Vocab& vocab, const Bpe& bpe) : vocab_(vocab), bpe_(bpe) {
    for (int i = 0; i < 256; i++) {
      const char byte = static_cast<char>(i);
      bytes_[static_cast<size_t>(i)] = vocab.find(std::string_view(&byte, 1));
    }
  }

  // False where the bytes never become two tokens. REQUIRES: the merges of all tokens of lower rank are in the model.
  bool find(Token token, Token& left, Token& right) {
    const std::string_view bytes = vocab_.bytes(token);
    start(bytes);
    merge_spans(symbols_, [&](Token a, Token b, uint32_t, uint32_t) { return bpe_.find_merge(a, b); });
    // Nearly always: the parts have lower ranks. Pairs of ids are found ten times as fast as bytes.
    if (symbols_.size() == 2) {
      left = symbols_.tokens[0];
      right = symbols_.tokens[1];
      return true;
    }
    start(bytes);
    bool found = false;
    merge_spans(symbols_, [&](Token a, Token b, uint32_t begin, uint32_t end) {
      if (begin == 0 && end == bytes.size()) {
        found = true;
        left = a;
        right = b;
        return kNoMerge;
      }
      const Token whole = vocab_.find(bytes.substr(begin, end - begin));
      return whole == kNoToken ? kNoMerge : Merge{static_cast<uint32_t>(whole), whole};
    });
    return found;
  }

 private:
  void start(std::string_view bytes) {
    symbols_.clear();
    for (size_t i = 0; i < bytes.size(); i++) symbols_.push(bytes_[static_cast<unsigned char>(bytes[i])], i + 1);
  }

  const Vocab& vocab_;
  const Bpe& bpe_;
  std::array<Token, 256> bytes_;
  Symbols symbols_;
};

void add_special(Token id, const AddedToken& special, TokenizerParts& parts) {
  AddedToken added = special;
  added.id = id;
  parts.vocab->add(added.content, added.special ? TokenKind::kControl : TokenKind::kUserDefined);
  parts.added.add(std::move(added), Normalizer());
}

}  // namespace

bool append_base64(std::string_view text, std::string& out) {
  if (text.size() % 4 != 0) return false;
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const size_t padding = !last || text[i + 3] != '=' ? 0 : text[i + 2] == '=' ? 2 : 1;
    uint32_t bits = 0;
    for (size_t j = 0; j < 4; j++) {
      const int digit = j + padding < 4 ? base64_digit(text[i + j]) : 0;
      if (digit < 0) return false;
      bits = bits << 6 | static_cast<uint32_t>(digit);
    }
    for (size_t j = 0; j + padding < 3; j++) out.push_back(static_cast<char>(bits >> (16 - 8 * j)));
  }
  return true;
}

void build_ranked(const std::vector<std::string>& ranked, Token first_rank, const std::map<Token, AddedToken>& special,
                  const std::string& path, TokenizerParts& parts) {
  Vocab& vocab = *parts.vocab;
  const Token end_rank = first_rank + static_cast<Token>(ranked.size());
  const Token end = special.empty() ? end_rank : std::max(end_rank, special.rbegin()->first + 1);
  size_t bytes = 0;
  for (const std::string& token : ranked) bytes += token.size();
  vocab.reserve(static_cast<size_t>(end), (CheckedSize(special.size(), "[tokenizer] bytes") * 32 + bytes).as_size());
  for (Token id = 0; id < end; id++) {
    const std::string_view text =
        id >= first_rank && id < end_rank ? std::string_view(ranked[static_cast<size_t>(id - first_rank)]) : "";
    if (const auto found = special.find(id); found != special.end()) {
      if (!text.empty()) {
        throw Error("[tokenizer] {}: the id {} is both '{}' and '{}'", path, id, utf8_printable(text),
                    utf8_printable(found->second.content));
      }
      add_special(id, found->second, parts);
      continue;
    }
    if (text.size() > kMaxRankedToken) {
      throw Error("[tokenizer] {}: token {} has {} bytes, at most {} allowed", path, id, text.size(), kMaxRankedToken);
    }
    vocab.add(text, text.empty() ? TokenKind::kAbsent : TokenKind::kNormal);
    if (!text.empty() && !vocab.index(id)) {
      throw Error("[tokenizer] {}: token {} ('{}') is there twice", path, id, utf8_printable(text));
    }
  }
  check_bytes(vocab, path);
  auto bpe = std::make_unique<Bpe>(vocab, BpeOptions{.byte_level = true, .ignore_merges = true});
  bpe->reserve_merges(ranked.size());
  PairFinder pairs(vocab, *bpe);
  for (Token id = first_rank; id < end_rank; id++) {
    Token left = kNoToken, right = kNoToken;
    if (vocab.bytes(id).size() < 2 || vocab.kind(id) != TokenKind::kNormal) continue;
    if (pairs.find(id, left, right)) bpe->add_merge(left, right, id);
  }
  parts.model = std::move(bpe);
}

}  // namespace ingot
