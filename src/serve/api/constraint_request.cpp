#include "serve/api/constraint_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "grammar/calls/calls.h"
#include "serve/answer/held_text.h"
#include "serve/api/compile_work.h"
#include "serve/api/generation.h"

namespace ingot {
namespace {

using grammar::Language;
using grammar::Source;

using Found = std::vector<ConstraintRequest>;

// Of a schema as a value, or as its text.
void add_schema(const Fields& fields, const char* name, Found& found, bool strict = false) {
  const Json* schema = fields.value(name);
  if (!schema) return;
  std::string text = schema->is_string() ? *fields.string(name) : to_json(*schema);
  found.push_back({fields.path(name),
                   {.language = Language::kJsonSchema, .text = std::move(text), .choices = {}, .strict = strict}});
}

void add_text(const Fields& fields, const char* name, Language language, Found& found) {
  if (std::optional<std::string> text = fields.string(name)) {
    found.push_back({fields.path(name), {.language = language, .text = std::move(*text), .choices = {}}});
  }
}

// GBNF writes every rule with ::=, which Lark does not have.
void add_grammar(const Fields& fields, const char* name, Found& found) {
  const std::optional<std::string> text = fields.string(name);
  if (text) add_text(fields, name, text->find("::=") == std::string::npos ? Language::kLark : Language::kGbnf, found);
}

void add_choices(const Fields& fields, const char* name, Found& found) {
  const JsonArray* list = fields.array(name);
  if (!list) return;
  if (list->empty()) throw bad_field(fields.path(name), fmt::format("{} is empty", fields.path(name)));
  Source source{.language = Language::kChoice, .text = {}, .choices = {}};
  for (const Json& item : *list) source.choices.emplace_back(item.get_string().c_str(), item.get_string().size());
  found.push_back({fields.path(name), std::move(source)});
}

void add_response_format(const Fields& fields, Found& found) {
  const JsonObject* object = fields.object("response_format");
  if (!object) return;
  const Fields format(*object, fields.path("response_format."));
  const std::string type = *format.string("type");
  const JsonObject* named = format.object("json_schema");
  // What would not be looked at is refused: nobody shall believe that it holds.
  const auto refuse = [&](const char* member) {
    if (!format.value(member)) return;
    throw bad_field(format.path(member), fmt::format("{} does not go with the type {}{}", format.path(member), type,
                                                     named && type == "json_schema" ? " and json_schema" : ""));
  };
  if (type != "json_schema") refuse("json_schema");
  if (named || (type != "json_schema" && type != "json_object")) refuse("schema");
  const size_t before = found.size();
  if (type == "json_schema" && named) {
    const Fields schema(*named, format.path("json_schema."));
    add_schema(schema, "schema", found, schema.boolean("strict").value_or(false));
  } else if (type == "json_schema" || type == "json_object") {
    add_schema(format, "schema", found);
  } else if (type == "structural_tag") {
    found.push_back(
        {format.path("type"), {.language = Language::kStructuralTag, .text = to_json(*object), .choices = {}}});
  }
  if (type == "json_object" && found.size() == before) {
    found.push_back({format.path("type"), {.language = Language::kJsonObject, .text = {}, .choices = {}}});
  }
  if (type == "json_schema" && found.size() == before) {
    throw bad_field(format.path("json_schema"), fmt::format("{} is required", format.path("json_schema")));
  }
}

void add_structured(const Fields& fields, Found& found) {
  const JsonObject* object = fields.object("structured_outputs");
  if (!object) return;
  const Fields members(*object, fields.path("structured_outputs."));
  const size_t before = found.size();
  add_schema(members, "json", found);
  add_text(members, "regex", Language::kRegex, found);
  add_choices(members, "choice", found);
  add_grammar(members, "grammar", found);
  if (members.boolean("json_object").value_or(false)) {
    found.push_back({members.path("json_object"), {.language = Language::kJsonObject, .text = {}, .choices = {}}});
  }
  if (const Json* tags = members.value("structural_tag")) {
    std::string text = tags->is_string() ? *members.string("structural_tag") : to_json(*tags);
    found.push_back({members.path("structural_tag"),
                     {.language = Language::kStructuralTag, .text = std::move(text), .choices = {}}});
  }
  if (found.size() == before) {
    throw bad_field(fields.path("structured_outputs"),
                    "structured_outputs must have one of json, regex, choice, grammar, json_object, structural_tag");
  }
}

// "[schema] what" without the part that speaks.
std::string_view without_part(std::string_view text) {
  const size_t end = text.starts_with('[') ? text.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? text : text.substr(end + 2);
}

// Where the reader of answers finds calls, the constraint does.
CallSearch call_search(const AnswerForm& form, const Tokenizer& tokenizer) {
  CallSearch search{.starts = {},
                    .name_key = std::string(form.tools->name_key),
                    .names = form.tool_names,
                    .marks = {},
                    .one = form.one_call || form.tools->one_call,
                    .opened = form.call_opened ? std::string(form.tools->call_open) : std::string(),
                    .before = {},
                    .reasoning_open = {},
                    .reasoning_close = {}};
  for (const MarkToken& mark : mark_tokens(tokenizer, form)) search.marks.push_back(mark.id);
  if (!form.reasoning || form.closed) return search;
  search.reasoning_open = form.marks.open;
  search.reasoning_close = form.marks.close;
  search.in_reasoning = form.opened;
  search.reasons_often = form.marks.channels;
  search.before = form.marks.header;
  return search;
}

}  // namespace

std::optional<ConstraintRequest> read_constraint(const Fields& fields) {
  Found found;
  add_response_format(fields, found);
  add_structured(fields, found);
  add_schema(fields, "guided_json", found);
  add_text(fields, "guided_regex", Language::kRegex, found);
  add_choices(fields, "guided_choice", found);
  add_grammar(fields, "guided_grammar", found);
  add_text(fields, "grammar", Language::kGbnf, found);
  add_schema(fields, "json_schema", found);
  if (found.empty()) return {};
  if (found.size() > 1) {
    throw bad_field(found[1].param, fmt::format("{} limits the answer, and {} does so too: only one of them may",
                                                found[1].param, found[0].param));
  }
  return std::move(found[0]);
}

void want(ConstraintRequest request, const std::vector<int32_t>& end_tokens, Generation& generation) {
  using Calls = ConstraintRequest::Calls;
  const bool replaces =
      request.calls == Calls::kForced && generation.wanted && generation.wanted->calls == Calls::kNone;
  if (generation.wanted && !replaces) {
    throw bad_field(request.param, fmt::format("{} limits the answer, and {} does so too: only one of them may",
                                               request.param, generation.wanted->param));
  }
  generation.wanted = std::move(request);
  std::vector<Token>& ends = generation.end_tokens;
  for (const Token end : end_tokens) {
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
  }
}

void compile_constraint(Constraints& constraints, const std::string& tenant, Generation& generation,
                        const CompileCall& call) {
  const ConstraintRequest& wanted = *generation.wanted;
  const AnswerForm& form = generation.form;
  using Calls = ConstraintRequest::Calls;
  CompileCall told = call;
  told.relaxed = &generation.relaxed;
  try {
    if (wanted.calls == Calls::kOffered) {
      generation.constraint =
          constraints.make_calls(tenant, wanted.source, *form.tools, call_search(form, constraints.tokenizer()), told);
      return;
    }
    const Preface at = !form.reasoning || form.closed ? Preface::kNone
                       : form.opened                  ? Preface::kOpenedReasoning
                                                      : Preface::kReasoning;
    const PrefaceMarks preface(at, form.marks.open, form.marks.close);
    const std::string_view given = form.call_opened ? form.tools->call_open : std::string_view();
    generation.constraint = constraints.make(tenant, wanted.source, preface, form.lead, {}, told, given);
  } catch (const grammar::GrammarError& error) {
    const bool of_text = error.place().starts_with(grammar::kInsteadPlace);
    const bool of_tool = wanted.calls != Calls::kNone && !of_text;
    const std::string place = of_text   ? error.place().substr(grammar::kInsteadPlace.size())
                              : of_tool ? grammar::place_in_tools(error.place())
                                        : error.place();
    const std::string where = place.empty() ? std::string() : fmt::format(", at {}", place);
    const std::string& param = of_text ? wanted.text_param : wanted.param;
    throw bad_field(param, fmt::format("{}: {}{}", param, without_part(error.what()), where));
  } catch (const GrammarRoomError&) {
    throw server_busy("the grammars of requests take all the memory there is for them; try again");
  }
}

JsonObject constraint_limits(const ConstraintOptions& options) {
  const grammar::Limits& l = options.limits;
  return {{"source_bytes", l.source_bytes},
          {"depth", l.depth},
          {"nodes", l.nodes},
          {"items", l.items},
          {"steps", l.steps},
          {"compile_steps", CompileWork::kMostSteps},
          {"steps_per_token", CompileWork::kStepsPerToken},
          {"set_bytes", l.set_bytes},
          {"states", l.states},
          {"row_items", l.row_items},
          {"matcher_bytes", l.matcher_bytes},
          {"mask_row_steps", l.mask_row_steps},
          {"token_row_steps", l.token_row_steps},
          {"mask_steps", l.mask_steps},
          {"mask_work", l.mask_work},
          {"lexer_work", l.lexer_work},
          {"cache_bytes", l.cache_bytes},
          {"lexer_bytes", l.lexer_bytes},
          {"kept_bytes", options.kept_bytes},
          {"compile_bytes", options.compile_bytes},
          {"memory_bytes", options.memory_bytes},
          {"held_text_bytes", kMaxHeldBytes}};
}

}  // namespace ingot
