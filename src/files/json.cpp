#include "files/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/mmap.h"
#include "base/seeded_hash.h"
#include "base/utf8.h"
#include "files/json_keys.h"

namespace ingot {

namespace {

using boost::json::error_code;
using BoostView = boost::json::string_view;

// Builds the value from the parser's events, which keep the limits on the way.
struct Builder {
  static constexpr size_t max_object_size = ~size_t{0};
  static constexpr size_t max_array_size = ~size_t{0};
  static constexpr size_t max_key_size = ~size_t{0};
  static constexpr size_t max_string_size = ~size_t{0};

  Builder(const JsonLimits& given, boost::json::storage_ptr storage) : limits(given), stack(std::move(storage)) {}

  const JsonLimits& limits;
  boost::json::value_stack stack;
  size_t values = 0;
  size_t members = 0;
  bool beyond = false;  // a limit ended the parse
  JsonKeys keys;
  std::vector<SeededSet> taken;  // keys of each open object, when duplicates are refused
  std::string part;              // the beginning of a key or a number
  std::string problem;           // not empty: why the parse ended

  bool fail(error_code& ec, std::string text) {
    problem = std::move(text);
    ec = boost::json::error::syntax;
    return false;
  }
  bool within(size_t& counted, size_t limit, const char* what, error_code& ec) {
    counted++;
    if (limit == 0 || counted <= limit) return true;
    beyond = true;
    return fail(ec, fmt::format("more than {} {}", limit, what));
  }
  bool count(error_code& ec) { return within(values, limits.max_values, "values", ec); }
  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code& ec) {
    keys.open();
    if (limits.reject_duplicate_keys) taken.emplace_back();
    return count(ec);
  }
  bool on_object_end(size_t n, error_code& ec) {
    if (limits.max_object_members != 0 && n > limits.max_object_members) {
      beyond = true;
      return fail(ec, fmt::format("more than {} members in an object", limits.max_object_members));
    }
    if (!keys.close()) return fail(ec, "keys of an object that fall into one place of its table");
    if (limits.reject_duplicate_keys) taken.pop_back();
    stack.push_object(n);
    return true;
  }
  bool on_array_begin(error_code& ec) { return count(ec); }
  bool on_array_end(size_t n, error_code&) {
    stack.push_array(n);
    return true;
  }
  bool on_key_part(BoostView text, size_t, error_code&) {
    keys.part({text.data(), text.size()});
    if (limits.reject_duplicate_keys) part.append(text.data(), text.size());
    stack.push_chars(text);
    return true;
  }
  bool on_key(BoostView text, size_t, error_code& ec) {
    stack.push_key(text);
    keys.key({text.data(), text.size()});
    if (!within(members, limits.max_members, "members of objects", ec)) return false;
    if (!limits.reject_duplicate_keys) return true;
    part.append(text.data(), text.size());
    const std::string key = std::exchange(part, {});
    return taken.back().insert(key).second || fail(ec, fmt::format("duplicate key '{}'", utf8_printable(key)));
  }
  bool on_string_part(BoostView text, size_t, error_code&) {
    stack.push_chars(text);
    return true;
  }
  bool on_string(BoostView text, size_t, error_code& ec) {
    stack.push_string(text);
    return count(ec);
  }
  bool on_number_part(BoostView text, error_code&) {
    part.append(text.data(), text.size());
    return true;
  }
  bool on_int64(int64_t number, BoostView, error_code& ec) {
    part.clear();
    stack.push_int64(number);
    return count(ec);
  }
  bool on_uint64(uint64_t number, BoostView, error_code& ec) {
    part.clear();
    stack.push_uint64(number);
    return count(ec);
  }
  // The parser's own double can be a unit in the last place off; from_chars gives the nearest one. Out of its range
  // (1e999, 1e-999) the parser's infinity or zero stands.
  bool on_double(double number, BoostView text, error_code& ec) {
    part.append(text.data(), text.size());
    double nearest = 0;
    const auto [end, problem_code] = std::from_chars(part.data(), part.data() + part.size(), nearest);
    const bool whole = problem_code == std::errc() && end == part.data() + part.size();
    stack.push_double(whole ? nearest : number);
    part.clear();
    return count(ec);
  }
  bool on_bool(bool value, error_code& ec) {
    stack.push_bool(value);
    return count(ec);
  }
  bool on_null(error_code& ec) {
    stack.push_null();
    return count(ec);
  }
  bool on_comment_part(BoostView, error_code&) { return true; }
  bool on_comment(BoostView, error_code&) { return true; }
};

// The beginning of a message: a caller that speaks for another part gives its tag with the name.
std::string tagged(std::string_view what) {
  return what.starts_with('[') ? std::string(what) : fmt::format("[json] {}", what);
}

// `text` with Infinity and NaN outside of strings as JSON can say them; nothing where there are none.
// 1e999999 has the length of Infinity and is read as an infinite double.
std::optional<std::string> without_nonfinite(std::string_view text) {
  if (text.find("Infinity") == std::string_view::npos && text.find("NaN") == std::string_view::npos) return {};
  std::string out;
  out.reserve(text.size() + 16);
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    size_t n = 1;
    if (in_string) {
      if (text[i] == '\\') n = std::min<size_t>(2, text.size() - i);
      if (text[i] == '"') in_string = false;
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text.substr(i).starts_with("Infinity")) {
      out += "1e999999";
      i += 8;
      continue;
    } else if (text.substr(i).starts_with("NaN")) {
      out += "null";
      i += 3;
      continue;
    }
    out.append(text.substr(i, n));
    i += n;
  }
  return out;
}

[[noreturn]] void wrong_type(std::string_view what, const Json& found, std::string_view wanted) {
  const std::string_view name = json_type_name(found);
  const bool vowel = std::string_view("aio").find(name.front()) != std::string_view::npos;
  throw Error("{} is {} {}, not {}", tagged(what), vowel ? "an" : "a", name, wanted);
}

std::string key_text(std::string_view key) { return fmt::format("key '{}'", utf8_printable(key)); }

// The member `key` unless it is absent or null.
const Json* present(const JsonObject& object, std::string_view key) {
  const Json* value = find(object, key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const Json& required(const JsonObject& object, std::string_view key) {
  const Json* value = present(object, key);
  if (value == nullptr) throw Error("[json] {} is missing", key_text(key));
  return *value;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw JsonLimitError("{}: {} bytes, at most {} allowed", tagged(where), text.size(), limits.max_bytes);
  }
  std::optional<std::string> rewritten;
  if (limits.allow_nonfinite) rewritten = without_nonfinite(text);
  if (rewritten) text = *rewritten;
  boost::json::parse_options options;
  options.max_depth = limits.max_depth;
  // One arena for all values: a vocabulary of 260,000 strings is not as many calls of malloc and free.
  const size_t first = std::clamp(text.size(), size_t{512}, size_t{1} << 20);
  boost::json::basic_parser<Builder> parser(options, limits,
                                            boost::json::make_shared_resource<boost::json::monotonic_resource>(first));
  error_code ec;
  size_t pos = parser.write_some(false, text.data(), text.size(), ec);
  if (ec) {
    const std::string& problem = parser.handler().problem;
    const std::string what = problem.empty() ? ec.message() : problem;
    if (parser.handler().beyond || ec == boost::json::error::too_deep) {
      throw JsonLimitError("{}: {} at byte {}", tagged(where), what, pos);
    }
    throw Error("{}: {} at byte {}", tagged(where), what, pos);
  }
  while (pos < text.size() && std::string_view(" \t\r\n").find(text[pos]) != std::string_view::npos) pos++;
  if (pos < text.size()) throw Error("{}: more text after the value at byte {}", tagged(where), pos);
  return parser.handler().stack.release();
}

std::string read_text_file(const std::string& path, size_t max_bytes) {
  const MappedFile file = MappedFile::open(path);
  if (file.bytes().size() > max_bytes) {
    throw Error("[file] {}: {} bytes, at most {} allowed", path, file.bytes().size(), max_bytes);
  }
  file.advise_sequential(file.bytes());
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

Json read_json_file(const std::string& path, JsonLimits limits) {
  return parse_json(read_text_file(path, limits.max_bytes), path, limits);
}

std::string_view json_type_name(const Json& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "bool";
    case boost::json::kind::int64:
      return "integer";
    case boost::json::kind::uint64:
      return "integer";
    case boost::json::kind::double_:
      return "number";
    case boost::json::kind::string:
      return "string";
    case boost::json::kind::array:
      return "array";
    case boost::json::kind::object:
      return "object";
  }
  return "?";
}

const Json* find(const JsonObject& object, std::string_view key) {
  return object.if_contains(BoostView(key.data(), key.size()));
}

const JsonObject* find_object(const JsonObject& object, std::string_view key) {
  const Json* value = present(object, key);
  return value == nullptr ? nullptr : &as_object(*value, key_text(key));
}

const JsonArray* find_array(const JsonObject& object, std::string_view key) {
  const Json* value = present(object, key);
  return value == nullptr ? nullptr : &as_array(*value, key_text(key));
}

int64_t as_int(const Json& value, std::string_view what, int64_t low, int64_t high) {
  int64_t result = 0;
  if (const int64_t* number = value.if_int64()) {
    result = *number;
  } else if (const uint64_t* large = value.if_uint64()) {
    throw Error("{} is {}, at most {} allowed", tagged(what), *large, high);
  } else if (const double* real = value.if_double()) {
    // Below 2^53 a double that is whole is one integer; above, it stands for several.
    if (!(std::abs(*real) <= 0x1p53) || *real != std::trunc(*real)) {
      throw Error("{} is {}, not an integer", tagged(what), *real);
    }
    result = static_cast<int64_t>(*real);
  } else {
    wrong_type(what, value, "an integer");
  }
  if (result < low || result > high) throw Error("{} is {}, not in [{}, {}]", tagged(what), result, low, high);
  return result;
}

double as_float(const Json& value, std::string_view what) {
  if (const double* real = value.if_double()) {
    if (!std::isfinite(*real)) throw Error("{} is {}, not a finite number", tagged(what), *real);
    return *real;
  }
  if (const int64_t* number = value.if_int64()) return static_cast<double>(*number);
  if (const uint64_t* large = value.if_uint64()) return static_cast<double>(*large);
  wrong_type(what, value, "a number");
}

bool as_bool(const Json& value, std::string_view what) {
  if (!value.is_bool()) wrong_type(what, value, "a bool");
  return value.get_bool();
}

std::string_view as_string(const Json& value, std::string_view what) {
  if (!value.is_string()) wrong_type(what, value, "a string");
  return {value.get_string().data(), value.get_string().size()};
}

const JsonObject& as_object(const Json& value, std::string_view what) {
  if (!value.is_object()) wrong_type(what, value, "an object");
  return value.get_object();
}

const JsonArray& as_array(const Json& value, std::string_view what) {
  if (!value.is_array()) wrong_type(what, value, "an array");
  return value.get_array();
}

int64_t get_int(const JsonObject& object, std::string_view key) {
  return as_int(required(object, key), key_text(key), kIntMin, kIntMax);
}
int64_t get_int(const JsonObject& object, std::string_view key, int64_t fallback, int64_t low, int64_t high) {
  const Json* value = present(object, key);
  return value == nullptr ? fallback : as_int(*value, key_text(key), low, high);
}
double get_float(const JsonObject& object, std::string_view key) {
  return as_float(required(object, key), key_text(key));
}
double get_float(const JsonObject& object, std::string_view key, double fallback) {
  const Json* value = present(object, key);
  return value == nullptr ? fallback : as_float(*value, key_text(key));
}
bool get_bool(const JsonObject& object, std::string_view key) { return as_bool(required(object, key), key_text(key)); }
bool get_bool(const JsonObject& object, std::string_view key, bool fallback) {
  const Json* value = present(object, key);
  return value == nullptr ? fallback : as_bool(*value, key_text(key));
}
std::string get_string(const JsonObject& object, std::string_view key) {
  return std::string(as_string(required(object, key), key_text(key)));
}
std::string get_string(const JsonObject& object, std::string_view key, std::string_view fallback) {
  const Json* value = present(object, key);
  return std::string(value == nullptr ? fallback : as_string(*value, key_text(key)));
}

}  // namespace ingot
