// Regular expressions over bytes, hash-consed in a pool: equal expressions have equal ids. Matching is by derivatives,
// so that intersection and complement cost nothing special, and a bounded repeat counts down instead of being unrolled:
// `a{0,65536}` is one node, and so is what is left of it after each byte.
//
// No function recurses on its input. A pool is used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/seeded_hash.h"
#include "grammar/limits.h"

namespace ingot::grammar {

// A set of bytes.
struct ByteSet {
  std::array<uint64_t, 4> words{};

  static ByteSet of(std::string_view bytes);
  static ByteSet range(uint8_t first, uint8_t last);
  static ByteSet all() { return range(0, 255); }
  bool has(uint8_t byte) const { return (words[byte >> 6] >> (byte & 63) & 1) != 0; }
  void add(uint8_t byte) { words[byte >> 6] |= uint64_t{1} << (byte & 63); }
  int count() const;
  bool operator==(const ByteSet&) const = default;
};
ByteSet operator|(const ByteSet& a, const ByteSet& b);
ByteSet operator&(const ByteSet& a, const ByteSet& b);
ByteSet operator~(const ByteSet& a);

// Characters first … last, both included.
struct CharRange {
  uint32_t first, last;
};
// Sorted, disjoint, not adjacent, without surrogates and nothing above U+10FFFF.
std::vector<CharRange> normalized(std::vector<CharRange> ranges);
// All characters that are in none of `ranges`.
std::vector<CharRange> other_chars(std::vector<CharRange> ranges);

using Expr = uint32_t;
inline constexpr Expr kNothing = 0;     // matches no string
inline constexpr Expr kEmpty = 1;       // matches the empty string alone
inline constexpr Expr kEverything = 2;  // matches all byte strings
inline constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

class Regexes {
 public:
  // Throws LimitError when the pool would hold more than `max_nodes` expressions.
  explicit Regexes(size_t max_nodes = size_t{1} << 20);

  // Building. Results are simplified where that is cheap: equal ids mean equal languages, not the other way round.
  Expr bytes(const ByteSet& set);           // one byte of the set
  Expr literal(std::string_view text);      // exactly these bytes
  Expr literals(std::vector<std::string>);  // any of these texts, as a tree of their prefixes
  Expr chars(std::span<const CharRange>);   // one character, in UTF-8
  Expr any_char();                          // one character, in UTF-8
  Expr concat(Expr a, Expr b);
  Expr concat(std::initializer_list<Expr> parts) { return concat(std::span(parts.begin(), parts.size())); }
  Expr concat(std::span<const Expr> parts);
  Expr any_of(std::initializer_list<Expr> parts) { return any_of(std::span(parts.begin(), parts.size())); }
  Expr any_of(std::span<const Expr> parts);
  Expr all_of(std::initializer_list<Expr> parts) { return all_of(std::span(parts.begin(), parts.size())); }
  Expr all_of(std::span<const Expr> parts);
  // All byte strings that `a` does not match, those that are no valid UTF-8 among them: intersect it with what the
  // text may be at all.
  Expr complement(Expr a);
  Expr without(Expr a, Expr b) { return all_of({a, complement(b)}); }
  // At least `min` and at most `max` (kUnbounded: any number) of `a`. REQUIRES: min <= max.
  Expr repeat(Expr a, uint32_t min, uint32_t max);
  Expr optional(Expr a) { return repeat(a, 0, 1); }
  Expr star(Expr a) { return repeat(a, 0, kUnbounded); }
  Expr plus(Expr a) { return repeat(a, 1, kUnbounded); }
  // Unsigned decimal numbers, with as many digits before and after a point as there are, that are multiples of
  // modulus / 10^places; what else a number must look like (no leading zeros, a digit after the point) is the caller's
  // to intersect. One node, and one for each remainder. REQUIRES: modulus > 0, places <= 15.
  Expr decimal_multiples(uint32_t modulus, uint32_t places) { return decimal_remainder(modulus, places, 0, 0); }

  // Asking.
  bool nullable(Expr a) const { return nodes_[a].nullable; }  // matches the empty string
  Expr derivative(Expr a, uint8_t byte);                      // what must follow `byte`
  bool matches(Expr a, std::string_view text);
  // Whether `a` matches no string at all, by walking its derivatives; each answer is kept. Throws LimitError when more
  // than `max_steps` expressions were met without an answer.
  // `letters`, where they are known, have one byte of each class of byte_classes() at least.
  bool is_empty(Expr a, size_t max_steps = 20'000, std::span<const uint8_t> letters = {});
  // Expressions that all searches of is_empty() have met so far; beyond `limit` (none at first) they throw LimitError.
  size_t searched() const { return searched_; }
  void limit_searches(size_t limit) {
    searched_ = 0;
    max_searched_ = limit;
  }
  // The bytes that a match can begin with, or more.
  const ByteSet& first(Expr a) const { return first_[a]; }
  bool includes(Expr a, Expr b, size_t max_steps = 20'000) { return is_empty(without(b, a), max_steps); }
  // Whether complement or intersection occur in it: only then can an expression be empty and not kNothing.
  bool may_hide_nothing(Expr a) const { return nodes_[a].extended; }
  // Whether it may match the byte 0xFF, which begins the codes of special tokens and is in no UTF-8.
  bool may_match_codes(Expr a) const { return nodes_[a].wild; }
  // Gives every byte a class, so that two bytes of one class are in the same sets of all expressions that can be
  // reached from `roots`; returns the number of classes.
  int byte_classes(std::span<const Expr> roots, std::array<uint8_t, 256>& classes) const;
  // Adds the expression's structure to `out`, equal in all pools; repeats of at least `clamp` count as unbounded (for
  // readers who look at no more than `clamp` bytes). False when it has more than `max_nodes` nodes.
  bool describe(Expr a, uint32_t clamp, size_t max_nodes, std::string& out) const;

  enum class Kind : uint8_t { kNone, kEpsilon, kBytes, kConcat, kAny, kAll, kNot, kRepeat, kDecimal };
  struct Node {
    Kind kind = Kind::kNone;
    bool nullable = false;
    bool extended = false;
    bool wild = false;          // may match the byte 0xFF, which no UTF-8 has
    uint32_t a = 0, b = 0;      // kBytes: set; kConcat: head, tail; kAny, kAll: children [a, b); kNot, kRepeat: of a
    uint32_t min = 0, max = 0;  // kRepeat; kDecimal: a: remainder, b: modulus, min: places, max: places so far + 1
  };
  const Node& node(Expr a) const { return nodes_[a]; }
  std::span<const Expr> children(Expr a) const;                    // of kAny and kAll
  const ByteSet& set(Expr a) const { return sets_[nodes_[a].a]; }  // of kBytes
  size_t size() const { return nodes_.size(); }
  size_t memory() const;  // bytes, about
  void set_max_nodes(size_t max_nodes) { max_nodes_ = max_nodes; }
  size_t max_nodes() const { return max_nodes_; }
  // Counts what is made and searched from now on; none: nobody does. Outlives that.
  void set_meter(Meter* meter) { meter_ = meter; }
  // Steps of all that was made and searched so far, about 100 ns each.
  size_t spent() const { return spent_; }
  void forget_derivatives() { derived_.clear(); }  // of which copies would carry more than they need

 private:
  Expr decimal_remainder(uint32_t modulus, uint32_t places, uint32_t remainder, uint32_t phase);
  Expr derive_decimal(const Node& node, uint8_t byte);
  Expr intern(const Node& node, std::span<const Expr> children = {});
  static uint64_t hash_of(const Node& node, std::span<const Expr> children);
  bool same(const Node& node, std::span<const Expr> children, Expr known) const;
  ByteSet first_of(const Node& node, std::span<const Expr> children) const;
  bool wild_of(const Node& node, std::span<const Expr> children) const;
  void grow_table();
  void flatten(Kind kind, std::span<const Expr> parts, std::vector<Expr>& out) const;
  void merge_repeats(std::vector<Expr>& parts);
  bool known_empty(Expr a, bool& empty) const;
  bool search_is_empty(Expr a, size_t max_steps, std::span<const uint8_t> letters);
  bool derive_simple(Expr a, uint8_t byte, Expr& out) const;
  bool known_derivative(Expr a, uint8_t byte, Expr& out) const;
  bool derive_from_parts(Expr a, uint8_t byte, std::vector<Expr>& missing, Expr& out);

  void spend(size_t steps) const {
    spent_ += steps;
    if (meter_) meter_->spend(steps);
  }

  size_t max_nodes_;
  Meter* meter_ = nullptr;
  mutable size_t spent_ = 0;
  std::vector<Node> nodes_;
  std::vector<ByteSet> first_;  // of each node
  std::vector<Expr> children_;
  std::vector<ByteSet> sets_;
  struct HashSet {
    size_t operator()(const ByteSet& set) const {
      SeededNumbers hash;
      for (const uint64_t word : set.words) hash.add(word);
      return hash.value();
    }
  };
  std::unordered_map<ByteSet, uint32_t, HashSet> set_ids_;
  std::vector<Expr> table_;                     // open addressing, at most half full; 0: free
  std::unordered_map<uint64_t, Expr> derived_;  // (expression, byte) of those that are costly to derive
  std::unordered_map<Expr, bool> empty_;
  size_t searched_ = 0, max_searched_ = SIZE_MAX;
};

}  // namespace ingot::grammar
