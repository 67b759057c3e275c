#include "grammar/schema/document.h"

#include <algorithm>
#include <array>
#include <optional>

#include "grammar/limits.h"

namespace ingot::grammar {

namespace {

constexpr std::array<std::string_view, 13> kOneSchema = {"items",
                                                         "additionalItems",
                                                         "additionalProperties",
                                                         "unevaluatedProperties",
                                                         "unevaluatedItems",
                                                         "not",
                                                         "if",
                                                         "then",
                                                         "else",
                                                         "contains",
                                                         "propertyNames",
                                                         "contentSchema",
                                                         "extends"};
constexpr std::array<std::string_view, 5> kSchemaLists = {"allOf", "anyOf", "oneOf", "prefixItems", "items"};
constexpr std::array<std::string_view, 6> kSchemaMaps = {"properties",  "patternProperties", "$defs",
                                                         "definitions", "dependentSchemas",  "dependencies"};

template <class List>
bool is_in(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

std::optional<std::string> text_of(const JsonObject& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(value->get_string());
}

Draft draft_of(std::string_view uri) {
  const auto has = [&](std::string_view part) { return uri.find(part) != std::string_view::npos; };
  if (has("draft-04") || has("draft-03")) return Draft::kDraft4;
  if (has("draft-06") || has("draft-07")) return Draft::kDraft7;
  if (has("2019-09") || has("2020-12")) return Draft::kDraft2020;
  return Draft::kUnknown;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 32);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string unescaped(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); i++) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      out += token[++i] == '0' ? '~' : '/';
    } else {
      out += token[i];
    }
  }
  return out;
}

std::pair<std::string_view, std::string_view> split_fragment(std::string_view uri) {
  const size_t hash = uri.find('#');
  if (hash == std::string_view::npos) return {uri, {}};
  return {uri.substr(0, hash), uri.substr(hash + 1)};
}

// Where the path begins, after "scheme:" and "//authority".
size_t path_begin(std::string_view uri) {
  const size_t colon = uri.find(':');
  if (colon == std::string_view::npos) return 0;
  if (uri.substr(colon + 1, 2) != "//") return colon + 1;
  return std::min(uri.find('/', colon + 3), uri.size());
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  bool ends_open = false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    ends_open = part == "." || part == "..";
    if (part == ".." && parts.size() > 1) parts.pop_back();
    if (!ends_open) parts.push_back(part);
    begin = end + 1;
  }
  std::string out;
  for (size_t i = 0; i < parts.size(); i++) (out += i == 0 ? "" : "/") += parts[i];
  if (ends_open) out += "/";
  return out;
}

}  // namespace

std::string resolve_uri(std::string_view base, std::string_view reference) {
  if (reference.empty()) return std::string(base);
  const size_t colon = reference.find(':');
  const size_t slash = reference.find('/');
  if (colon != std::string_view::npos && (slash == std::string_view::npos || colon < slash)) {
    return std::string(reference);
  }
  const size_t path = path_begin(base);
  if (reference.starts_with("//")) {
    return std::string(base.substr(0, base.find(':') + 1)) + std::string(reference);
  }
  if (reference[0] == '/') return std::string(base.substr(0, path)) + without_dots(reference);
  const std::string_view base_path = base.substr(path, base.find('?', path) - path);
  const size_t last = base_path.rfind('/');
  std::string joined(last == std::string_view::npos ? std::string_view() : base_path.substr(0, last + 1));
  if (joined.empty() && path > 0 && base.substr(0, path).find("//") != std::string_view::npos) joined = "/";
  return std::string(base.substr(0, path)) + without_dots(joined + std::string(reference));
}

std::string SchemaDocument::escaped(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

SchemaDocument::SchemaDocument(const Json& root, size_t max_subschemas) : max_subschemas_(max_subschemas) {
  resources_.push_back({.root = &root});
  resource_of_.emplace("", 0);
  scan(root);
}

int32_t SchemaDocument::add(const Json& json, std::string pointer, int32_t resource) {
  const auto [found, is_new] = index_.try_emplace(&json, static_cast<int32_t>(subschemas_.size()));
  if (!is_new) return found->second;
  if (subschemas_.size() >= max_subschemas_) throw LimitError("[schema] more than {} subschemas", max_subschemas_);
  subschemas_.push_back({&json, std::move(pointer), resource});
  return identify(found->second);
}

// Reads $id, $anchor and $schema of a subschema that was just added.
int32_t SchemaDocument::identify(int32_t index) {
  Subschema& sub = subschemas_[static_cast<size_t>(index)];
  if (!sub.json->is_object()) return index;
  const JsonObject& object = sub.json->get_object();
  const Resource& parent = resources_[static_cast<size_t>(sub.resource)];
  const bool is_root = parent.root == sub.json;
  Draft draft = parent.draft;
  if (const auto schema = text_of(object, "$schema")) draft = draft_of(*schema);
  const bool is_old = draft == Draft::kDraft7 || draft == Draft::kDraft4;
  std::optional<std::string> id = text_of(object, draft == Draft::kDraft4 ? "id" : "$id");
  if (is_old && object.contains("$ref")) id.reset();  // $ref hides all beside it
  if (is_root) resources_[static_cast<size_t>(sub.resource)].draft = draft;
  if (id) {
    const auto [uri, fragment] = split_fragment(*id);
    if (!uri.empty()) {
      const std::string full = resolve_uri(parent.uri, uri);
      if (!is_root) {
        resources_.push_back({.uri = full, .root = sub.json, .draft = draft});
        sub.resource = static_cast<int32_t>(resources_.size()) - 1;
      } else {
        resources_[static_cast<size_t>(sub.resource)].uri = full;
      }
      resource_of_.emplace(full, sub.resource);
    }
    if (!fragment.empty()) resources_[static_cast<size_t>(sub.resource)].anchors.emplace_back(fragment, index);
  }
  Resource& own = resources_[static_cast<size_t>(sub.resource)];
  if (!is_old) {
    if (const auto anchor = text_of(object, "$anchor")) own.anchors.emplace_back(*anchor, index);
    if (const auto anchor = text_of(object, "$dynamicAnchor")) own.dynamic_anchors.emplace_back(*anchor, index);
  }
  return index;
}

// All subschemas, so that references find $id and anchors wherever they are. Iterative: each is visited once.
void SchemaDocument::scan(const Json& root) {
  add(root, "#", 0);
  for (size_t i = 0; i < subschemas_.size(); i++) {
    const Json& json = *subschemas_[i].json;
    if (!json.is_object()) continue;
    const auto index = static_cast<int32_t>(i);
    for (const auto& member : json.get_object()) {
      const std::string_view key = member.key();
      const Json& value = member.value();
      if (is_in(kOneSchema, key) && (value.is_object() || value.is_bool())) child(index, value, key);
      if (is_in(kSchemaLists, key) && value.is_array()) {
        size_t n = 0;
        for (const Json& element : value.get_array()) {
          if (element.is_object() || element.is_bool()) child(index, element, key, std::to_string(n));
          n++;
        }
      }
      if (is_in(kSchemaMaps, key) && value.is_object()) {
        for (const auto& element : value.get_object()) {
          if (element.value().is_object() || element.value().is_bool()) {
            child(index, element.value(), key, element.key());
          }
        }
      }
    }
  }
}

int32_t SchemaDocument::child(int32_t parent, const Json& json, std::string_view key) {
  const auto found = index_.find(&json);
  if (found != index_.end()) return found->second;
  return add(json, at(parent).pointer + "/" + std::string(key), at(parent).resource);
}

int32_t SchemaDocument::by_pointer(int32_t resource, std::string_view pointer, int32_t from,
                                   std::string_view reference) {
  const Json* json = resources_[static_cast<size_t>(resource)].root;
  int32_t nearest = index_.at(json);
  std::string path;  // below `nearest`
  const auto missing = [&] {
    return GrammarError(at(from).pointer, "[schema] $ref \"{}\" points to nothing", reference);
  };
  for (size_t begin = 1; begin <= pointer.size();) {
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string token = unescaped(pointer.substr(begin, end - begin));
    if (json->is_object()) {
      json = find(json->get_object(), token);
      if (json == nullptr) throw missing();
    } else if (json->is_array()) {
      size_t n = 0;
      for (const char c : token) n = c >= '0' && c <= '9' ? n * 10 + static_cast<size_t>(c - '0') : size_t{1} << 40;
      if (token.empty() || token.size() > 9 || n >= json->get_array().size()) throw missing();
      json = &json->get_array()[n];
    } else {
      throw missing();
    }
    (path += path.empty() ? "" : "/") += escaped(token);
    const auto found = index_.find(json);
    if (found != index_.end()) nearest = found->second, path.clear();
    begin = end + 1;
  }
  if (path.empty()) return nearest;
  if (!json->is_object() && !json->is_bool()) {
    throw GrammarError(at(from).pointer, "[schema] $ref \"{}\" points to no schema", reference);
  }
  return child(nearest, *json, path);
}

int32_t SchemaDocument::resolve(int32_t from, std::string_view reference, bool dynamic) {
  const auto [uri, raw_fragment] = split_fragment(reference);
  const std::string fragment = percent_decoded(raw_fragment);
  int32_t resource = at(from).resource;
  if (!uri.empty()) {
    const std::string full = resolve_uri(resources_[static_cast<size_t>(resource)].uri, uri);
    const auto found = resource_of_.find(full);
    if (found == resource_of_.end()) {
      throw GrammarError(at(from).pointer, "[schema] $ref \"{}\" leads out of the schema: only local references",
                         reference);
    }
    resource = found->second;
  }
  if (fragment.empty()) return index_.at(resources_[static_cast<size_t>(resource)].root);
  if (fragment[0] == '/') return by_pointer(resource, fragment, from, reference);
  const Resource& target = resources_[static_cast<size_t>(resource)];
  for (const auto& [name, index] : target.dynamic_anchors) {
    if (name != fragment) continue;
    if (!dynamic) return index;
    // Which one counts depends on the way that led here, unless there is only one.
    for (const Resource& other : resources_) {
      for (const auto& [other_name, other_index] : other.dynamic_anchors) {
        if (other_name == fragment && other_index != index) {
          throw GrammarError(at(from).pointer,
                             "[schema] $dynamicRef \"{}\" has several targets, which is not supported", reference);
        }
      }
    }
    return index;
  }
  for (const auto& [name, index] : target.anchors) {
    if (name == fragment) return index;
  }
  throw GrammarError(at(from).pointer, "[schema] $ref \"{}\" points to nothing", reference);
}

}  // namespace ingot::grammar
