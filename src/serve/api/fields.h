// The one table of every field of every endpoint: type, range, limit, default and what becomes of it. Requests are
// checked against it, /v1/limits and /openapi.json are written from it, and the tests walk it. The numbers of sampling
// come from theirs (ops/sample/sampling_params.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "files/json.h"
#include "ops/sample/sampling_params.h"
#include "serve/api/api_error.h"

namespace ingot {

// What a value may be: several bits where a field takes several kinds.
enum FieldKind : unsigned {
  kBool = 1,
  kInteger = 2,
  kNumber = 4,
  kString = 8,
  kArray = 16,
  kObject = 32,
};

enum class FieldEffect : uint8_t {
  kHonoured,
  kRefused,  // 400 by name, but where the value is null, false or empty: what clients send for "not wanted"
  kIgnored,  // accepted without effect
};

struct FieldTable;

// One member of a request's object, or of an object within it.
struct Field {
  const char* name;
  unsigned kinds;  // FieldKind bits; null is always taken as absent, but where `required` is set
  const char* text;
  FieldEffect effect = FieldEffect::kHonoured;
  bool required = false;
  double low = 0, high = 0;             // of kInteger and kNumber, else of an object's values; both included
  size_t max_length = 0;                // characters of a string; 0: as many as the body may have
  size_t min_length = 0;                // likewise
  size_t max_items = 0;                 // items of an array, members of an object; 0: as many as the body may have
  size_t min_items = 0;                 // of an array
  size_t max_prompts = 0;               // items of an array of texts or of lists; of ids there may be more
  const char* values = nullptr;         // of a string: the words it may be, "auto|default"; none: any text
  const char* reason = nullptr;         // why other words and kinds are refused, for the error
  const char* fallback = nullptr;       // as JSON; none: absent means not used, or as `text` says
  unsigned items = 0;                   // of an array: kinds of its items; 0: any, the reader checks them
  size_t item_max_length = 0;           // characters of a string among them
  const FieldTable* members = nullptr;  // of an object, and of the objects among an array's items; none: any, the
                                        // reader checks them
  // Of the numbers of sampling: what it sets.
  const SamplingNumber* sampling = nullptr;
};

struct FieldTable {
  const char* name;  // "ChatRequest": the schema's name in /openapi.json
  std::span<const Field> fields;
  bool open = false;  // members that are not listed are passed over; otherwise each is refused by its name
};

// What takes a JSON body.
struct Endpoint {
  const char* path;
  const char* summary;
  const FieldTable* body;
};
std::span<const Endpoint> endpoints();

extern const FieldTable kChatFields, kCompletionFields, kResponseFields, kMessagesFields, kCountTokensFields,
    kEmbeddingFields, kTokenizeFields, kDetokenizeFields, kOllamaChatFields, kOllamaGenerateFields, kOllamaEmbedFields,
    kOllamaEmbeddingsFields, kOllamaShowFields;

// Limits that belong to no single field.
inline constexpr size_t kMaxBodyDepth = 64;
inline constexpr size_t kMaxObjectMembers = 2048;  // of one object
inline constexpr size_t kMaxBodyValues = 1 << 18;
inline constexpr size_t kMaxBodyMembers = 1 << 16;  // of all objects together
inline constexpr int kMaxChoices = 128;             // prompts × n
// What one answer may have to hold at once: echoed prompts and, where it is not streamed, all that is made, of all
// choices. Log-probabilities are 1 + logprobs for each token: 12,483 tokens with the 20 likeliest of each are 10 MB of
// a completion and 20 MB of a conversation.
inline constexpr int64_t kMaxHeldTokens = 1 << 20;
inline constexpr int64_t kMaxHeldScores = 1 << 18;

// The body of a request as an object whose members the table allows. Throws ApiError 400 with the path of the field.
Json read_body(std::string_view body, const FieldTable& table);
// The second half of it. `path` is what stands before the members' names: "messages[0].".
void check_fields(const JsonObject& object, const FieldTable& table, const std::string& path = {});

// The members of an object that check_fields let through, by name. Null is absent, and so is a value of another kind
// than is asked for, which the table has then let through for a reader of its own.
class Fields {
 public:
  // `object` must outlive it.
  explicit Fields(const JsonObject& object, std::string path = {}) : object_(object), path_(std::move(path)) {}

  const Json* value(std::string_view name) const;  // none: absent or null
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<std::string> string(std::string_view name) const;
  const JsonArray* array(std::string_view name) const;
  const JsonObject* object(std::string_view name) const;

  // "messages[0].content", for errors.
  std::string path(std::string_view name) const { return path_ + std::string(name); }

 private:
  const JsonObject& object_;
  std::string path_;
};

// An integer, however JSON has it (4 or 4.0); empty where it is none or beyond 64 bits.
std::optional<int64_t> exact_integer(const Json& value);

// An end of a number's range as it is published: that of an integer is one.
Json range_end(const Field& field, double end);

// What absent means, where that is known before a model is.
std::optional<Json> default_of(const Field& field);

// "boolean", "integer" … of the bits.
JsonArray kind_names(unsigned kinds);

}  // namespace ingot
