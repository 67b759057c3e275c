// What the loaders of vocabularies share. Inside text/ only.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.h"
#include "text/tokenizer.h"

namespace ingot {

struct SentencePieceOptions {
  bool unigram = false;            // otherwise BPE
  bool single = false;             // unigram: scores are added as 32-bit floats
  bool dummy_prefix = true;        // a space before the text
  bool squeeze_spaces = false;     // runs of spaces to one
  bool escape_spaces = true;       // ▁ for a space
  bool suffix = false;             // words carry their space behind them
  std::string_view charsmap = {};  // empty: none
};

// Fills in all stages of a SentencePiece vocabulary whose tokens are in parts.vocab, indexed where text may become
// them; parts.unknown is set where there is one. `scores`: one for each token. Throws Error on a score that is not
// finite and on a charsmap that is none.
void build_sentencepiece(const SentencePieceOptions& options, std::span<const float> scores, TokenizerParts& parts);

// Adds to parts.end_tokens the special tokens whose names say that they end a turn or a text (<|im_end|>, <|eot_id|>).
void add_named_end_tokens(TokenizerParts& parts);

// One loader for each container. `path` names the file in errors.
std::unique_ptr<Tokenizer> load_tokenizer_json(const std::string& path);
std::unique_ptr<Tokenizer> parse_sentencepiece_model(std::string_view bytes, const std::string& path);
std::unique_ptr<Tokenizer> parse_llama2c(std::string_view bytes, const std::string& path);
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, const std::string& path);
std::unique_ptr<Tokenizer> parse_tekken(std::string_view text, const std::string& path);
std::unique_ptr<Tokenizer> parse_tiktoken(std::string_view text, const std::string& path);
// Whether the first line is a token in base64 and a number.
bool looks_like_tiktoken(std::string_view bytes);

// What the files beside a tokenizer say: tokenizer_config.json and generation_config.json, each where it is there.
struct TokenizerConfig {
  std::string bos, eos, unknown, pad;  // names; empty: not said
  std::optional<bool> add_bos, add_eos;
  std::optional<bool> lowercase;  // do_lower_case
  std::string tokenizer_class;
  std::vector<AddedToken> added;  // added_tokens_decoder
  std::vector<Token> end_tokens;  // generation_config's eos_token_id
};
TokenizerConfig read_tokenizer_config(const std::string& directory);
// The tokenizer.json that says what vocab.txt says, or vocab.json with merges.txt. `path` names them in errors.
std::string wordpiece_as_json(const std::string& text, const TokenizerConfig& config, const std::string& path);
std::string gpt2_as_json(const std::string& vocab_text, const std::string& merges, const TokenizerConfig& config,
                         const std::string& path);
// Sets bos, eos, unknown, pad and end_tokens of `parts` from it. Names that are no token are ignored.
void apply_tokenizer_config(const TokenizerConfig& config, TokenizerParts& parts);

// The stages that a tokenizer.json describes. Each throws Error naming what it does not know.
void read_normalizer(const Json& json, Normalizer& normalizer);
// True where the last stage writes bytes as characters (ByteLevel).
bool read_pre_tokenizer(const Json& json, PreTokenizer& pre_tokenizer);
void read_decoder(const Json& json, Decoder& decoder);
void read_post_processor(const Json& json, const Vocab& vocab, std::vector<Token>& prefix, std::vector<Token>& suffix);
// An entry of added_tokens or added_tokens_decoder.
AddedToken read_added_token(const JsonObject& object, Token id);

}  // namespace ingot
