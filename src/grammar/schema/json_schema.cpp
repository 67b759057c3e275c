#include "files/json.h"
#include "grammar/front_ends.h"
#include "grammar/schema/emit.h"
#include "grammar/schema/schema_sets.h"

namespace ingot::grammar {

namespace {

Json parsed(std::string_view text, const Limits& limits) {
  JsonLimits json_limits;
  json_limits.max_depth = limits.depth;
  json_limits.max_bytes = limits.source_bytes;
  json_limits.max_values = limits.nodes;
  json_limits.reject_duplicate_keys = true;
  try {
    return parse_json(text, "[schema] the schema", json_limits);
  } catch (const GrammarError&) {
    throw;
  } catch (const Error& error) {
    throw GrammarError("", "{}", error.what());
  }
}

}  // namespace

std::shared_ptr<const Grammar> json_schema_grammar(std::string_view schema, bool strict, const Limits& limits) {
  GrammarBuilder builder(limits);
  return builder.build(schema_text_symbol(builder, schema, strict));
}

Symbol schema_text_symbol(GrammarBuilder& builder, std::string_view schema, bool strict) {
  const Json root = parsed(schema, builder.limits());
  const Symbol start = json_schema_symbol(builder, root, strict);
  if (!builder.is_productive(start)) throw GrammarError("#", "[schema] the schema allows no value at all");
  return start;
}

Symbol json_schema_symbol(GrammarBuilder& builder, const Json& schema, bool strict) {
  if (!schema.is_object() && !schema.is_bool()) throw GrammarError("#", "[schema] a schema is an object or a boolean");
  SchemaSets sets(schema, strict, builder.regexes(), builder.limits());
  JsonNotation notation(builder);
  return SchemaEmitter(sets, builder, notation).emit(sets.root());
}

}  // namespace ingot::grammar
