#include "text/model/wordlevel.h"

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {

void WordLevel::encode(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const {
  Token token = vocab_->find(word);
  if (token != kNoToken && vocab_->kind(token) == TokenKind::kControl && !scratch.control) token = kNoToken;
  if (token == kNoToken) token = unknown_;
  if (token == kNoToken) {
    throw Error("[tokenizer] '{}' is no token, and the vocabulary has none for unknown words", utf8_printable(word));
  }
  out.push_back(token);
}

}  // namespace ingot
