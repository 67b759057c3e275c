// An instance as a model would write it under a schema: compact, keys in the order of the schema.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.h"

namespace ingot::grammar {

class OrderedWriter {
 public:
  explicit OrderedWriter(const Json& root) : root_(root) {}

  std::string write(const Json& instance) { return written(instance, {&root_}, 0); }

 private:
  using Schemas = std::vector<const Json*>;

  const Json* local(std::string_view reference) const {
    if (!reference.starts_with("#")) return nullptr;
    const Json* at = &root_;
    for (size_t begin = 2; begin <= reference.size() && at != nullptr;) {
      const size_t end = std::min(reference.find('/', begin), reference.size());
      const std::string token(reference.substr(begin, end - begin));
      if (at->is_object()) {
        at = find(at->get_object(), token);
      } else if (at->is_array() && !token.empty() && static_cast<size_t>(token[0] - '0') < at->get_array().size()) {
        at = &at->get_array()[static_cast<size_t>(token[0] - '0')];
      } else {
        at = nullptr;
      }
      begin = end + 1;
    }
    return at;
  }

  // The schemas that apply to the same value, the nearest first.
  void flatten(const Json* schema, Schemas& out) const {
    if (schema == nullptr || !schema->is_object() || out.size() > 200) return;
    if (std::find(out.begin(), out.end(), schema) != out.end()) return;
    out.push_back(schema);
    const JsonObject& object = schema->get_object();
    if (const Json* reference = find(object, "$ref"); reference != nullptr && reference->is_string()) {
      flatten(local(std::string_view(reference->get_string())), out);
    }
    for (const char* key : {"allOf", "anyOf", "oneOf"}) {
      const Json* list = find(object, key);
      if (list == nullptr || !list->is_array()) continue;
      for (const Json& one : list->get_array()) flatten(&one, out);
    }
    for (const char* key : {"if", "then", "else"}) flatten(find(object, key), out);
    for (const char* key : {"dependentSchemas", "dependencies"}) {
      const Json* map = find(object, key);
      if (map == nullptr || !map->is_object()) continue;
      for (const auto& member : map->get_object()) flatten(&member.value(), out);
    }
  }

  static void children(const Schemas& schemas, std::string_view key, size_t index, Schemas& out) {
    for (const Json* schema : schemas) {
      const JsonObject& object = schema->get_object();
      if (index == ~size_t{0}) {
        const Json* properties = find(object, "properties");
        if (properties != nullptr && properties->is_object()) {
          if (const Json* one = find(properties->get_object(), key)) out.push_back(one);
        }
        if (const Json* one = find(object, "additionalProperties")) out.push_back(one);
        const Json* patterns = find(object, "patternProperties");
        if (patterns != nullptr && patterns->is_object()) {
          for (const auto& member : patterns->get_object()) out.push_back(&member.value());
        }
        continue;
      }
      for (const char* name : {"prefixItems", "items", "additionalItems", "contains"}) {
        const Json* one = find(object, name);
        if (one != nullptr && one->is_array() && index < one->get_array().size())
          out.push_back(&one->get_array()[index]);
        if (one != nullptr && one->is_object()) out.push_back(one);
      }
    }
  }

  static std::vector<std::string> order(const Schemas& schemas) {
    std::vector<std::string> names;
    const auto add = [&](const JsonObject& object) {
      for (const auto& member : object) names.emplace_back(member.key());
    };
    for (const Json* schema : schemas) {
      const Json* properties = find(schema->get_object(), "properties");
      if (properties != nullptr && properties->is_object()) add(properties->get_object());
      if (const Json* value = find(schema->get_object(), "const"); value != nullptr && value->is_object()) {
        add(value->get_object());
      }
      if (const Json* list = find(schema->get_object(), "enum"); list != nullptr && list->is_array()) {
        for (const Json& value : list->get_array()) {
          if (value.is_object()) add(value.get_object());
        }
      }
    }
    return names;
  }

  std::string written(const Json& value, const Schemas& given, int depth) const {
    Schemas schemas;
    for (const Json* schema : given) flatten(schema, schemas);
    std::string out;
    if (value.is_array() && depth < 50) {
      size_t index = 0;
      for (const Json& item : value.get_array()) {
        Schemas below;
        children(schemas, "", index++, below);
        (out += out.empty() ? "[" : ",") += written(item, below, depth + 1);
      }
      return out.empty() ? "[]" : out + "]";
    }
    if (!value.is_object() || depth >= 50) return to_json(value);
    std::vector<std::string> names = order(schemas);
    for (const auto& member : value.get_object()) names.emplace_back(member.key());
    std::vector<std::string> done;
    for (const std::string& name : names) {
      const Json* member = find(value.get_object(), name);
      if (member == nullptr || std::find(done.begin(), done.end(), name) != done.end()) continue;
      done.push_back(name);
      Schemas below;
      children(schemas, name, ~size_t{0}, below);
      out += out.empty() ? "{" : ",";
      append_json(out, name);
      out += ":" + written(*member, below, depth + 1);
    }
    return out.empty() ? "{}" : out + "}";
  }

  const Json& root_;
};

}  // namespace ingot::grammar
