#include "grammar/calls/calls.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "files/json.h"
#include "grammar/calls/literal_notation.h"
#include "grammar/calls/marks.h"
#include "grammar/calls/parameter_members.h"
#include "grammar/front_ends.h"
#include "grammar/schema/emit.h"
#include "grammar/schema/schema_sets.h"

namespace ingot::grammar {
namespace {

using Body = CallForm::Body;

struct Tool {
  std::string name;
  const Json* schema = nullptr;
  bool strict = false;
  const JsonObject* text = nullptr;  // of a tool that takes a text
  std::string key;                   // under which it stands
};

struct Plan {
  const CallForm* form = nullptr;
  bool required = false, one = false;
  const Source* instead = nullptr;  // of calls; null: nothing
  std::string_view lead = {};       // before it
  std::vector<Tool> tools;
  std::deque<Json> own = {};  // schemas of tools that take a text

  bool whole() const { return required || instead != nullptr; }  // calls are all of an answer
};

// {KEY: a text}
Json text_schema(const std::string& key, const JsonObject& text) {
  JsonObject value{{"type", "string"}};
  if (const Json* pattern = find(text, "regex"); pattern != nullptr && pattern->is_string()) {
    value["pattern"] = fmt::format("^(?:{})$", std::string_view(pattern->get_string()));
  }
  return JsonObject{{"type", "object"},
                    {"properties", JsonObject{{key, std::move(value)}}},
                    {"required", JsonArray{Json(key)}},
                    {"additionalProperties", false}};
}

std::string_view view(const Json& value) { return {value.get_string().data(), value.get_string().size()}; }

Plan read_plan(const JsonObject& root, const Source& source) {
  const auto flag = [](const JsonObject& object, std::string_view key) {
    const Json* value = find(object, key);
    return value != nullptr && value->is_bool() && value->get_bool();
  };
  const auto refuse = [](std::string_view what) { return GrammarError("", "[calls] {}", what); };
  Plan plan{.required = flag(root, "required"), .one = flag(root, "one"), .tools = {}};
  if (!source.instead.empty()) plan.instead = &source.instead[0];
  plan.lead = source.lead;
  const Json* form = find(root, "form");
  if (form != nullptr && form->is_string()) plan.form = find_call_form(view(*form));
  if (plan.form == nullptr) throw refuse("the form is unknown");
  const Json* tools = find(root, "tools");
  if (tools == nullptr || !tools->is_array() || tools->get_array().empty()) throw refuse("there are no tools");
  for (const Json& one : tools->get_array()) {
    const Json* name = one.is_object() ? find(one.get_object(), "name") : nullptr;
    if (name == nullptr || !name->is_string()) throw refuse("a tool has no name");
    Tool tool{.name = std::string(view(*name)),
              .schema = find(one.get_object(), "schema"),
              .strict = flag(one.get_object(), "strict"),
              .key = "input"};
    if (const Json* key = find(one.get_object(), "key"); key != nullptr && key->is_string()) tool.key = view(*key);
    if (const Json* text = find(one.get_object(), "text"); text != nullptr && text->is_object()) {
      tool.text = &text->get_object();
      tool.strict = true;  // any object would be no text
      tool.schema = &plan.own.emplace_back(text_schema(tool.key, *tool.text));
    } else if (tool.schema == nullptr || (!tool.schema->is_object() && !tool.schema->is_bool())) {
      throw refuse("a tool has no schema");
    }
    plan.tools.push_back(std::move(tool));
  }
  return plan;
}

// Gemma's templates write keys in the order of their letters.
bool sorts_keys(const CallForm& form) { return form.body == Body::kMarked; }

// All calls of one plan. `loose`: tools whose arguments may be any object.
class CallWriter {
 public:
  CallWriter(GrammarBuilder& builder, const Vocabulary& vocabulary, const Plan& plan, const std::set<size_t>& loose)
      : builder_(builder),
        pool_(builder.regexes()),
        vocabulary_(vocabulary),
        plan_(plan),
        loose_(loose),
        marks_(builder, vocabulary),
        json_(builder),
        any_object_(JsonObject{{"type", "object"}}) {}

  Symbol write() {
    std::vector<Symbol> sections;
    if (plan_.instead != nullptr) sections.push_back(instead());
    for (const CallForm* form : also_read(*plan_.form)) {
      if (plan_.whole() && form != plan_.form) continue;
      sections.push_back(section(*form));
    }
    return builder_.choice(sections);
  }
  size_t at() const { return at_; }             // the tool that is being written
  bool in_instead() const { return instead_; }  // no tool, but the other text

 private:
  Symbol instead() {
    instead_ = true;
    const bool named = !plan_.form->text_name.empty();
    const Symbol lead = named ? text_head(*plan_.form) : marks_.symbol(plan_.lead);
    Symbol text = builder_.nothing();
    try {
      text = source_symbol(builder_, *plan_.instead, vocabulary_);
      if (!builder_.is_productive(text)) throw GrammarError("", "[grammar] no text can match");
    } catch (const LimitError&) {
      throw;
    } catch (const GrammarError& error) {
      throw GrammarError(std::string(kInsteadPlace) + error.place(), "{}", error.what());
    }
    instead_ = false;
    return builder_.sequence({lead, text});
  }

  Symbol section(const CallForm& form) {
    std::vector<Symbol> calls;
    for (at_ = 0; at_ < plan_.tools.size(); ++at_) calls.push_back(call(form, plan_.tools[at_]));
    if (!form.text_name.empty() && !plan_.whole()) calls.push_back(text_head(form));
    const Symbol call = builder_.choice(calls);
    const bool list = !form.open.empty() || form.call_open.empty();  // further calls are of the same section
    const bool many = !plan_.one && !form.one_call && (list || plan_.whole());
    const Symbol all =
        builder_.separated(call, marks_.around(marks_.space(), form.separator, kEmpty), 1, many ? kUnbounded : 1);
    return builder_.sequence({marks_.symbol(form.open), all, close_of(form.close)});
  }

  // White space may stand before what closes something.
  Symbol close_of(std::string_view text) {
    return text.empty() ? builder_.empty() : marks_.around(marks_.space(), text, kEmpty);
  }

  // White space that alone ends a name must be there.
  Symbol name_end(const CallForm& form) {
    return without_space(form.name_close).empty() ? builder_.text(form.name_close) : marks_.symbol(form.name_close);
  }

  Symbol text_head(const CallForm& form) {
    return builder_.sequence({marks_.symbol(form.call_open), builder_.text(form.text_name), name_end(form)});
  }

  Symbol call(const CallForm& form, const Tool& tool) {
    if (form.body == Body::kObject) {
      return builder_.sequence({marks_.symbol(form.call_open), object(form, tool), close_of(form.call_close)});
    }
    const Expr id = id_of(form);
    const bool triggered = !plan_.whole() && !form.trigger.empty();
    std::vector<Symbol> parts{marks_.symbol(triggered ? form.trigger : form.call_open)};
    if (!form.id_close.empty() && !triggered) parts.push_back(marks_.around(id, form.id_close, kEmpty));
    parts.push_back(builder_.text((triggered ? "" : std::string(form.name_prefix)) + tool.name));
    if (!form.id_open.empty()) parts.push_back(builder_.optional(marks_.around(kEmpty, form.id_open, id)));
    parts.push_back(name_end(form));
    parts.push_back(arguments(form, tool));
    parts.push_back(close_of(form.call_close));
    return builder_.sequence(parts);
  }

  Expr id_of(const CallForm& form) {
    ByteSet set = form.short_ids ? ByteSet() : ByteSet::of("_-.:");
    for (const auto& [first, last] : {std::pair('a', 'z'), std::pair('A', 'Z'), std::pair('0', '9')}) {
      set = set | ByteSet::range(static_cast<uint8_t>(first), static_cast<uint8_t>(last));
    }
    constexpr uint32_t kShort = 9, kMost = 64;
    return form.short_ids ? pool_.repeat(pool_.bytes(set), kShort, kShort) : pool_.repeat(pool_.bytes(set), 1, kMost);
  }

  // {"name": NAME, "arguments": {…}}
  Symbol object(const CallForm& form, const Tool& tool) {
    const auto name = [&](bool later) {
      return builder_.sequence({json_.key(later, form.name_key), json_.constant(quoted(tool.name))});
    };
    const auto rest = [&] { return builder_.sequence({json_.key(true, form.arguments_key), arguments(form, tool)}); };
    const Symbol tail = rest();
    Symbol head = name(false);
    if (const std::string_view key = member_key(form); !key.empty()) {
      head = builder_.choice({head, builder_.sequence({json_.key(false, key), json_.text(id_of(form)), name(true)})});
    }
    Symbol id = builder_.empty();
    if (form.short_ids) id = builder_.optional(builder_.sequence({json_.key(true, "id"), json_.text(id_of(form))}));
    return builder_.sequence({json_.open(), head, tail, id, json_.close()});
  }

  // Of the member that templates write before the name.
  static std::string_view member_key(const CallForm& form) {
    if (!form.members.starts_with('"')) return {};
    return form.members.substr(1, form.members.find('"', 1) - 1);
  }

  static std::string quoted(const std::string& name) {
    std::string out;
    append_json(out, name);
    return out;
  }

  Symbol arguments(const CallForm& form, const Tool& tool) {
    const bool shared = form.body == Body::kObject || form.body == Body::kJson;
    if (const auto known = known_json_.find(at_); shared && known != known_json_.end()) return known->second;
    const Symbol made = make_arguments(form, tool);
    if (shared) known_json_.emplace(at_, made);
    return made;
  }

  Symbol make_arguments(const CallForm& form, const Tool& tool) {
    const Json& schema = loose_.contains(at_) ? any_object_ : *tool.schema;
    try {
      const Symbol symbol = has_lark(tool) ? of_lark(form, tool) : of_schema(form, schema, tool.strict);
      if (!builder_.is_productive(symbol)) {
        throw GrammarError("#", "[schema] no arguments fit the schema in this model's form of calls");
      }
      return symbol;
    } catch (const LimitError&) {
      throw;
    } catch (const GrammarError& error) {
      if (!plan_.required && !tool.strict && !loose_.contains(at_)) {
        builder_.relax(tool.name);
        return of_schema(form, any_object_, false);
      }
      throw GrammarError(fmt::format("#/{}{}", tool.name, error.place()), "{}", error.what());
    }
  }

  static const Json* lark_of(const Tool& tool) { return tool.text != nullptr ? find(*tool.text, "lark") : nullptr; }
  static bool has_lark(const Tool& tool) { return lark_of(tool) != nullptr && lark_of(tool)->is_string(); }

  // The one argument that is a text of a grammar.
  Symbol of_lark(const CallForm& form, const Tool& tool) {
    const auto write = [&](Members& members) {
      const auto make = [&] { return lark_symbol(builder_, view(*lark_of(tool)), vocabulary_); };
      const Symbol value = members.text_value(make);
      return builder_.sequence({members.open(), members.key(false, tool.key), value, members.close()});
    };
    if (form.body == Body::kParameters) {
      ParameterMembers members(builder_, marks_, form);
      return write(members);
    }
    if (form.body == Body::kPython || form.body == Body::kMarked) {
      LiteralNotation notation(builder_, marks_, form.quote, sorts_keys(form));
      OuterLiterals members(builder_, notation);
      return write(members);
    }
    return write(json_);
  }

  Symbol of_schema(const CallForm& form, const Json& schema, bool strict) {
    SchemaSets sets(schema, strict, pool_, builder_.limits());
    Values objects;
    objects.objects.push_back(sets.any_object());
    const SetId set = sets.all_of({sets.root(), sets.of_values(std::move(objects))});
    if (form.body == Body::kParameters) {
      ParameterMembers members(builder_, marks_, form);
      if (!form.cdata) return SchemaEmitter(sets, builder_, json_).emit_objects(set, members);
      LiteralNotation python(builder_, marks_, {});  // such templates print lists and dicts as Python does
      return SchemaEmitter(sets, builder_, python).emit_objects(set, members);
    }
    if (form.body == Body::kPython || form.body == Body::kMarked) {
      LiteralNotation notation(builder_, marks_, form.quote, sorts_keys(form));
      OuterLiterals members(builder_, notation);
      return SchemaEmitter(sets, builder_, notation).emit_objects(set, members);
    }
    return SchemaEmitter(sets, builder_, json_).emit(set);
  }

  GrammarBuilder& builder_;
  Regexes& pool_;
  const Vocabulary& vocabulary_;
  const Plan& plan_;
  const std::set<size_t>& loose_;
  Marks marks_;
  JsonNotation json_;
  const Json any_object_;
  size_t at_ = 0;
  bool instead_ = false;
  std::map<size_t, Symbol> known_json_;  // arguments of the tools as JSON
};

}  // namespace

std::string place_in_tools(std::string_view place) {
  if (!place.starts_with("#/")) return std::string(place);
  const size_t end = place.find('#', 2);
  if (end == std::string_view::npos) return fmt::format("the parameters of {}", place.substr(2));
  return fmt::format("{} of the parameters of {}", place.substr(end), place.substr(2, end - 2));
}

std::vector<CallStart> call_starts(const CallForm& form, const Vocabulary& vocabulary) {
  std::vector<CallStart> starts;
  for (const CallForm* read : also_read(form)) {
    const bool named = !read->trigger.empty();
    CallStart start{
        .mark = std::string(named ? read->trigger.substr(0, read->trigger.find('\n')) : section_mark(*read)),
        .token = -1};
    const std::vector<MarkPart> parts = mark_parts(vocabulary, start.mark);
    if (!named && !parts.empty() && parts[0].token >= 0) {
      start.token = parts[0].token;
      start.mark = parts[0].text;
    }
    const bool known = std::ranges::any_of(starts, [&](const CallStart& other) { return other.mark == start.mark; });
    // A token that ends answers is never followed by anything.
    if (!known && !(start.token >= 0 && vocabulary.is_end(start.token))) starts.push_back(std::move(start));
  }
  return starts;
}

std::shared_ptr<const Grammar> calls_grammar(const Source& source, const Vocabulary& vocabulary, const Limits& limits) {
  JsonLimits json_limits;
  json_limits.max_depth = limits.depth;
  json_limits.max_bytes = limits.source_bytes;
  json_limits.max_values = limits.nodes;
  Json root;
  try {
    root = parse_json(source.text, "[calls] the text", json_limits);
  } catch (const Error& error) {
    throw GrammarError("", "{}", error.what());
  }
  if (!root.is_object()) throw GrammarError("", "[calls] an object is expected");
  const Plan plan = read_plan(root.get_object(), source);
  // What a schema has used up of a limit is gone for the others: they are tried anew without it, a few times.
  constexpr int kMostTries = 4;
  std::set<size_t> loose;
  for (int tries = 1;; ++tries) {
    GrammarBuilder builder(limits);
    CallWriter writer(builder, vocabulary, plan, loose);
    try {
      const Symbol start = writer.write();
      for (const size_t i : loose) builder.relax(plan.tools[i].name);
      return builder.build(start);
    } catch (const LimitError&) {
      const size_t at = std::min(writer.at(), plan.tools.size() - 1);
      if (plan.required || writer.in_instead() || tries > kMostTries || plan.tools[at].strict || loose.contains(at)) {
        throw;
      }
      loose.insert(at);
      if (tries < kMostTries) continue;
      for (size_t i = 0; i < plan.tools.size(); ++i) {
        if (!plan.tools[i].strict) loose.insert(i);
      }
    }
  }
}

}  // namespace ingot::grammar
