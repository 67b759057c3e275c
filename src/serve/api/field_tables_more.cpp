// The fields of embeddings and of the tokenizer's endpoints, the list of all endpoints, and /v1/limits.
#include <array>

#include "serve/api/field_tables.h"

namespace ingot {
namespace {

using enum FieldEffect;

constexpr Field kModel{
    .name = "model", .kinds = kString, .text = "A name that /v1/models tells; may be left out", .max_length = 512};

constexpr std::array kEmbedding = {
    kModel,
    Field{.name = "input",
          .kinds = kString | kArray,
          .text = "Text or token ids, or a list of either",
          .required = true,
          .max_prompts = kMaxPrompts,
          .items = kString | kInteger | kArray},
    Field{.name = "encoding_format",
          .kinds = kString,
          .text = "How numbers are sent",
          .values = "float|base64",
          .fallback = "\"float\""},
    Field{.name = "pooling",
          .kinds = kString,
          .text = "Which rows become the vector",
          .values = "mean|last|cls",
          .fallback = "\"mean\""},
    Field{.name = "normalize", .kinds = kBool, .text = "Whether vectors have length 1", .fallback = "true"},
    Field{.name = "dimensions", .kinds = kInteger, .text = "Only the model's own number", .low = 1, .high = 1e6},
    Field{.name = "user", .kinds = kString, .text = "Who asks", .effect = kIgnored},
};

constexpr std::array kTokenize = {
    kModel,
    Field{.name = "text", .kinds = kString, .text = "What is cut into tokens"},
    Field{.name = "content", .kinds = kString, .text = "The same by another name"},
    Field{.name = "prompt", .kinds = kString, .text = "The same by another name"},
    Field{.name = "add_special", .kinds = kBool, .text = "BOS and EOS as the model asks", .fallback = "false"},
    Field{.name = "add_special_tokens", .kinds = kBool, .text = "The same by another name"},
    Field{.name = "parse_special",
          .kinds = kBool,
          .text = "Control tokens in the text are read as such",
          .fallback = "false"},
};

constexpr std::array kDetokenize = {
    kModel,
    Field{.name = "ids", .kinds = kArray, .text = "Tokens", .items = kInteger},
    Field{.name = "tokens", .kinds = kArray, .text = "The same by another name", .items = kInteger},
};

constexpr std::array<Endpoint, 7> kEndpoints = {{
    {"/v1/chat/completions", "An answer to a conversation", &kChatFields},
    {"/v1/completions", "Goes on with a text", &kCompletionFields},
    {"/v1/embeddings", "A vector for each text", &kEmbeddingFields},
    {"/v1/messages", "An answer to a conversation, Anthropic's API", &kMessagesFields},
    {"/v1/messages/count_tokens", "Tokens of a conversation", &kCountTokensFields},
    {"/tokenize", "Text to token ids", &kTokenizeFields},
    {"/detokenize", "Token ids to text", &kDetokenizeFields},
}};

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

JsonArray kind_names(unsigned kinds) {
  static constexpr std::pair<unsigned, const char*> kNames[] = {{kBool, "boolean"},  {kInteger, "integer"},
                                                                {kNumber, "number"}, {kString, "string"},
                                                                {kArray, "array"},   {kObject, "object"}};
  JsonArray names;
  for (const auto& [kind, name] : kNames) {
    if ((kinds & kind) != 0) names.push_back(name);
  }
  return names;
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
  if (field.fallback) json["default"] = parse_json(field.fallback, "default");
  if (field.members) json["members"] = table_json(*field.members);
  return json;
}

JsonObject table_json(const FieldTable& table) {
  JsonObject json;
  for (const Field& field : table.fields) json[field.name] = field_json(field);
  return json;
}

}  // namespace

const FieldTable kEmbeddingFields{"EmbeddingRequest", kEmbedding};
const FieldTable kTokenizeFields{"TokenizeRequest", kTokenize};
const FieldTable kDetokenizeFields{"DetokenizeRequest", kDetokenize};

std::span<const Endpoint> endpoints() { return kEndpoints; }

JsonObject field_limits() {
  JsonObject limits{{"body_depth", kMaxBodyDepth},
                    {"body_values", kMaxBodyValues},
                    {"prompts", kMaxPrompts},
                    {"choices", kMaxChoices}};
  for (const Endpoint& endpoint : endpoints()) limits[endpoint.path] = table_json(*endpoint.body);
  return limits;
}

}  // namespace ingot
