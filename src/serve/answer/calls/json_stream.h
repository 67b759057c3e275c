// JSON that a model is writing, read byte by byte: a value whose text is passed on while it comes, and the object that
// spells a call of a tool. Lenient where models err: a brace that is missing at the end, a bare line break in a string.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ingot {

enum class JsonStep : unsigned char {
  kMore,   // the byte was taken
  kDone,   // the byte was taken and is the last
  kEnded,  // what was to be read had ended before this byte, which is not taken
  kBad,    // this byte cannot stand here and is not taken
};

inline bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// The text between quotes, quotes included, as the string that it spells; nothing where it spells none.
std::optional<std::string> decode_json_string(std::string_view quoted);

// An object or array, from its first bracket to its last. Brackets are counted, not paired.
class JsonValueStream {
 public:
  // Appends to `out` what the byte adds to the value's text; control characters in strings come out escaped.
  // Nothing but kMore, kDone and kBad comes. REQUIRES: the first byte is '{' or '['.
  JsonStep feed(char c, std::string& out);

 private:
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// {"name": …, "arguments": {…}}: "parameters" stands for "arguments" too, other members are ignored, the order is free.
// Arguments may be text that holds JSON, null, or left out.
class CallScanner {
 public:
  // A call's name is asked about as soon as it is read. Without `marked`, an object that has no arguments is no call.
  // `in_order`: neither is one whose first members are not the name and the arguments.
  CallScanner(bool marked, std::string_view name_key, std::function<bool(std::string_view)> is_name,
              bool in_order = false)
      : marked_(marked), in_order_(in_order), name_key_(name_key), is_name_(std::move(is_name)) {}

  // kBad comes only before committed(): what was fed is no call. REQUIRES: the first byte is '{'.
  JsonStep feed(char c);

  // It is a call: name() is known and arguments may be taken.
  bool committed() const { return committed_; }
  const std::string& name() const { return name_; }
  // The arguments' text since the last time.
  std::string take_arguments() { return committed_ ? std::exchange(arguments_, {}) : std::string(); }

 private:
  enum class At : unsigned char { kBegin, kKeyOrEnd, kKey, kKeyEnd, kColon, kValue, kString, kScalar, kNested, kAfter };
  enum class Member : unsigned char { kName, kArguments, kOther };

  JsonStep begin_value(char c);
  JsonStep string_byte(char c);
  JsonStep scalar_byte(char c);
  JsonStep nested_byte(char c);
  JsonStep after_value(char c);
  JsonStep key_done();
  JsonStep string_done();
  JsonStep end();
  void commit();
  JsonStep bad() const { return committed_ ? JsonStep::kEnded : JsonStep::kBad; }

  const bool marked_, in_order_;
  const std::string_view name_key_;  // "name"
  const std::function<bool(std::string_view)> is_name_;
  At at_ = At::kBegin;
  Member member_ = Member::kOther;
  std::string token_;  // the key, string or scalar that is being read
  bool escaped_ = false;
  JsonValueStream nested_;
  bool has_name_ = false, has_arguments_ = false;
  bool committed_ = false;
  std::string name_;
  std::string arguments_;
};

}  // namespace ingot
