// Sets of JSON values as schemas describe them: a union of shapes, one list for each type. A shape's parts (the values
// of members, the items) are sets by their number, which are looked into only where that is needed, so that schemas may
// refer to themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/regex/regex.h"

namespace ingot::grammar {

using SetId = uint32_t;
inline constexpr SetId kNever = 0;   // no value
inline constexpr SetId kAlways = 1;  // all values

inline constexpr size_t kNoEnd = std::numeric_limits<size_t>::max();

enum class Extent : uint8_t { kNone, kSome, kAll };

// Texts, not as JSON spells them: the characters themselves.
struct TextSet {
  Extent extent = Extent::kNone;
  Expr expr = kNothing;                // kSome
  bool by_length = false;              // kSome: all texts of min … max characters
  uint32_t min = 0, max = kUnbounded;  // by_length
};

// Numbers: see numbers.h for what the expression holds.
struct NumberSet {
  Extent extent = Extent::kNone;
  Expr expr = kNothing;   // kSome
  bool integers = false;  // all of them are integers
};

// Of the items from index `from` on, at least min and at most max are in `set`.
struct ItemCount {
  SetId set = kAlways;
  size_t from = 0;
  size_t min = 0, max = kNoEnd;
  bool operator==(const ItemCount&) const = default;
};

struct ArrayShape {
  std::vector<SetId> prefix{};  // of the first items
  SetId rest = kAlways;         // of all others
  size_t min = 0, max = kNoEnd;
  std::vector<ItemCount> counts{};
  int32_t unique = -1;  // the subschema that says uniqueItems; -1: none
  // What unevaluatedItems need not look at: the first items, and those in one of the sets.
  size_t evaluated = 0;
  std::vector<SetId> evaluated_if{};

  SetId at(size_t index) const { return index < prefix.size() ? prefix[index] : rest; }
};

struct Member {
  std::string name{};
  SetId set = kAlways;  // kNever: the member is not there
  bool required = false;
  bool placed = false;  // named by `properties`: comes in the order of the schema
};

// Keys that match `keys` and are no named member's have values in `set`.
struct KeyClass {
  Expr keys = kNothing;
  SetId set = kAlways;
};

struct ObjectShape {
  std::vector<Member> members{};
  std::vector<KeyClass> others{};  // disjoint; a key that is in none of them may not be there
  std::vector<KeyClass> some{};    // of each at least one member
  size_t min = 0, max = kNoEnd;
  // What unevaluatedProperties need not look at.
  std::vector<std::string> evaluated{};
  Expr evaluated_keys = kNothing;

  const Member* find(std::string_view name) const;
};

struct Values {
  bool null = false, yes = false, no = false;
  NumberSet numbers;
  TextSet texts;
  std::vector<ArrayShape> arrays;
  std::vector<ObjectShape> objects;
};

}  // namespace ingot::grammar
