// Structural tags: free text in which some texts begin parts of a given form.
//
// As vLLM's clients send them: {"structures": [{"begin", "schema", "end"}, …], "triggers": […]}, or {"format": {…}}
// with the types const_string, any_text, json_schema, regex, grammar (GBNF), sequence, or, tag, triggered_tags and
// tags_with_separator.
#include <algorithm>

#include "files/json.h"
#include "grammar/front_ends.h"
#include "grammar/regex/pattern.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

namespace {

class TagReader {
 public:
  TagReader(const Vocabulary& vocabulary, GrammarBuilder& builder)
      : vocabulary_(vocabulary), builder_(builder), pool_(builder.regexes()), any_text_(pool_.star(pool_.any_char())) {}

  Symbol read(const Json& root) {
    const JsonObject& object = object_of(root, "#");
    check_keys(object, "#", {"type", "format", "structures", "triggers"});
    if (const Json* format = find(object, "format")) return read_format(*format, "#/format", 0);
    return old_form(object);
  }

 private:
  struct Tag {
    std::string begin;
    Symbol content;
    std::string end;
  };

  [[noreturn]] static void refuse(const std::string& place, std::string_view why) {
    throw GrammarError(place, "[structural tag] {}", why);
  }
  static const JsonObject& object_of(const Json& json, const std::string& place) {
    if (!json.is_object()) refuse(place, "an object is expected");
    return json.get_object();
  }
  static const Json& need(const JsonObject& object, std::string_view key, const std::string& place) {
    const Json* value = find(object, key);
    if (value == nullptr) refuse(place, fmt::format("\"{}\" is missing", key));
    return *value;
  }
  static std::string text_of(const JsonObject& object, std::string_view key, const std::string& place) {
    const Json& value = need(object, key, place);
    if (!value.is_string()) refuse(place + "/" + std::string(key), "a string is expected");
    return std::string(value.get_string());
  }
  static const JsonArray& list_of(const JsonObject& object, std::string_view key, const std::string& place) {
    const Json& value = need(object, key, place);
    if (!value.is_array() || value.get_array().empty()) {
      refuse(place + "/" + std::string(key), "an array with elements is expected");
    }
    return value.get_array();
  }
  static bool flag_of(const JsonObject& object, std::string_view key, const std::string& place) {
    const Json* value = find(object, key);
    if (value == nullptr) return false;
    if (!value->is_bool()) refuse(place + "/" + std::string(key), "a boolean is expected");
    return value->get_bool();
  }
  static void check_keys(const JsonObject& object, const std::string& place,
                         std::initializer_list<std::string_view> known) {
    for (const auto& member : object) {
      if (std::find(known.begin(), known.end(), std::string_view(member.key())) == known.end()) {
        refuse(place + "/" + std::string(member.key()), "is not supported");
      }
    }
  }

  Symbol old_form(const JsonObject& object) {
    std::vector<Tag> tags;
    size_t n = 0;
    for (const Json& one : list_of(object, "structures", "#")) {
      const std::string place = "#/structures/" + std::to_string(n++);
      const JsonObject& tag = object_of(one, place);
      check_keys(tag, place, {"begin", "schema", "end"});
      tags.push_back({text_of(tag, "begin", place), schema(need(tag, "schema", place), place + "/schema"),
                      text_of(tag, "end", place)});
    }
    return triggered(tags, texts_of(object, "triggers", "#"), "#", false, false);
  }

  std::vector<std::string> texts_of(const JsonObject& object, std::string_view key, const std::string& place) {
    std::vector<std::string> texts;
    for (const Json& text : list_of(object, key, place)) {
      if (!text.is_string() || text.get_string().empty()) refuse(place + "/" + std::string(key), "a text is expected");
      texts.emplace_back(text.get_string());
    }
    return texts;
  }

  Symbol schema(const Json& json, const std::string& place) {
    // Each is looked through with all that were made before it.
    if (++schemas_ > kMaxSchemas) throw LimitError("[grammar] more than {} schemas in one source", kMaxSchemas);
    try {
      const Symbol symbol = json_schema_symbol(builder_, json, false);
      if (!builder_.is_productive(symbol)) throw GrammarError("#", "[schema] the schema allows no value at all");
      return symbol;
    } catch (const LimitError&) {
      throw;
    } catch (const GrammarError& error) {
      std::string inner = error.place();
      if (inner.starts_with("#")) inner.erase(0, 1);
      throw GrammarError(place + inner, "{}", error.what());
    }
  }

  // Special tokens match no text: one that a mark begins or ends with is asked for as such.
  Symbol mark(std::string_view text, const std::string& place) {
    const std::optional<int32_t> token = vocabulary_.special_token(text);
    return token ? builder_.special_token(vocabulary_, *token, place) : builder_.text(text);
  }

  // Free text, ended by the first place where one of the triggers begins; then the tag that it begins, and so on.
  Symbol triggered(const std::vector<Tag>& tags, const std::vector<std::string>& triggers, const std::string& place,
                   bool at_least_one, bool stop_after_first) {
    const Expr any_trigger = pool_.concat(any_text_, pool_.literals(triggers));
    const Expr has_trigger = pool_.concat(any_trigger, any_text_);
    const Expr free = pool_.without(any_text_, has_trigger);
    const Expr too_late = pool_.concat(any_trigger, pool_.plus(pool_.any_char()));
    const Symbol item = builder_.rule("tag");
    for (const Tag& tag : tags) {
      const auto trigger = std::find_if(triggers.begin(), triggers.end(),
                                        [&](const std::string& one) { return tag.begin.starts_with(one); });
      if (trigger == triggers.end()) refuse(place, fmt::format("no trigger begins \"{}\"", tag.begin));
      const Symbol end = tag.end.empty() ? builder_.empty() : mark(tag.end, place);
      if (vocabulary_.special_token(*trigger)) {  // the text before cannot hold it
        const std::string rest = tag.begin.substr(trigger->size());
        builder_.add(item, {builder_.lexeme(free), mark(*trigger, place), builder_.text(rest), tag.content, end});
        continue;
      }
      const Expr before = pool_.without(pool_.concat(any_text_, pool_.literal(*trigger)), too_late);
      const Symbol begin = builder_.lexeme(pool_.concat(before, pool_.literal(tag.begin.substr(trigger->size()))));
      builder_.add(item, {begin, tag.content, end});
    }
    if (stop_after_first) return at_least_one ? item : builder_.choice({item, builder_.lexeme(free)});
    const Symbol items = builder_.repeat(item, at_least_one ? 1 : 0, kUnbounded);
    return builder_.sequence({items, builder_.lexeme(free)});
  }

  std::vector<Tag> tags_of(const JsonObject& object, const std::string& place, int depth) {
    std::vector<Tag> tags;
    size_t n = 0;
    for (const Json& one : list_of(object, "tags", place)) {
      tags.push_back(read_tag(object_of(one, place), place + "/tags/" + std::to_string(n++), depth));
    }
    return tags;
  }

  Tag read_tag(const JsonObject& object, const std::string& place, int depth) {
    check_keys(object, place, {"type", "begin", "content", "end"});
    Tag tag{text_of(object, "begin", place), 0, text_of(object, "end", place)};
    const Json& content = need(object, "content", place);
    const JsonObject& inner = object_of(content, place + "/content");
    const Json* type = find(inner, "type");
    // Free text within a tag goes up to its end.
    if (type != nullptr && type->is_string() && type->get_string() == "any_text" && !tag.end.empty() &&
        !vocabulary_.special_token(tag.end)) {
      const Expr has_end = pool_.concat({any_text_, pool_.literal(tag.end), any_text_});
      tag.content = builder_.lexeme(pool_.without(any_text_, has_end));
    } else {
      tag.content = read_format(content, place + "/content", depth + 1);
    }
    return tag;
  }

  Symbol read_format(const Json& json, const std::string& place, int depth) {
    constexpr int kMaxDepth = 64;
    if (depth > kMaxDepth) refuse(place, "nested too deeply");
    const JsonObject& object = object_of(json, place);
    const std::string type = text_of(object, "type", place);
    if (type == "const_string") {
      check_keys(object, place, {"type", "value"});
      return mark(text_of(object, "value", place), place + "/value");
    }
    if (type == "any_text") {
      check_keys(object, place, {"type"});
      return builder_.lexeme(any_text_);
    }
    if (type == "json_schema") {
      check_keys(object, place, {"type", "json_schema"});
      return schema(need(object, "json_schema", place), place + "/json_schema");
    }
    if (type == "regex") return read_regex(object, place);
    if (type == "grammar") {
      check_keys(object, place, {"type", "grammar"});
      return gbnf_symbol(builder_, text_of(object, "grammar", place));
    }
    if (type == "sequence" || type == "or") {
      check_keys(object, place, {"type", "elements"});
      std::vector<Symbol> parts;
      size_t n = 0;
      for (const Json& one : list_of(object, "elements", place)) {
        parts.push_back(read_format(one, place + "/elements/" + std::to_string(n++), depth + 1));
      }
      return type == "or" ? builder_.choice(parts) : builder_.sequence(parts);
    }
    if (type == "tag") {
      const Tag tag = read_tag(object, place, depth);
      return builder_.sequence(
          {mark(tag.begin, place), tag.content, tag.end.empty() ? builder_.empty() : mark(tag.end, place)});
    }
    if (type == "triggered_tags") {
      check_keys(object, place, {"type", "triggers", "tags", "at_least_one", "stop_after_first"});
      return triggered(tags_of(object, place, depth), texts_of(object, "triggers", place), place,
                       flag_of(object, "at_least_one", place), flag_of(object, "stop_after_first", place));
    }
    if (type == "tags_with_separator") return read_separated(object, place, depth);
    refuse(place + "/type", fmt::format("\"{}\" is not supported", type));
  }

  Symbol read_regex(const JsonObject& object, const std::string& place) {
    check_keys(object, place, {"type", "pattern"});
    try {
      return builder_.lexeme(parse_pattern(pool_, text_of(object, "pattern", place)));
    } catch (const LimitError&) {
      throw;
    } catch (const GrammarError& error) {
      throw GrammarError(place + "/pattern", "{}", error.what());
    }
  }

  Symbol read_separated(const JsonObject& object, const std::string& place, int depth) {
    check_keys(object, place, {"type", "tags", "separator", "at_least_one", "stop_after_first"});
    std::vector<Symbol> choices;
    for (const Tag& tag : tags_of(object, place, depth)) {
      choices.push_back(builder_.sequence(
          {mark(tag.begin, place), tag.content, tag.end.empty() ? builder_.empty() : mark(tag.end, place)}));
    }
    const Symbol one = builder_.choice(choices);
    const uint32_t least = flag_of(object, "at_least_one", place) ? 1 : 0;
    const uint32_t most = flag_of(object, "stop_after_first", place) ? 1 : kUnbounded;
    return builder_.separated(one, mark(text_of(object, "separator", place), place + "/separator"), least, most);
  }

  const Vocabulary& vocabulary_;
  static constexpr int kMaxSchemas = 256;
  int schemas_ = 0;
  GrammarBuilder& builder_;
  Regexes& pool_;
  const Expr any_text_;
};

}  // namespace

std::shared_ptr<const Grammar> structural_tag_grammar(std::string_view text, const Vocabulary& vocabulary,
                                                      const Limits& limits) {
  GrammarBuilder builder(limits);
  return builder.build(structural_tag_symbol(builder, text, vocabulary));
}

Symbol structural_tag_symbol(GrammarBuilder& builder, std::string_view text, const Vocabulary& vocabulary) {
  JsonLimits json_limits;
  json_limits.max_depth = builder.limits().depth;
  json_limits.max_bytes = builder.limits().source_bytes;
  json_limits.reject_duplicate_keys = true;
  Json root;
  try {
    root = parse_json(text, "[structural tag] the text", json_limits);
  } catch (const Error& error) {
    throw GrammarError("", "{}", error.what());
  }
  return TagReader(vocabulary, builder).read(root);
}

}  // namespace ingot::grammar
