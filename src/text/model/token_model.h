// What turns a piece of text into tokens: BPE, Unigram, WordPiece or WordLevel. Immutable after loading.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/model/merge.h"
#include "text/model/vocab.h"
#include "text/model/word_cache.h"

namespace ingot {

// The best way to a place of a piece, for Unigram: its score and the last token of it.
struct PathNode {
  double score = 0;
  uint32_t length = 0;     // bytes of that token
  Token token = kNoToken;  // kNoToken: no way leads here
};

// The memory of one call of Tokenizer::encode, reused from word to word.
struct ModelScratch {
  Symbols symbols;
  std::vector<PathNode> path;
  std::vector<size_t> steps;
  // Text may become control tokens: those that the vocabulary's table of bytes has.
  bool control = false;
  std::optional<WordCache> cache;  // where the caller wants one; of one model only
};

class TokenModel {
 public:
  TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;
  virtual ~TokenModel() = default;

  // Appends the piece's tokens. REQUIRES: valid UTF-8, not empty, less than 4 GiB.
  virtual void encode(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const = 0;
};

}  // namespace ingot
