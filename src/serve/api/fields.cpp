#include "serve/api/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace ingot {
namespace {

constexpr size_t kMaxBodyBytes = size_t{64} << 20;  // HttpLimits has the limit that counts

unsigned kind_of(const Json& value) {
  switch (value.kind()) {
    case boost::json::kind::bool_:
      return kBool;
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
    case boost::json::kind::double_:
      return exact_integer(value) ? kInteger | kNumber : kNumber;
    case boost::json::kind::string:
      return kString;
    case boost::json::kind::array:
      return kArray;
    case boost::json::kind::object:
      return kObject;
    case boost::json::kind::null:
      break;
  }
  return 0;
}

std::string kinds_text(unsigned kinds) {
  static constexpr std::pair<unsigned, const char*> kNames[] = {{kBool, "true or false"}, {kInteger, "an integer"},
                                                                {kNumber, "a number"},    {kString, "a string"},
                                                                {kArray, "an array"},     {kObject, "an object"}};
  std::string text;
  for (const auto& [kind, name] : kNames) {
    if ((kinds & kind) == 0 || (kind == kInteger && (kinds & kNumber) != 0)) continue;
    text += text.empty() ? "" : " or ";
    text += name;
  }
  return text;
}

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string_view view(const Json& value) { return {value.get_string().data(), value.get_string().size()}; }

bool is_word_of(std::string_view word, std::string_view words) {
  while (true) {
    const size_t end = words.find('|');
    if (words.substr(0, end) == word) return true;
    if (end == std::string_view::npos) return false;
    words.remove_prefix(end + 1);
  }
}

// What clients send for "not wanted".
bool says_nothing(const Json& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return true;
    case boost::json::kind::bool_:
      return !value.get_bool();
    case boost::json::kind::string:
      return value.get_string().empty();
    case boost::json::kind::array:
      return value.get_array().empty();
    case boost::json::kind::object:
      return value.get_object().empty();
    default:
      return false;
  }
}

void check_length(size_t length, size_t low, size_t high, const char* what, const std::string& path) {
  if (high != 0 && length > high) {
    throw bad_field(path, fmt::format("{} has {} {}, at most {} are allowed", path, length, what, high));
  }
  if (length < low) throw bad_field(path, fmt::format("{} has {} {}, at least {} needed", path, length, what, low));
}

void check_number(const Json& value, const Field& field, const std::string& path) {
  const double number = value.is_double() ? value.get_double() : value.to_number<double>();
  // Written so that NaN fails.
  if (number >= field.low && number <= field.high) return;
  throw bad_field(path, fmt::format("{} is {}, expected {} to {}", path, number, field.low, field.high));
}

void check_item(const Json& item, const Field& field, const std::string& path) {
  if ((kind_of(item) & field.items) == 0) {
    throw bad_field(path, fmt::format("{} must be {}", path, kinds_text(field.items)));
  }
  if (item.is_string()) check_length(characters(view(item)), 0, field.item_max_length, "characters", path);
  if (item.is_object() && field.members) check_fields(item.get_object(), *field.members, path + ".");
}

// The sentence for a value of a kind, or for a word, that the field does not take.
std::string expected(const Field& field, const std::string& path) {
  std::string text = kinds_text(field.kinds);
  if (field.values && field.kinds == kString) {
    const bool several = std::string_view(field.values).find('|') != std::string_view::npos;
    text = (several ? "one of " : "") + std::string(field.values);
  }
  text = fmt::format("{} must be {}", path, text);
  return field.reason ? fmt::format("{}: {}", text, field.reason) : text;
}

void check_value(const Json& value, const Field& field, const std::string& path) {
  if (field.effect == FieldEffect::kRefused) {
    if (says_nothing(value)) return;
    throw bad_field(path, fmt::format("{} is not supported by this server", path));
  }
  if ((kind_of(value) & field.kinds) == 0) throw bad_field(path, expected(field, path));
  if (value.is_number()) check_number(value, field, path);
  if (value.is_string()) {
    check_length(characters(view(value)), field.min_length, field.max_length, "characters", path);
    if (field.values && !is_word_of(view(value), field.values)) throw bad_field(path, expected(field, path));
  }
  if (value.is_array()) {
    const JsonArray& items = value.get_array();
    check_length(items.size(), field.min_items, field.max_items, "items", path);
    for (size_t i = 0; i < items.size() && field.items != 0; ++i) {
      check_item(items[i], field, fmt::format("{}[{}]", path, i));
    }
  }
  if (value.is_object()) {
    check_length(value.get_object().size(), 0, field.max_items, "members", path);
    if (field.members) check_fields(value.get_object(), *field.members, path + ".");
  }
}

const Field* find_field(const FieldTable& table, std::string_view name) {
  const auto found = std::ranges::find_if(table.fields, [&](const Field& field) { return name == field.name; });
  return found == table.fields.end() ? nullptr : &*found;
}

}  // namespace

std::optional<int64_t> exact_integer(const Json& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_uint64() && value.get_uint64() <= static_cast<uint64_t>(kIntMax)) {
    return static_cast<int64_t>(value.get_uint64());
  }
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!(std::abs(number) <= kExact) || number != std::trunc(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Json range_end(const Field& field, double end) {
  if ((field.kinds & kNumber) != 0) return end;
  // 2^63 itself is beyond the integers of 64 bits, and a double holds nothing between it and 2^63 - 1024.
  return end >= 0x1p63 ? Json(kIntMax) : Json(static_cast<int64_t>(end));
}

std::optional<Json> default_of(const Field& field) {
  if (field.fallback) return parse_json(field.fallback, "default");
  if (!field.sampling || field.sampling->hint) return std::nullopt;
  const SamplingParams defaults;
  const SamplingNumber& n = *field.sampling;
  if (n.integer) return Json(defaults.*n.integer);
  return parse_json(fmt::format("{}", defaults.*n.number), "default");  // 0.1, not the double nearest to 0.1f
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

void check_fields(const JsonObject& object, const FieldTable& table, const std::string& path) {
  for (const auto& member : object) {
    const std::string_view name(member.key().data(), member.key().size());
    const Field* field = find_field(table, name);
    if (!field && table.open) continue;
    const std::string where = path + utf8_printable(name, 64);
    if (!field) throw bad_field(where, fmt::format("{} is not a field of this request", where));
    if (!member.value().is_null()) check_value(member.value(), *field, where);
  }
  for (const Field& field : table.fields) {
    const Json* value = field.required ? find(object, field.name) : nullptr;
    if (!field.required || (value && !value->is_null())) continue;
    throw bad_field(path + field.name, fmt::format("{}{} is required", path, field.name));
  }
}

Json read_body(std::string_view body, const FieldTable& table) {
  const JsonLimits limits{.max_depth = kMaxBodyDepth,
                          .max_object_members = kMaxObjectMembers,
                          .max_bytes = kMaxBodyBytes,
                          .reject_duplicate_keys = true,
                          .max_values = kMaxBodyValues,
                          .max_members = kMaxBodyMembers};
  Json json;
  try {
    json = parse_json(body, "[body]", limits);
  } catch (const Error& error) {
    std::string_view what = error.what();
    if (what.starts_with("[body]: ")) what.remove_prefix(8);
    throw bad_field({}, fmt::format("the body is not the JSON that is expected: {}", what));
  }
  if (!json.is_object()) throw bad_field({}, "the body must be a JSON object");
  check_fields(json.get_object(), table);
  return json;
}

const Json* Fields::value(std::string_view name) const {
  const Json* found = find(object_, name);
  return found && !found->is_null() ? found : nullptr;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* found = value(name);
  return found && found->is_bool() ? std::optional(found->get_bool()) : std::nullopt;
}

std::optional<int64_t> Fields::integer(std::string_view name) const {
  const Json* found = value(name);
  return found ? exact_integer(*found) : std::nullopt;
}

std::optional<double> Fields::number(std::string_view name) const {
  const Json* found = value(name);
  return found && found->is_number() ? std::optional(found->to_number<double>()) : std::nullopt;
}

std::optional<std::string> Fields::string(std::string_view name) const {
  const Json* found = value(name);
  return found && found->is_string() ? std::optional(std::string(view(*found))) : std::nullopt;
}

const JsonArray* Fields::array(std::string_view name) const {
  const Json* found = value(name);
  return found && found->is_array() ? &found->get_array() : nullptr;
}

const JsonObject* Fields::object(std::string_view name) const {
  const Json* found = value(name);
  return found && found->is_object() ? &found->get_object() : nullptr;
}

}  // namespace ingot
