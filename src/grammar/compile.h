// From what a request asks for to what matchers share. Takes milliseconds and never walks the vocabulary; any thread
// may call it, several at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/limits.h"

namespace ingot::grammar {

class Vocabulary;
class Grammar;

enum class Language : uint8_t {
  kJsonObject,     // any JSON object; no text
  kJsonSchema,     // text: a JSON Schema
  kRegex,          // text: an ECMA-262 pattern that the whole answer matches
  kChoice,         // choices: the answer is one of them
  kGbnf,           // text: llama.cpp's grammars
  kLark,           // text: Lark, as OpenAI's custom tools have it
  kStructuralTag,  // text: JSON: free text in which tags begin parts with a schema
  kCalls,          // text: JSON: calls of tools in a model's form: grammar/calls/calls.h
};

struct Source {
  Language language = Language::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};
  bool strict = false;  // kJsonSchema: an unknown keyword is an error

  bool operator==(const Source&) const = default;
  std::string key() const;  // equal for equal sources and for no others: for a cache
};

// What all matchers of one grammar share: the grammar, the vocabulary, and the lexer's states and masks as far as they
// were needed so far. Safe for threads.
class Compiled {
 public:
  Compiled(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary, const Limits& limits);
  ~Compiled();
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const Grammar& grammar() const { return *grammar_; }
  const Limits& limits() const { return limits_; }
  size_t memory() const;  // bytes, without the vocabulary; grows while it is used

  struct Shared;  // of the matchers
  Shared& shared() const { return *shared_; }

 private:
  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  Limits limits_;
  std::unique_ptr<Shared> shared_;
};

// Throws GrammarError: the source is refused (place() says where), or a limit was reached.
std::shared_ptr<const Compiled> compile(const Source& source, std::shared_ptr<const Vocabulary> vocabulary,
                                        const Limits& limits = {});
// The grammar alone; `vocabulary` is asked for special tokens only.
std::shared_ptr<const Grammar> make_grammar(const Source& source, const Vocabulary& vocabulary, const Limits& limits);

}  // namespace ingot::grammar
