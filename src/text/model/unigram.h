// A unigram language model: of all ways to write a piece in tokens the one with the highest sum of scores.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/model/token_model.h"
#include "text/model/token_trie.h"
#include "text/model/vocab.h"

namespace ingot {

struct UnigramOptions {
  Token unknown = kNoToken;    // what stands for characters without a token, neighbours as one
  bool byte_fallback = false;  // such characters become their bytes' tokens (<0x0A>) where the vocabulary has all
  bool single = false;         // sums are kept as 32-bit floats, which decides between ways that are equally good
  std::optional<double> lowest = std::nullopt;  // the lowest score; otherwise of all scores
};

// Holds a pointer to its vocabulary, which must outlive it. Text becomes a control token only with
// ModelScratch::control.
class Unigram final : public TokenModel {
 public:
  // `scores`: one for each token that the model has, in their order; later tokens of the vocabulary are added ones.
  // An unknown character counts 10 less than the lowest. Throws Error where a score is not finite, where there are
  // more scores than tokens, or where a token has more than TokenTrie::kMaxLength bytes.
  Unigram(const Vocab& vocab, UnigramOptions options, std::span<const double> scores);

  // Throws Error where a character is unknown and there is no token for that. Time and memory are linear in the
  // piece; the memory is that of its longest part that tokens overlap throughout.
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const override;

 private:
  struct Unknown;
  void extend(std::string_view piece, size_t at, size_t base, ModelScratch& scratch) const;
  void trace(std::string_view piece, size_t base, size_t end, ModelScratch& scratch, Unknown& unknown,
             std::vector<Token>& out) const;
  void flush(std::string_view piece, bool control, Unknown& unknown, std::vector<Token>& out) const;
  void write_unknown(std::string_view text, bool control, std::vector<Token>& out) const;

  const Vocab* vocab_;
  UnigramOptions options_;
  TokenTrie trie_;
  std::vector<double> scores_;
  std::vector<bool> control_;  // of each token: whether it is a control token
  double unknown_score_ = 0;
  std::array<Token, 256> bytes_{};
};

}  // namespace ingot
