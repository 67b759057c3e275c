#include "app/constraints.h"

#include <chrono>
#include <utility>

#include "grammar/vocabulary.h"

namespace ingot {

Constraints::Constraints(const Tokenizer& tokenizer, std::vector<Token> end_tokens, int vocab,
                         const ConstraintOptions& options)
    : tokenizer_(tokenizer),
      end_tokens_(std::move(end_tokens)),
      vocab_(vocab),
      options_(options),
      cache_(std::make_shared<GrammarCache>(options.kept_bytes, options.memory_bytes)) {}

void Constraints::report(ConstraintReports reports) { reports_ = std::move(reports); }

void Constraints::read_vocabulary() {
  vocabulary_ = grammar::Vocabulary::make(tokenizer_, end_tokens_);
  facts_ = std::make_shared<const ConstraintFacts>(ConstraintFacts{
      .tokenizer = tokenizer_, .vocab = vocab_, .reasoning = reasoning_tokens(tokenizer_), .on_mask = reports_.masked});
}

// A new grammar leaves a quarter of the room to those that answers use, and that grow.
std::shared_ptr<const grammar::Compiled> Constraints::compile(const std::string& tenant, const grammar::Source& source,
                                                              const CompileCall& call) {
  struct Taken {
    Taken(GrammarCache& from, const std::string& by, size_t wanted) : cache(from), tenant(by), bytes(wanted) {
      if (cache.take(tenant, bytes, cache.memory().most() / 4)) return;
      throw GrammarRoomError("[grammar] there is no room for more grammars now");
    }
    ~Taken() { cache.give(tenant, bytes); }
    GrammarCache& cache;
    const std::string& tenant;
    const size_t bytes;
  };
  const auto start = std::chrono::steady_clock::now();
  grammar::Limits limits = options_.limits;
  limits.meter = call.meter;
  std::shared_ptr<const grammar::Compiled> compiled;
  {
    const Taken reserved(*cache_, tenant, call.reserve ? options_.compile_bytes : 0);
    compiled = grammar::compile(source, vocabulary_, limits, cache_->owner(tenant));
  }
  { const Taken admitted(*cache_, tenant, compiled->memory()); }
  compiled->count();  // by itself from here on
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (reports_.compiled) reports_.compiled(seconds);
  return compiled;
}

std::shared_ptr<const TokenConstraint> Constraints::make(const std::string& tenant, const grammar::Source& source,
                                                         Preface preface, std::string_view lead, std::string_view tail,
                                                         const CompileCall& call) {
  std::call_once(once_, [this] { read_vocabulary(); });
  const std::string key = source.key();
  std::shared_ptr<const grammar::Compiled> compiled = cache_->find(tenant, key);
  if (compiled) {
    if (reports_.found) reports_.found();
  } else {
    compiled = this->compile(tenant, source, call);
    cache_->keep(tenant, key, compiled);
  }
  const auto tokens = [&](std::string_view text) { return tokenizer_.encode(text, {.parse_special = true}); };
  return std::make_shared<GrammarConstraint>(std::make_unique<grammar::Matcher>(std::move(compiled)), preface,
                                             ConstraintFrame{tokens(lead), tokens(tail)}, facts_);
}

}  // namespace ingot
