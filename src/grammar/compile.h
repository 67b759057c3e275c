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
class MaskStore;
class MemoryAccount;

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
  // kCalls: what an answer may be instead of calls, behind `lead`: none, or one source that is not of kCalls. `lead`
  // may hold names of special tokens.
  std::vector<Source> instead = {};
  std::string lead = {};

  bool operator==(const Source&) const = default;
  std::string key() const;  // equal for equal sources and for no others: for a cache
  size_t bytes() const;     // of all of its texts
};

// Whose a grammar is.
struct GrammarOwner {
  // What it shares with other grammars of the same owner; none: masks of JSON's own lexemes alone are shared.
  std::shared_ptr<MaskStore> masks = nullptr;
  // Who counts the bytes of the grammar from the first count() on, and those of its matchers; none: nobody.
  std::shared_ptr<MemoryAccount> account = nullptr;
};

// What all matchers of one grammar share: the grammar, the vocabulary, and the lexer's states and masks as far as they
// were needed so far. Safe for threads.
class Compiled {
 public:
  Compiled(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary, const Limits& limits,
           GrammarOwner owner = {});
  ~Compiled();
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const Grammar& grammar() const { return *grammar_; }
  const Limits& limits() const { return limits_; }
  // Both without a lock: bytes, without the vocabulary and the store of masks; grows while it is used.
  size_t memory() const;
  // Its tables are half way to a limit, by what matchers have needed so far: whoever comes next had better compile it
  // anew, so that no answer fails by what others have asked for.
  bool worn() const;
  // Tells the owner's account what it takes by now. Throws LimitError where there is no room for it.
  void count() const;
  const std::shared_ptr<MemoryAccount>& account() const { return account_; }
  const std::shared_ptr<MaskStore>& masks() const { return masks_; }

  struct Shared;  // of the matchers
  Shared& shared() const { return *shared_; }

 private:
  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  Limits limits_;
  size_t grammar_bytes_;
  std::shared_ptr<MaskStore> masks_;
  std::shared_ptr<MemoryAccount> account_;
  std::unique_ptr<Shared> shared_;
};

// Before the place of an error in Source::instead.
inline constexpr std::string_view kInsteadPlace = "instead:";

// Throws GrammarError: the source is refused (place() says where), or a limit was reached; and what limits.meter
// throws.
std::shared_ptr<const Compiled> compile(const Source& source, std::shared_ptr<const Vocabulary> vocabulary,
                                        const Limits& limits = {}, GrammarOwner owner = {});
// The grammar alone; `vocabulary` is asked for special tokens only.
std::shared_ptr<const Grammar> make_grammar(const Source& source, const Vocabulary& vocabulary, const Limits& limits);

}  // namespace ingot::grammar
