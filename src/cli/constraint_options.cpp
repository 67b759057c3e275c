#include "cli/constraint_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

#include "app/constraints.h"
#include "files/json.h"
#include "serve/answer/answer_parser.h"

namespace ingot {
namespace {

using grammar::Language;

struct Wanted {
  const char* option;
  grammar::Source source;
};

std::string read(const std::string& path) { return read_text_file(path, grammar::Limits().source_bytes); }

std::optional<Wanted> wanted(const ConstraintArguments& a) {
  if (!a.schema.empty()) {
    return Wanted{"--schema", {.language = Language::kJsonSchema, .text = read(a.schema), .choices = {}}};
  }
  if (!a.regex.empty()) return Wanted{"--regex", {.language = Language::kRegex, .text = a.regex, .choices = {}}};
  if (!a.grammar.empty()) {
    std::string text = read(a.grammar);
    // GBNF writes every rule with ::=, which Lark does not have.
    const Language language = text.find("::=") == std::string::npos ? Language::kLark : Language::kGbnf;
    return Wanted{"--grammar", {.language = language, .text = std::move(text), .choices = {}}};
  }
  if (!a.choices.empty()) return Wanted{"--choice", {.language = Language::kChoice, .text = {}, .choices = a.choices}};
  return {};
}

Preface preface_of(const Session& session, const std::vector<Token>& prompt) {
  if (!has_reasoning(session.template_source().text)) return Preface::kNone;
  constexpr size_t kEnd = 16;  // more tokens than any template writes after <think>
  const auto last = std::span(prompt).last(std::min(prompt.size(), kEnd));
  const std::string end = session.tokenizer().decode(last, true);
  if (opens_reasoning(end)) return Preface::kOpenedReasoning;
  return closes_reasoning(end) ? Preface::kNone : Preface::kReasoning;
}

}  // namespace

void add_constraint_options(CLI::App& app, ConstraintArguments& a) {
  CLI::Option* schema = app.add_option("--schema", a.schema, "The answer is JSON of this schema")->type_name("FILE");
  CLI::Option* regex =
      app.add_option("--regex", a.regex, "The whole answer matches this pattern")->type_name("PATTERN");
  CLI::Option* grammar =
      app.add_option("--grammar", a.grammar, "The answer follows this grammar: GBNF or Lark")->type_name("FILE");
  CLI::Option* choice = app.add_option("--choice", a.choices, "The answer is one of these, separated by commas")
                            ->delimiter(',')
                            ->allow_extra_args(false)
                            ->type_name("TEXTS");
  schema->excludes(regex, grammar, choice);
  regex->excludes(grammar, choice);
  grammar->excludes(choice);
}

std::shared_ptr<const TokenConstraint> make_constraint(const ConstraintArguments& arguments, const Session& session,
                                                       const std::vector<Token>& prompt) {
  const std::optional<Wanted> asked = wanted(arguments);
  if (!asked) return nullptr;
  Constraints constraints(session.tokenizer(), session.end_tokens(), session.model().hp.vocab);
  try {
    return constraints.make({}, asked->source, preface_of(session, prompt));
  } catch (const grammar::GrammarError& error) {
    const std::string where = error.place().empty() ? std::string() : fmt::format(", at {}", error.place());
    throw CLI::ValidationError(asked->option, fmt::format("{}{}", error.what(), where));
  }
}

}  // namespace ingot
