// Arguments that come one by one between marks: <parameter=city>Oslo</parameter>. Text stands bare, anything else as
// JSON; which it is, the form's attribute or the tool's schema says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/call_form.h"
#include "serve/answer/calls/call_piece.h"

namespace ingot {

// What a tool of the request says about the values of its arguments.
struct ToolSignature {
  // Of which types a value may be, a bit each.
  enum class Value : uint8_t {
    kNone = 0,
    kNull = 1,
    kBool = 2,
    kNumber = 4,
    kArray = 8,
    kObject = 16,
    kJson = 31,  // all but text
    kText = 32,
    kAny = 63
  };
  std::string name;
  std::vector<std::pair<std::string, Value>> keys;

  Value value_of(std::string_view key) const;
};

constexpr ToolSignature::Value operator|(ToolSignature::Value a, ToolSignature::Value b) {
  return static_cast<ToolSignature::Value>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr ToolSignature::Value operator&(ToolSignature::Value a, ToolSignature::Value b) {
  return static_cast<ToolSignature::Value>(static_cast<uint8_t>(a) & static_cast<uint8_t>(b));
}

// The value as JSON: itself where it is JSON of one of the types, else the string that it is.
std::string json_of_value(std::string_view text, ToolSignature::Value kinds = ToolSignature::Value::kAny);

class ParameterReader {
 public:
  // `tool` may be null: then a value that is JSON is taken as such, and any other as text.
  ParameterReader(const CallForm& form, const ToolSignature* tool);

  enum class Step : unsigned char {
    kMore,
    kDone,    // the call's closing text was read
    kBroken,  // arguments had begun, and this byte fits nowhere: what was read is closed as JSON
    kNone,    // this byte fits nowhere, and nothing had begun
  };
  // Appends the JSON of what is settled. Throws ApiError where a value is held back beyond kMaxHeldBytes.
  Step feed(char c, std::string& out);
  // Nothing more comes: appends what was held back of a text.
  void finish(std::string& out);
  // It is a call: a key's mark or the closing text was read.
  bool begun() const { return begun_; }
  // Everything that was fed is part of the call.
  bool settled() const { return begun_ && at_ != At::kBetween; }

 private:
  enum class At : unsigned char { kBetween, kKey, kKeyClose, kAttribute, kValue };

  Step between(char c, std::string& out);
  Step broken(std::string& out);
  void start_value(ToolSignature::Value kind, std::string& out);
  void value_byte(char c, std::string& out);
  void give_text(size_t held_back, std::string& out);
  void end_value(std::string& out);
  void begin_between();

  const CallForm& form_;
  const ToolSignature* const tool_;
  const std::string_view value_end_;  // the value's closing text without white space
  At at_ = At::kBetween;
  bool begun_ = false, any_ = false;
  PieceMatch key_, close_;
  std::string text_;  // the key, attribute or value that is being read, without what was given out
  std::string key_text_;
  ToolSignature::Value kind_ = ToolSignature::Value::kAny;
  bool first_byte_ = true;
};

}  // namespace ingot
