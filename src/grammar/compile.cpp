#include "grammar/compile.h"

#include <utility>

#include "base/utf8.h"
#include "grammar/front_ends.h"
#include "grammar/json_parts.h"
#include "grammar/regex/pattern.h"
#include "grammar/shared.h"

namespace ingot::grammar {
namespace {

Symbol regex(GrammarBuilder& builder, const std::string& pattern) {
  const PatternOptions options = {.max_depth = builder.limits().depth};
  return builder.lexeme(parse_pattern(builder.regexes(), pattern, options));
}

Symbol choice(GrammarBuilder& builder, const std::vector<std::string>& choices) {
  if (choices.empty()) throw GrammarError("", "[choice] there is nothing to choose from");
  for (size_t i = 0; i < choices.size(); i++) {
    if (choices[i].empty()) throw GrammarError(fmt::format("choice {}", i), "[choice] a choice is empty");
    if (!utf8_valid(choices[i]))
      throw GrammarError(fmt::format("choice {}", i), "[choice] a choice is not valid UTF-8");
  }
  return builder.lexeme(builder.regexes().literals(choices));
}

}  // namespace

std::string Source::key() const {
  std::string out = {static_cast<char>('a' + static_cast<int>(language)), strict ? 's' : '-'};
  out += fmt::format("{}:{}", text.size(), text);
  for (const std::string& one : choices) out += fmt::format("{}:{}", one.size(), one);
  if (instead.empty()) return out;
  out += fmt::format("/{}:{}", lead.size(), lead);
  for (const Source& one : instead) {
    const std::string key = one.key();
    out += fmt::format("{}:{}", key.size(), key);
  }
  return out;
}

size_t Source::bytes() const {
  size_t all = text.size() + lead.size();
  for (const std::string& one : choices) all += one.size();
  for (const Source& one : instead) all += one.bytes();
  return all;
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

Symbol source_symbol(GrammarBuilder& builder, const Source& source, const Vocabulary& vocabulary) {
  switch (source.language) {
    case Language::kJsonObject:
      return JsonParts(builder).any_object();
    case Language::kRegex:
      return regex(builder, source.text);
    case Language::kChoice:
      return choice(builder, source.choices);
    case Language::kJsonSchema:
      return schema_text_symbol(builder, source.text, source.strict);
    case Language::kGbnf:
      return gbnf_symbol(builder, source.text);
    case Language::kLark:
      return lark_symbol(builder, source.text, vocabulary);
    case Language::kStructuralTag:
      return structural_tag_symbol(builder, source.text, vocabulary);
    case Language::kCalls:
      break;
  }
  throw GrammarError("", "[grammar] this language is unknown");
}

std::shared_ptr<const Grammar> make_grammar(const Source& source, const Vocabulary& vocabulary, const Limits& limits) {
  if (const size_t bytes = source.bytes(); bytes > limits.source_bytes) {
    throw LimitError("[grammar] the source has {} bytes, at most {} are allowed", bytes, limits.source_bytes);
  }
  if (source.language == Language::kCalls) return calls_grammar(source, vocabulary, limits);
  GrammarBuilder builder(limits);
  return builder.build(source_symbol(builder, source, vocabulary));
}

std::shared_ptr<const Compiled> compile(const Source& source, std::shared_ptr<const Vocabulary> vocabulary,
                                        const Limits& limits, GrammarOwner owner) {
  auto grammar = make_grammar(source, *vocabulary, limits);
  return std::make_shared<const Compiled>(std::move(grammar), std::move(vocabulary), limits, std::move(owner));
}

}  // namespace ingot::grammar
