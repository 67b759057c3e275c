// Schemas with instances that fit them and some that do not, read from files.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"

namespace ingot {

struct GrammarInstance {
  std::string text;  // JSON, keys in the schema's order
  bool valid = false;
};

struct GrammarCase {
  std::string name;  // of the file
  std::string schema;
  std::vector<GrammarInstance> instances;
};

// Of a file, or of all *.json of a directory. A file holds {"schema", "tests": [{"data", "valid"}]}, or a schema alone.
// Throws Error.
std::vector<GrammarCase> read_grammar_cases(const std::string& path);

// `value` as JSON whose objects have the keys that a schema names first, in its order.
std::string in_schema_order(const Json& value, const Json& schema);

}  // namespace ingot
