// Text to tokens and back, exactly as the model's own tokenizer does it.
//
// A text passes: added tokens are cut out (text/added_tokens.h), the rest is normalized (text/split/normalizer.h), cut
// into pieces (text/split/pretokenizer.h), each piece becomes tokens (text/model/token_model.h), and the whole is
// framed by BOS and EOS. The way back: text/decode/decoder.h. The loaders (tokenizer_gguf.cpp, tokenizer_json.cpp, …)
// only fill these parts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/decode/decoder.h"
#include "text/model/token_model.h"
#include "text/model/vocab.h"
#include "text/split/normalizer.h"
#include "text/split/pretokenizer.h"

namespace ingot {

class Gguf;

// Called between the pieces of a long text, with the tokens made so far: what it throws ends the call.
using EncodePause = std::function<void(size_t tokens)>;

struct EncodeOptions {
  bool add_special = false;    // frame the text by BOS and EOS as the model asks for it
  bool parse_special = false;  // "<|im_end|>" in the text is that token; otherwise it is ten characters
  // Bytes of the text in which control tokens are text even with parse_special: what users wrote. Sorted, disjoint.
  std::span<const TextRange> plain = {};
  const EncodePause* pause = nullptr;  // none: it runs to its end
};

// What a loader fills in.
struct TokenizerParts {
  std::string kind;                                          // for people: "byte-level BPE, smollm"
  std::unique_ptr<Vocab> vocab = std::make_unique<Vocab>();  // its address stays: the model points to it
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  Decoder decoder;
  std::vector<Token> prefix;  // of add_special
  std::vector<Token> suffix;
  std::optional<Token> bos, eos, unknown, pad;
  std::vector<Token> end_tokens;  // besides eos
};

// Immutable after loading: any number of threads may use it.
class Tokenizer {
 public:
  // A GGUF model or vocabulary, a tokenizer.json, a SentencePiece *.model, a llama2.c *.bin, or a directory that holds
  // tokenizer.json, tokenizer.model or tok*.bin. Throws Error.
  static std::unique_ptr<Tokenizer> load(const std::string& path);
  static std::unique_ptr<Tokenizer> from_gguf(const Gguf& gguf);
  explicit Tokenizer(TokenizerParts parts);
  ~Tokenizer();

  // Throws Error where the text is not valid UTF-8 or has 2 GiB or more.
  std::vector<Token> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Always valid UTF-8: each maximal invalid subpart becomes U+FFFD, or each byte where a tokenizer.json has
  // ByteFallback. Without `show_special` special tokens are left out. Throws Error on an id that is no token.
  std::string decode(std::span<const Token> tokens, bool show_special = false) const;

  // Appends what one more token settles of a text that stands at `state`, and the rest when no token follows. decode()
  // and StreamDecoder are made of these.
  void append_token(Token token, bool show_special, Decoder::State& state, std::string& out) const;
  void finish_text(Decoder::State& state, std::string& out) const { parts_.decoder.finish(state, out); }

  // The bytes that a token stands for; need not be valid UTF-8. A special token's are its name.
  std::string token_bytes(Token token) const;
  bool is_special(Token token) const;
  bool contains(Token token) const;
  // The token with this name (special and added tokens) or with exactly these bytes.
  std::optional<Token> token_id(std::string_view text) const;

  int vocab_size() const { return static_cast<int>(parts_.vocab->size()); }  // one more than the largest id
  std::optional<Token> bos() const { return parts_.bos; }
  std::optional<Token> eos() const { return parts_.eos; }
  std::optional<Token> unknown() const { return parts_.unknown; }
  std::optional<Token> pad() const { return parts_.pad; }
  // All that end an answer: EOS, end of turn, end of message. Sorted.
  const std::vector<Token>& end_tokens() const { return parts_.end_tokens; }
  bool adds_bos() const { return parts_.bos && !parts_.prefix.empty() && parts_.prefix.front() == *parts_.bos; }
  bool adds_eos() const { return parts_.eos && !parts_.suffix.empty() && parts_.suffix.back() == *parts_.eos; }
  const std::string& kind() const { return parts_.kind; }

 private:
  struct Scratch;
  class ScratchPool;
  void encode_text(std::string_view text, bool at_start, Scratch& scratch, std::vector<Token>& out) const;
  void encode_segment(std::string_view whole, const Segment& part, const EncodeOptions& options, Scratch& scratch,
                      std::vector<Token>& out) const;
  void check(Token token) const;

  TokenizerParts parts_;
  std::unique_ptr<ScratchPool> pool_;  // safe for threads
};

}  // namespace ingot
