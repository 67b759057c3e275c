#include "serve/api/openapi.h"

#include <fmt/format.h>

#include <set>

#include "serve/api/fields.h"

namespace ingot {
namespace {

struct Plain {
  const char* path;
  const char* summary;
  const char* type;
  bool open;  // without a key
};

// What takes no body.
constexpr Plain kPlain[] = {
    {"/health", "Whether the process lives and makes progress", "application/json", true},
    {"/ready", "Whether requests are taken", "application/json", true},
    {"/metrics", "Counters in Prometheus' text format", "text/plain", false},
    {"/v1/models", "The model that is served", "application/json", false},
    {"/v1/models/{id}", "The same by its name", "application/json", false},
    {"/v1/responses/{id}", "An answer that is kept", "application/json", false},
    {"/v1/limits", "Every field's type, range and limit", "application/json", false},
    {"/v1/engine", "The engine's counters now", "application/json", false},
    {"/v1/usage", "What was used: in all, by this key, and for an admin by every key", "application/json", false},
    {"/api/tags", "The model that is served, Ollama's API", "application/json", false},
    {"/api/ps", "The model that runs, Ollama's API", "application/json", false},
    {"/api/version", "The version of Ollama's API", "application/json", false},
    {"/openapi.json", "This document", "application/json", false},
};

JsonArray types_of(unsigned kinds, bool null) {
  JsonArray names = kind_names(kinds);
  if (null) names.push_back("null");
  return names;
}

Json reference(const char* name) { return JsonObject{{"$ref", fmt::format("#/components/schemas/{}", name)}}; }

class Schemas {
 public:
  Json refer(const FieldTable& table) {
    if (!made_.contains(table.name)) {
      made_[table.name] = nullptr;  // a table that holds itself would come here again
      made_[table.name] = object_schema(table);
    }
    return reference(table.name);
  }
  JsonObject take() { return std::move(made_); }

 private:
  JsonObject object_schema(const FieldTable& table) {
    JsonObject properties;
    JsonArray required;
    for (const Field& field : table.fields) {
      properties[field.name] = field_schema(field);
      if (field.required) required.push_back(field.name);
    }
    JsonObject schema{{"type", "object"}, {"properties", std::move(properties)}};
    if (!required.empty()) schema["required"] = std::move(required);
    if (!table.open) schema["additionalProperties"] = false;
    return schema;
  }

  JsonObject field_schema(const Field& field) {
    JsonObject schema{{"description", field.text}};
    if (field.effect == FieldEffect::kRefused) {
      schema["description"] = fmt::format("Not supported. {}", field.text);
      schema["enum"] = JsonArray{nullptr, false, "", JsonArray{}, JsonObject{}};
      return schema;
    }
    if (field.max_prompts != 0) {
      schema["anyOf"] = prompt_schemas(field);
      return schema;
    }
    schema["type"] = types_of(field.kinds, !field.required);
    add_limits(field, schema);
    if ((field.kinds & kArray) != 0 && field.items != 0) schema["items"] = item_schema(field);
    if ((field.kinds & kObject) != 0 && field.members) {
      const Json members = refer(*field.members);
      // Several types beside a reference: either of them.
      schema.erase("type");
      JsonArray any{members};
      const unsigned others = field.kinds & ~static_cast<unsigned>(kObject);
      if (others != 0 || !field.required) any.push_back(JsonObject{{"type", types_of(others, !field.required)}});
      schema["anyOf"] = std::move(any);
    }
    if (const std::optional<Json> value = default_of(field)) schema["default"] = *value;
    return schema;
  }

  static void add_limits(const Field& field, JsonObject& schema) {
    if ((field.kinds & (kInteger | kNumber)) != 0) {
      schema["minimum"] = range_end(field, field.low);
      schema["maximum"] = range_end(field, field.high);
    } else if (field.low < field.high) {
      schema["additionalProperties"] = JsonObject{{"type", "number"}, {"minimum", field.low}, {"maximum", field.high}};
    }
    if (field.max_length != 0) schema["maxLength"] = field.max_length;
    if (field.min_length != 0) schema["minLength"] = field.min_length;
    if (field.max_items != 0) schema[(field.kinds & kObject) != 0 ? "maxProperties" : "maxItems"] = field.max_items;
    if (field.min_items != 0) schema["minItems"] = field.min_items;
    if (!field.values) return;
    JsonArray values;
    std::string_view words = field.values;
    while (!words.empty()) {
      const size_t end = words.find('|');
      values.push_back(Json(words.substr(0, end)));
      words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
    }
    if ((field.kinds & ~static_cast<unsigned>(kString)) != 0) return;  // `enum` would forbid the other kinds
    if (!field.required) values.push_back(nullptr);
    schema["enum"] = std::move(values);
  }

  // Text, ids, or a list of either, which alone is limited in its length.
  static JsonArray prompt_schemas(const Field& field) {
    const JsonObject text{{"type", "string"}}, id{{"type", "integer"}, {"minimum", 0}};
    const JsonObject ids{{"type", "array"}, {"items", id}, {"minItems", 1}};
    const auto list_of = [&](const JsonObject& items) {
      return JsonObject{{"type", "array"}, {"items", items}, {"minItems", 1}, {"maxItems", field.max_prompts}};
    };
    return {text, ids, list_of(text), list_of(ids)};
  }

  Json item_schema(const Field& field) {
    if (field.items == kObject && field.members) return refer(*field.members);
    JsonObject schema{{"type", types_of(field.items, false)}};
    if (field.item_max_length != 0) schema["maxLength"] = field.item_max_length;
    return schema;
  }

  JsonObject made_;
};

JsonObject answer_of(const char* type, Json schema) {
  JsonObject content;
  content[type] = JsonObject{{"schema", std::move(schema)}};
  return {{"description", "The answer"}, {"content", std::move(content)}};
}

JsonObject error_answers(JsonObject answers) {
  answers["default"] =
      JsonObject{{"description", "An error"},
                 {"content", JsonObject{{"application/json", JsonObject{{"schema", reference("Error")}}}}}};
  return answers;
}

JsonObject post_operation(const Endpoint& endpoint, Schemas& schemas) {
  const JsonObject body{
      {"required", true},
      {"content", JsonObject{{"application/json", JsonObject{{"schema", schemas.refer(*endpoint.body)}}}}}};
  JsonObject answer = answer_of("application/json", JsonObject{{"type", "object"}});
  for (const Field& field : endpoint.body->fields) {
    if (std::string_view(field.name) != "stream") continue;
    const bool lines = std::string_view(endpoint.path).starts_with("/api/");
    const char* const type = lines ? "application/x-ndjson" : "text/event-stream";
    answer["content"].as_object()[type] = JsonObject{{"schema", JsonObject{{"type", "string"}}}};
  }
  return {
      {"summary", endpoint.summary}, {"requestBody", body}, {"responses", error_answers({{"200", std::move(answer)}})}};
}

}  // namespace

Json openapi_document(const std::string& version) {
  Schemas schemas;
  JsonObject paths;
  for (const Plain& plain : kPlain) {
    const bool json = std::string_view(plain.type) == "application/json";
    JsonObject get{{"summary", plain.summary},
                   {"responses",
                    error_answers({{"200", answer_of(plain.type, JsonObject{{"type", json ? "object" : "string"}})}})}};
    if (plain.open) get["security"] = JsonArray{};
    if (std::string_view(plain.path).ends_with("{id}")) {
      get["parameters"] = JsonArray{
          JsonObject{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", JsonObject{{"type", "string"}}}}};
    }
    paths[plain.path] = JsonObject{{"get", std::move(get)}};
  }
  for (const Endpoint& endpoint : endpoints()) {
    paths[endpoint.path] = JsonObject{{"post", post_operation(endpoint, schemas)}};
  }
  JsonObject components = schemas.take();
  components["Error"] = JsonObject{{"type", "object"},
                                   {"properties", JsonObject{{"error", JsonObject{{"type", "object"}}}}},
                                   {"required", JsonArray{"error"}}};
  const JsonObject schemes{{"bearer", JsonObject{{"type", "http"}, {"scheme", "bearer"}}}};
  JsonObject bearer;
  bearer["bearer"] = JsonArray{};
  return JsonObject{{"openapi", "3.1.0"},
                    {"info", JsonObject{{"title", "Ingot"}, {"version", version}}},
                    {"paths", std::move(paths)},
                    {"components", JsonObject{{"schemas", std::move(components)}, {"securitySchemes", schemes}}},
                    {"security", JsonArray{JsonObject{}, std::move(bearer)}}};
}

}  // namespace ingot
