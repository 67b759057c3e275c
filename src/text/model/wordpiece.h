// WordPiece: at each place of a word the longest token, those behind the first marked by a prefix ("##").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/model/token_model.h"
#include "text/model/token_trie.h"
#include "text/model/vocab.h"

namespace ingot {

struct WordPieceOptions {
  Token unknown = kNoToken;     // what stands for a word that tokens cannot write
  std::string prefix = "##";    // of every token but a word's first
  size_t max_characters = 100;  // a longer word is unknown
};

// Holds a pointer to its vocabulary, which must outlive it. Text becomes a control token only with
// ModelScratch::control.
class WordPiece final : public TokenModel {
 public:
  // Throws Error where a token has more than TokenTrie::kMaxLength bytes.
  WordPiece(const Vocab& vocab, WordPieceOptions options);

  // Throws Error where the word is unknown and there is no token for that.
  void encode(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const override;

 private:
  bool write(std::string_view word, bool control, std::vector<Token>& out) const;

  const Vocab* vocab_;
  WordPieceOptions options_;
  TokenTrie trie_;
  TokenTrie::Node continued_ = TokenTrie::kNone;  // behind the prefix
};

}  // namespace ingot
