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
      cache_(options.kept_bytes) {}

void Constraints::report(ConstraintReports reports) { reports_ = std::move(reports); }

void Constraints::read_vocabulary() {
  vocabulary_ = grammar::Vocabulary::make(tokenizer_, end_tokens_);
  facts_ = std::make_shared<const ConstraintFacts>(ConstraintFacts{
      .tokenizer = tokenizer_, .vocab = vocab_, .reasoning = reasoning_tokens(tokenizer_), .on_mask = reports_.masked});
}

std::shared_ptr<const TokenConstraint> Constraints::make(const std::string& tenant, const grammar::Source& source,
                                                         Preface preface, std::string_view lead,
                                                         std::string_view tail) {
  std::call_once(once_, [this] { read_vocabulary(); });
  const std::string key = source.key();
  std::shared_ptr<const grammar::Compiled> compiled = cache_.find(tenant, key);
  if (compiled) {
    if (reports_.found) reports_.found();
  } else {
    const auto start = std::chrono::steady_clock::now();
    compiled = grammar::compile(source, vocabulary_, options_.limits);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (reports_.compiled) reports_.compiled(seconds);
    cache_.keep(tenant, key, compiled);
  }
  const auto tokens = [&](std::string_view text) { return tokenizer_.encode(text, {.parse_special = true}); };
  return std::make_shared<GrammarConstraint>(std::make_unique<grammar::Matcher>(std::move(compiled)), preface,
                                             ConstraintFrame{tokens(lead), tokens(tail)}, facts_);
}

}  // namespace ingot
