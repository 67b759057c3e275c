#include "serve/api/limits.h"

#include "serve/api/shared_fields.h"

namespace ingot {
namespace {

using enum FieldEffect;

const char* effect_name(FieldEffect effect) {
  switch (effect) {
    case kHonoured:
      return "honoured";
    case kRefused:
      return "refused";
    case kIgnored:
      return "ignored";
  }
  return "";
}

JsonObject table_json(const FieldTable& table);

JsonObject field_json(const Field& field) {
  JsonObject json{{"type", kind_names(field.kinds)}, {"effect", effect_name(field.effect)}};
  if (field.required) json["required"] = true;
  if (field.effect == kRefused) return json;
  if ((field.kinds & (kInteger | kNumber)) != 0) {
    json["minimum"] = range_end(field, field.low);
    json["maximum"] = range_end(field, field.high);
  } else if (field.low < field.high) {
    json["item_minimum"] = field.low;
    json["item_maximum"] = field.high;
  }
  const std::pair<const char*, size_t> lengths[] = {
      {"max_length", field.max_length}, {"min_length", field.min_length},   {"max_items", field.max_items},
      {"min_items", field.min_items},   {"max_prompts", field.max_prompts}, {"item_max_length", field.item_max_length}};
  for (const auto& [name, length] : lengths) {
    if (length != 0) json[name] = length;
  }
  if (field.items != 0) json["items"] = kind_names(field.items);
  if (field.values) json["values"] = field.values;
  if (const std::optional<Json> value = default_of(field)) json["default"] = *value;
  if (field.members) json["members"] = table_json(*field.members);
  return json;
}

JsonObject table_json(const FieldTable& table) {
  JsonObject json;
  for (const Field& field : table.fields) json[field.name] = field_json(field);
  return json;
}

}  // namespace

JsonObject field_limits() {
  JsonObject limits{{"body_depth", kMaxBodyDepth},     {"body_values", kMaxBodyValues},
                    {"body_members", kMaxBodyMembers}, {"object_members", kMaxObjectMembers},
                    {"prompts", kMaxPrompts},          {"choices", kMaxChoices},
                    {"answer_tokens", kMaxHeldTokens}, {"answer_logprobs", kMaxHeldScores}};
  for (const Endpoint& endpoint : endpoints()) limits[endpoint.path] = table_json(*endpoint.body);
  return limits;
}

}  // namespace ingot
