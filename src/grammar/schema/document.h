// The schema as it is written: its subschemas with their JSON pointers, and what `$ref` means. Nothing outside the
// document is ever asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/json.h"

namespace ingot::grammar {

// What `$schema` says; kUnknown (no `$schema`): every keyword of draft 7 and of 2020-12 counts.
enum class Draft : uint8_t { kUnknown, kDraft4, kDraft7, kDraft2020 };

class SchemaDocument {
 public:
  struct Subschema {
    const Json* json = nullptr;
    std::string pointer;   // "#/properties/a"
    int32_t resource = 0;  // whose base URI it has
  };

  // Throws GrammarError with the pointer. REQUIRES: `root` outlives it.
  SchemaDocument(const Json& root, size_t max_subschemas);

  const Subschema& at(int32_t index) const { return subschemas_[static_cast<size_t>(index)]; }
  Draft draft(int32_t index) const { return resources_[static_cast<size_t>(at(index).resource)].draft; }
  // The subschema that is this value of the document, `key` below `parent` in its pointer.
  int32_t child(int32_t parent, const Json& json, std::string_view key);
  int32_t child(int32_t parent, const Json& json, std::string_view key, std::string_view key2) {
    return child(parent, json, std::string(key) + "/" + escaped(key2));
  }
  // What `$ref` (`dynamic`: `$dynamicRef`) of `from` means. Throws GrammarError.
  int32_t resolve(int32_t from, std::string_view reference, bool dynamic);

  // A member's name as JSON pointers write it.
  static std::string escaped(std::string_view key);

 private:
  struct Resource {
    std::string uri{};
    const Json* root = nullptr;
    Draft draft = Draft::kUnknown;
    std::vector<std::pair<std::string, int32_t>> anchors{}, dynamic_anchors{};
  };
  int32_t add(const Json& json, std::string pointer, int32_t resource);
  int32_t identify(int32_t index);
  void scan(const Json& root);
  int32_t by_pointer(int32_t resource, std::string_view pointer, int32_t from, std::string_view reference);

  const size_t max_subschemas_;
  std::vector<Subschema> subschemas_;
  std::unordered_map<const Json*, int32_t> index_;
  std::vector<Resource> resources_;
  std::map<std::string, int32_t> resource_of_;  // by URI; sorted: a client may make them collide
};

// `reference` against `base` by RFC 3986 section 5.2, both without fragments.
std::string resolve_uri(std::string_view base, std::string_view reference);

}  // namespace ingot::grammar
