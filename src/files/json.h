// JSON: parsing with limits, typed access with errors that name the key, and writing. Boost.JSON is used only through
// this header.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ingot {

using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;

struct JsonLimits {
  size_t max_depth = 64;                 // nested arrays and objects
  size_t max_object_members = 1 << 20;   // members of one object; 0: no limit. The largest vocabularies have 2^18
  size_t max_bytes = size_t{256} << 20;  // of the text
  bool reject_duplicate_keys = false;    // otherwise the last one wins
  size_t max_values = 0;                 // values of all kinds, keys not counted; 0: no limit
  size_t max_members = 0;                // members of all objects together; 0: no limit
  bool allow_nonfinite = false;          // Infinity, -Infinity and NaN as Python writes them; NaN is read as null
};

// What a limit ended: the text may be JSON all the same.
class JsonLimitError : public Error {
  using Error::Error;
};

// Throws JsonLimitError beyond a limit, else Error "[json] <where>: <what> at byte N"; a `where` that begins with a
// tag, "[part] …", replaces "[json]". Keys that fall into one place of an object's table are an Error
// (json_keys.h). The value keeps its memory in one arena that copies share.
Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});

// The whole file. Throws Error when it is missing, not a regular file or larger than `max_bytes`.
std::string read_text_file(const std::string& path, size_t max_bytes = size_t{256} << 20);

// read_text_file, then parse_json with the path as `where`; allows non-finite numbers, as published configs have them.
Json read_json_file(const std::string& path, JsonLimits limits = {.allow_nonfinite = true});

// "null", "bool", "integer", "number", "string", "array" or "object".
std::string_view json_type_name(const Json& value);

// The member `key`, or nullptr where it is absent. A member that is null is found; the getters below take it as absent.
const Json* find(const JsonObject& object, std::string_view key);
const JsonObject* find_object(const JsonObject& object, std::string_view key);  // Error when it is another type
const JsonArray* find_array(const JsonObject& object, std::string_view key);

// The member `key`, or `fallback` where it is absent or null. Without a fallback its absence throws Error. A member of
// another type, or an integer outside [low, high], throws Error naming the key, the type and the value found.
// Integers may be written as 4.0; floats as 4. get_float refuses what is not finite.
inline constexpr int64_t kIntMin = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kIntMax = std::numeric_limits<int64_t>::max();
int64_t get_int(const JsonObject& object, std::string_view key);
int64_t get_int(const JsonObject& object, std::string_view key, int64_t fallback, int64_t low = kIntMin,
                int64_t high = kIntMax);
double get_float(const JsonObject& object, std::string_view key);
double get_float(const JsonObject& object, std::string_view key, double fallback);
bool get_bool(const JsonObject& object, std::string_view key);
bool get_bool(const JsonObject& object, std::string_view key, bool fallback);
std::string get_string(const JsonObject& object, std::string_view key);
std::string get_string(const JsonObject& object, std::string_view key, std::string_view fallback);

// The value itself as a type; `what` names it in the error, and may begin with a tag.
int64_t as_int(const Json& value, std::string_view what, int64_t low = kIntMin, int64_t high = kIntMax);
double as_float(const Json& value, std::string_view what);
bool as_bool(const Json& value, std::string_view what);
std::string_view as_string(const Json& value, std::string_view what);
const JsonObject& as_object(const Json& value, std::string_view what);
const JsonArray& as_array(const Json& value, std::string_view what);

// One line of JSON. Numbers that are not finite become null, bytes that are not UTF-8 become U+FFFD; a float keeps
// its value and its point or exponent (1.0, not 1).
std::string to_json(const Json& value);
// The same over several lines, indented by two spaces.
std::string to_json_pretty(const Json& value);
// The same of a text or a number, appended: for documents that are written as they come instead of built first.
void append_json(std::string& out, std::string_view text);
void append_json(std::string& out, double number);

}  // namespace ingot
