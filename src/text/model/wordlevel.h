// WordLevel: a word is a token, or unknown.
#pragma once

#include <string_view>
#include <vector>

#include "text/model/token_model.h"
#include "text/model/vocab.h"

namespace ingot {

// Holds a pointer to its vocabulary, which must outlive it. Text becomes a control token only with
// ModelScratch::control.
class WordLevel final : public TokenModel {
 public:
  WordLevel(const Vocab& vocab, Token unknown) : vocab_(&vocab), unknown_(unknown) {}

  // Throws Error where the word is unknown and there is no token for that.
  void encode(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const override;

 private:
  const Vocab* vocab_;
  Token unknown_;
};

}  // namespace ingot
