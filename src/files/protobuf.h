// Protocol buffers without their descriptions: the fields of a message one after the other, within its bounds.
#pragma once

#include <cstdint>
#include <string_view>

namespace ingot {

// Views `message`, which must outlive it. `where` names it in errors and must be a literal or outlive it too.
class ProtobufFields {
 public:
  ProtobufFields(std::string_view message, std::string_view where) : rest_(message), where_(where) {}

  // Goes to the next field; false at the end. Wire types 0 (varint), 1 and 5 (fixed) and 2 (bytes) are known. Throws
  // Error on others, on a field that reaches over the end and on a number of more than ten bytes.
  bool next();

  // Whether the field has this number. Throws Error where it has, with another wire type.
  bool is(int number, int wire) const;

  int number() const { return number_; }
  uint64_t value() const { return value_; }          // wire 0
  std::string_view bytes() const { return bytes_; }  // wires 1, 2, 5
  float as_float() const;                            // wire 5

 private:
  uint64_t varint();
  std::string_view take(uint64_t n);

  std::string_view rest_;
  std::string_view where_;
  int number_ = 0;
  int wire_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

}  // namespace ingot
