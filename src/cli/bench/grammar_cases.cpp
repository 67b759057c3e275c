#include "cli/bench/grammar_cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "files/directory.h"

namespace ingot {
namespace {

// How deep $ref and applicators are followed for the order of keys: deeper ones stay as they are.
constexpr int kMaxDepth = 32;

const Json* resolve(const Json& root, std::string_view ref) {
  if (!ref.starts_with('#')) return nullptr;
  boost::system::error_code error;
  const Json* found = root.find_pointer(std::string(ref.substr(1)), error);
  return error ? nullptr : found;
}

class Order {
 public:
  explicit Order(const Json& root) : root_(root) {}

  void write(const Json& value, std::vector<const Json*> schemas, std::string& out) const {
    schemas = applied(schemas);
    if (value.is_object()) return write_object(value.get_object(), schemas, out);
    if (value.is_array()) return write_array(value.get_array(), schemas, out);
    if (value.is_double()) {
      out += fmt::format("{}", value.get_double());  // as people write it: 0.5, and not 5E-1
    } else {
      out += to_json(value);
    }
  }

 private:
  // The schemas and what they refer to or are made of.
  std::vector<const Json*> applied(const std::vector<const Json*>& schemas) const {
    std::vector<const Json*> all;
    for (const Json* schema : schemas) add(schema, 0, all);
    return all;
  }
  void add(const Json* schema, int depth, std::vector<const Json*>& all) const {
    if (!schema || !schema->is_object() || depth > kMaxDepth || std::ranges::find(all, schema) != all.end()) return;
    all.push_back(schema);
    const JsonObject& object = schema->get_object();
    if (const Json* ref = find(object, "$ref"); ref && ref->is_string()) {
      add(resolve(root_, std::string_view(ref->get_string())), depth + 1, all);
    }
    for (const char* name : {"allOf", "anyOf", "oneOf"}) {
      const Json* list = find(object, name);
      for (size_t i = 0; list && list->is_array() && i < list->get_array().size(); ++i) {
        add(&list->get_array()[i], depth + 1, all);
      }
    }
    for (const char* name : {"if", "then", "else"}) add(find(object, name), depth + 1, all);
  }

  static std::vector<const Json*> members(const std::vector<const Json*>& schemas, std::string_view key) {
    std::vector<const Json*> found;
    for (const Json* schema : schemas) {
      const JsonObject& object = schema->get_object();
      const Json* properties = find(object, "properties");
      const Json* of_key = properties && properties->is_object() ? find(properties->get_object(), key) : nullptr;
      if (!of_key) of_key = find(object, "additionalProperties");
      if (of_key) found.push_back(of_key);
    }
    return found;
  }

  void write_object(const JsonObject& object, const std::vector<const Json*>& schemas, std::string& out) const {
    std::vector<std::string_view> keys;
    const auto take = [&](std::string_view key) {
      if (object.contains(key) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    };
    for (const Json* schema : schemas) {
      const Json* properties = find(schema->get_object(), "properties");
      if (!properties || !properties->is_object()) continue;
      for (const auto& member : properties->get_object()) take({member.key().data(), member.key().size()});
    }
    for (const auto& member : object) take({member.key().data(), member.key().size()});
    out += '{';
    for (size_t i = 0; i < keys.size(); ++i) {
      out += i > 0 ? ", " : "";
      out += to_json(Json(keys[i])) + ": ";
      write(object.at(keys[i]), members(schemas, keys[i]), out);
    }
    out += '}';
  }

  void write_array(const JsonArray& array, const std::vector<const Json*>& schemas, std::string& out) const {
    out += '[';
    for (size_t i = 0; i < array.size(); ++i) {
      std::vector<const Json*> of_item;
      for (const Json* schema : schemas) {
        for (const char* name : {"prefixItems", "items", "additionalItems"}) {
          const Json* items = find(schema->get_object(), name);
          if (items && items->is_array()) items = i < items->get_array().size() ? &items->get_array()[i] : nullptr;
          if (items) of_item.push_back(items);
        }
      }
      out += i > 0 ? ", " : "";
      write(array[i], of_item, out);
    }
    out += ']';
  }

  const Json& root_;
};

GrammarCase read_case(const std::string& path) {
  const Json file = read_json_file(path, {.max_depth = 512});
  GrammarCase one{.name = path.substr(path.rfind('/') + 1), .schema = {}, .instances = {}};
  const JsonObject* object = file.is_object() ? &file.get_object() : nullptr;
  const Json* schema = object ? find(*object, "schema") : nullptr;
  const JsonArray* tests = schema ? find_array(*object, "tests") : nullptr;
  if (!schema) schema = &file;
  one.schema = to_json(*schema);
  for (size_t i = 0; tests && i < tests->size(); ++i) {
    const JsonObject* test = (*tests)[i].if_object();
    const Json* data = test ? find(*test, "data") : nullptr;
    if (!data) throw Error("[bench] {}: test {} has no data", one.name, i);
    one.instances.push_back({.text = in_schema_order(*data, *schema), .valid = get_bool(*test, "valid")});
  }
  return one;
}

}  // namespace

std::string in_schema_order(const Json& value, const Json& schema) {
  std::string text;
  Order(schema).write(value, {&schema}, text);
  return text;
}

std::vector<GrammarCase> read_grammar_cases(const std::string& path) {
  std::vector<GrammarCase> cases;
  if (!is_directory(path)) return {read_case(path)};
  for (const std::string& file : list_files(path)) {
    if (file.ends_with(".json")) cases.push_back(read_case(file));
  }
  if (cases.empty()) throw Error("[bench] '{}' has no file *.json", path);
  return cases;
}

}  // namespace ingot
