// SentencePiece's own way from text to pieces: its normalization, user-defined pieces cut out, the rest to the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/model/token_model.h"
#include "text/split/charsmap.h"

namespace ingot {

struct SentencePieceNormalizer {
  bool dummy_prefix = true;          // a space before the text
  bool squeeze_spaces = true;        // runs of spaces to one, none at either end
  bool escape_spaces = true;         // ▁ for a space
  bool suffix = false;               // words carry their space behind them: the dummy stands at the end
  std::optional<Charsmap> charsmap;  // strings that are replaced, the longest first
  ByteTrie user_defined;             // pieces that the map leaves alone, by their tokens

  // Throws Error where the result would have more than 64 times the text's bytes and 16 MiB.
  void apply(std::string_view text, std::string& out) const;

 private:
  std::string_view next(std::string_view text, size_t& pos) const;
};

class SentencePieceModel final : public TokenModel {
 public:
  // `cut`: user-defined pieces are found here; otherwise the model finds them among the others.
  SentencePieceModel(SentencePieceNormalizer normalizer, bool cut, std::unique_ptr<TokenModel> inner)
      : normalizer_(std::move(normalizer)), cut_(cut), inner_(std::move(inner)) {}

  void encode(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const override;

 private:
  SentencePieceNormalizer normalizer_;
  bool cut_;
  std::unique_ptr<TokenModel> inner_;
};

}  // namespace ingot
