#include "app/constraints.h"

#include <chrono>
#include <utility>

#include "grammar/calls/marks.h"
#include "grammar/grammar.h"
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

std::shared_ptr<const ConstraintFacts> Constraints::facts(const PrefaceMarks& marks) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const ConstraintFacts>& known = facts_[marks.open + '\n' + marks.close];
  if (!known) {
    known = std::make_shared<const ConstraintFacts>(ConstraintFacts{.tokenizer = tokenizer_,
                                                                    .vocab = vocab_,
                                                                    .reasoning = reasoning_tokens(tokenizer_, marks),
                                                                    .on_mask = reports_.masked});
  }
  return known;
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

std::shared_ptr<const grammar::Compiled> Constraints::compiled(const std::string& tenant, const grammar::Source& source,
                                                               const CompileCall& call) {
  std::call_once(once_, [this] { vocabulary_ = grammar::Vocabulary::make(tokenizer_, end_tokens_, vocab_); });
  const std::string key = source.key();
  std::shared_ptr<const grammar::Compiled> compiled = cache_->find(tenant, key);
  if (compiled) {
    if (reports_.found) reports_.found();
  } else {
    compiled = this->compile(tenant, source, call);
    cache_->keep(tenant, key, compiled);
  }
  if (call.relaxed) *call.relaxed = compiled->grammar().relaxed();
  return compiled;
}

std::shared_ptr<const TokenConstraint> Constraints::make(const std::string& tenant, const grammar::Source& source,
                                                         const PrefaceMarks& preface, std::string_view lead,
                                                         std::string_view tail, const CompileCall& call,
                                                         std::string_view given) {
  const std::shared_ptr<const grammar::Compiled> grammar = compiled(tenant, source, call);
  const auto tokens = [&](std::string_view text) { return tokenizer_.encode(text, {.parse_special = true}); };
  auto matcher = std::make_unique<grammar::Matcher>(grammar);
  for (const grammar::MarkPart& part : grammar::mark_parts(*vocabulary_, given)) {
    if (part.token >= 0 ? matcher->advance(part.token) : matcher->advance_text(part.text)) continue;
    throw grammar::GrammarError("", "[grammar] nothing that may be answered begins with what the prompt ends with");
  }
  return std::make_shared<GrammarConstraint>(std::move(matcher), preface.at,
                                             ConstraintFrame{tokens(lead), tokens(tail)}, facts(preface));
}

std::shared_ptr<const TokenConstraint> Constraints::make_calls(const std::string& tenant, const grammar::Source& source,
                                                               const CallForm& form, CallSearch search,
                                                               const CompileCall& call) {
  std::shared_ptr<const grammar::Compiled> section = compiled(tenant, source, call);
  search.starts = grammar::call_starts(form, *vocabulary_);
  // Looked for here, since the engine's thread will ask for them: each takes milliseconds the first time.
  for (const grammar::CallStart& start : search.starts) crossing_->of(start.mark, *vocabulary_);
  for (const CallForm* read : also_read(form)) {
    for (const std::string_view text : {read->close, read->call_close, std::string_view("}")}) {
      if (!text.empty()) crossing_->of(std::string(1, text.back()), *vocabulary_);
    }
  }
  return std::make_shared<CallConstraint>(std::make_shared<const CallSearch>(std::move(search)), std::move(section),
                                          crossing_, facts({}));
}

}  // namespace ingot
