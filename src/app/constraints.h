// The constraints of one model's answers: grammars compiled when they are asked for, and kept. Any thread; making one
// takes milliseconds, and up to 0.1 s for the first of all, which reads the vocabulary.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/call_constraint.h"
#include "app/grammar_cache.h"
#include "app/grammar_constraint.h"
#include "base/error.h"

namespace ingot {

struct ConstraintOptions {
  grammar::Limits limits = {.nodes = 200'000,
                            .items = 200'000,
                            .set_bytes = size_t{8} << 20,
                            .matcher_bytes = size_t{16} << 20,
                            .mask_work = 200'000,
                            .lexer_work = 10'000'000,
                            .cache_bytes = size_t{8} << 20,
                            .lexer_bytes = size_t{32} << 20};  // of one grammar
  size_t kept_bytes = size_t{64} << 20;                        // of all grammars that are kept
  size_t memory_bytes = size_t{128} << 20;                     // of all, with those in use and being compiled
  size_t compile_bytes = size_t{48} << 20;                     // what one may take while it is compiled
};

// There is no room for a grammar now; there may be later.
struct GrammarRoomError : Error {
  using Error::Error;
};

// How grammars that are not kept are compiled.
struct CompileCall {
  grammar::Meter* meter = nullptr;  // none: nobody counts
  bool reserve = false;             // compile_bytes are taken first: it may be a large one
  // The names of Grammar::relaxed() are put there.
  std::vector<std::string>* relaxed = nullptr;
};

// What is told of them; each may be empty.
struct ConstraintReports {
  std::function<void(double seconds)> compiled = {};  // by the thread that asked
  std::function<void(double seconds)> masked = {};    // by threads beside the engine's, several at once
  std::function<void()> found = {};                   // it was kept
};

class Constraints {
 public:
  // `tokenizer` outlives it and what it makes. `end_tokens`: each may end an answer. `vocab`: logits of the model.
  Constraints(const Tokenizer& tokenizer, std::vector<Token> end_tokens, int vocab,
              const ConstraintOptions& options = {});
  // REQUIRES: nothing was made yet.
  void report(ConstraintReports reports);

  // `lead` and `tail`: texts, with names of control tokens, that stand before and behind (ConstraintFrame). `given`:
  // the beginning of the grammar's text that the prompt ends with. Throws grammar::GrammarError: the source is refused,
  // or beyond a limit; GrammarRoomError; and what the meter throws.
  std::shared_ptr<const TokenConstraint> make(const std::string& tenant, const grammar::Source& source,
                                              const PrefaceMarks& preface, std::string_view lead = {},
                                              std::string_view tail = {}, const CompileCall& call = {},
                                              std::string_view given = {});

  // Free text with calls of tools: `source` is of Language::kCalls and asks for no call. `starts` of the search are
  // filled in.
  std::shared_ptr<const TokenConstraint> make_calls(const std::string& tenant, const grammar::Source& source,
                                                    const CallForm& form, CallSearch search,
                                                    const CompileCall& call = {});

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const ConstraintOptions& options() const { return options_; }
  const GrammarCache& cache() const { return *cache_; }

 private:
  std::shared_ptr<const ConstraintFacts> facts(const PrefaceMarks& marks);
  std::shared_ptr<const grammar::Compiled> compiled(const std::string& tenant, const grammar::Source& source,
                                                    const CompileCall& call);
  std::shared_ptr<const grammar::Compiled> compile(const std::string& tenant, const grammar::Source& source,
                                                   const CompileCall& call);

  const Tokenizer& tokenizer_;
  const std::vector<Token> end_tokens_;
  const int vocab_;
  const ConstraintOptions options_;
  ConstraintReports reports_;
  const std::shared_ptr<GrammarCache> cache_;
  std::once_flag once_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // from the first one on
  std::mutex mutex_;                                       // of what follows
  std::map<std::string, std::shared_ptr<const ConstraintFacts>>
      facts_;  // by the marks of reasoning: a model has one pair
  const std::shared_ptr<CrossingTokens> crossing_ = std::make_shared<CrossingTokens>();
};

}  // namespace ingot
