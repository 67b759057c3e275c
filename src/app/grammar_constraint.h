// A grammar as the engine's constraint, with the reasoning that may come before it: that is free, and the grammar
// begins after it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace ingot {

// What may stand before the text that the grammar describes.
enum class Preface : uint8_t {
  kNone,
  kReasoning,        // the answer may begin with reasoning
  kOpenedReasoning,  // the prompt ends with the mark that begins it
};

// The same with the model's own marks.
struct PrefaceMarks {
  // NOLINTNEXTLINE(google-explicit-constructor): most models have these marks
  PrefaceMarks(Preface preface = Preface::kNone) : at(preface) {}
  PrefaceMarks(Preface preface, std::string opens, std::string closes)
      : at(preface), open(std::move(opens)), close(std::move(closes)) {}

  Preface at;
  std::string open = "<think>", close = "</think>";
};

// Tokens that stand before and behind the text that the grammar describes, such as the marks of a call.
struct ConstraintFrame {
  std::vector<Token> lead, tail;
};

// Tokens that begin and end reasoning between two marks.
struct ReasoningTokens {
  std::string close;          // the mark
  std::vector<Token> open;    // the other mark; where it is not of one token, or none is special, it is empty
  std::vector<Token> blanks;  // one of them may stand between the mark and the text
  // [n] where the last n bytes were the beginning of the mark: tokens that would end it and go on with text. They may
  // not come, since that text would escape the grammar.
  std::vector<std::vector<Token>> crossing;
};
ReasoningTokens reasoning_tokens(const Tokenizer& tokenizer, const PrefaceMarks& marks = {});

// What the constraints of one model share, with one pair of marks. Immutable but for `on_mask`, which is set before the
// first is used.
struct ConstraintFacts {
  const Tokenizer& tokenizer;  // outlives them
  int vocab = 0;               // logits of the model; its tokenizer may have fewer or more tokens
  ReasoningTokens reasoning = {};
  std::function<void(double seconds)> on_mask = {};  // called by threads beside the engine's, several at once
};

// Clears the bits from this one on.
void clear_from(std::span<uint32_t> words, size_t size);

class GrammarConstraint : public TokenConstraint {
 public:
  // A tail is for grammars that come to an end by themselves, as an object of JSON does.
  GrammarConstraint(std::unique_ptr<grammar::Matcher> matcher, Preface preface, ConstraintFrame frame,
                    std::shared_ptr<const ConstraintFacts> facts);
  ~GrammarConstraint() override;

  std::unique_ptr<TokenConstraint> clone() const override;
  // Throw ConstraintError where the matcher has failed.
  void mask(std::span<uint32_t> words) override;
  void advance(int32_t token) override;
  void rollback(int n) override;
  bool complete() const override;
  bool proposes() const override { return true; }
  // Two or more tokens of the frame, or of a text that must follow.
  void propose(int max, std::vector<int32_t>& draft) override;

 private:
  enum class At : uint8_t {
    kStart,    // the text, or the mark of reasoning
    kOpening,  // within that mark, one token after the other
    kInside,   // of the reasoning
    kAfter,    // its other mark: the text, or a blank before it
    kLead,     // one token after the other
    kText,
    kTail,  // likewise
  };
  // Before a token.
  struct Step {
    At at;
    size_t matched;
    bool matched_text;  // the matcher took it
  };

  void mask_text(std::span<uint32_t> words);
  void mask_reasoning(std::span<uint32_t> words) const;
  void allow(std::span<uint32_t> words, Token token) const;
  bool take_reasoning(int32_t token);
  void begin_text();
  std::optional<Token> forced() const;

  std::unique_ptr<grammar::Matcher> matcher_;
  const std::shared_ptr<const ConstraintFacts> facts_;
  const ConstraintFrame frame_;
  At at_ = At::kText;
  size_t matched_ = 0;  // inside: bytes of the closing mark that the text ends with; tokens of mark, lead or tail
  std::vector<Step> steps_;
  std::vector<uint32_t> words_;  // where the tokenizer has more tokens than the model
};

}  // namespace ingot
