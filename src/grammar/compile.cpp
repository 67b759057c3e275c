#include "grammar/compile.h"

#include <utility>

#include "base/utf8.h"
#include "grammar/front_ends.h"
#include "grammar/json_parts.h"
#include "grammar/regex/pattern.h"
#include "grammar/shared.h"

namespace ingot::grammar {
namespace {

std::shared_ptr<const Grammar> json_object(const Limits& limits) {
  GrammarBuilder builder(limits);
  JsonParts json(builder);
  return builder.build(json.any_object());
}

std::shared_ptr<const Grammar> regex(const std::string& pattern, const Limits& limits) {
  GrammarBuilder builder(limits);
  const PatternOptions options = {.max_depth = limits.depth};
  return builder.build(builder.lexeme(parse_pattern(builder.regexes(), pattern, options)));
}

std::shared_ptr<const Grammar> choice(const std::vector<std::string>& choices, const Limits& limits) {
  if (choices.empty()) throw GrammarError("", "[choice] there is nothing to choose from");
  for (size_t i = 0; i < choices.size(); i++) {
    if (choices[i].empty()) throw GrammarError(fmt::format("choice {}", i), "[choice] a choice is empty");
    if (!utf8_valid(choices[i]))
      throw GrammarError(fmt::format("choice {}", i), "[choice] a choice is not valid UTF-8");
  }
  GrammarBuilder builder(limits);
  return builder.build(builder.lexeme(builder.regexes().literals(choices)));
}

}  // namespace

std::string Source::key() const {
  std::string out = {static_cast<char>('a' + static_cast<int>(language)), strict ? 's' : '-'};
  out += fmt::format("{}:{}", text.size(), text);
  for (const std::string& one : choices) out += fmt::format("{}:{}", one.size(), one);
  return out;
}

Compiled::Compiled(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary,
                   const Limits& limits, GrammarOwner owner)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      limits_(limits),
      grammar_bytes_(grammar_->memory()),
      masks_(std::move(owner.masks)),
      account_(std::move(owner.account)) {
  limits_.meter = nullptr;  // of the compile alone
  if (!masks_) masks_ = std::make_shared<MaskStore>(limits.cache_bytes);
  shared_ = std::make_unique<Shared>(*grammar_, *vocabulary_, masks_, account_, limits_);
}

Compiled::~Compiled() = default;

size_t Compiled::memory() const { return grammar_bytes_ + shared_->lexer.memory() + shared_->masks.memory(); }

bool Compiled::worn() const { return shared_->lexer.worn() || shared_->masks.worn(); }

void Compiled::count() const {
  if (!account_) return;
  const std::lock_guard lock(shared_->counting);
  shared_->counted.set(memory());
}

std::shared_ptr<const Grammar> make_grammar(const Source& source, const Vocabulary& vocabulary, const Limits& limits) {
  size_t bytes = source.text.size();
  for (const std::string& one : source.choices) bytes += one.size();
  if (bytes > limits.source_bytes) {
    throw LimitError("[grammar] the source has {} bytes, at most {} are allowed", bytes, limits.source_bytes);
  }
  switch (source.language) {
    case Language::kJsonObject:
      return json_object(limits);
    case Language::kRegex:
      return regex(source.text, limits);
    case Language::kChoice:
      return choice(source.choices, limits);
    case Language::kJsonSchema:
      return json_schema_grammar(source.text, source.strict, limits);
    case Language::kGbnf:
      return gbnf_grammar(source.text, limits);
    case Language::kLark:
      return lark_grammar(source.text, vocabulary, limits);
    case Language::kStructuralTag:
      return structural_tag_grammar(source.text, vocabulary, limits);
    case Language::kCalls:
      return calls_grammar(source.text, vocabulary, limits);
  }
  throw GrammarError("", "[grammar] this language is unknown");
}

std::shared_ptr<const Compiled> compile(const Source& source, std::shared_ptr<const Vocabulary> vocabulary,
                                        const Limits& limits, GrammarOwner owner) {
  auto grammar = make_grammar(source, *vocabulary, limits);
  return std::make_shared<const Compiled>(std::move(grammar), std::move(vocabulary), limits, std::move(owner));
}

}  // namespace ingot::grammar
