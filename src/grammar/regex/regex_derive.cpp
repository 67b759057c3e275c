// Derivatives of expressions, and what is asked through them: matches, emptiness, classes of bytes.
#include <algorithm>

#include "grammar/regex/regex.h"

namespace ingot::grammar {
namespace {

uint64_t memo_key(Expr a, uint8_t byte) { return uint64_t{a} << 8 | byte; }

}  // namespace

// What needs neither a memo nor another derivative: most of the bytes of literals and classes.
bool Regexes::derive_simple(Expr a, uint8_t byte, Expr& out) const {
  const Node& node = nodes_[a];
  if (!first_[a].has(byte)) {
    out = kNothing;
    return true;
  }
  switch (node.kind) {
    case Kind::kNone:
    case Kind::kEpsilon:
      out = kNothing;
      return true;
    case Kind::kBytes:
      out = sets_[node.a].has(byte) ? kEmpty : kNothing;
      return true;
    case Kind::kConcat: {
      const Node& head = nodes_[node.a];
      if (head.kind != Kind::kBytes) return false;
      out = sets_[head.a].has(byte) ? node.b : kNothing;
      return true;
    }
    default:
      return false;
  }
}

bool Regexes::known_derivative(Expr a, uint8_t byte, Expr& out) const {
  if (derive_simple(a, byte, out)) return true;
  const auto it = derived_.find(memo_key(a, byte));
  if (it == derived_.end()) return false;
  out = it->second;
  return true;
}

// False with what is needed first in `missing`.
bool Regexes::derive_from_parts(Expr a, uint8_t byte, std::vector<Expr>& missing, Expr& out) {
  const auto part = [&](Expr of) {
    Expr derived = kNothing;
    if (!known_derivative(of, byte, derived)) missing.push_back(of);
    return derived;
  };
  const Node node = nodes_[a];  // a copy: making expressions moves the nodes
  switch (node.kind) {
    case Kind::kConcat: {
      const Expr head = part(node.a);
      const Expr tail = nodes_[node.a].nullable ? part(node.b) : kNothing;
      if (!missing.empty()) return false;
      const Expr first = concat(head, node.b);
      out = tail == kNothing ? first : any_of({first, tail});
      return true;
    }
    case Kind::kAny:
    case Kind::kAll: {
      spend(children(a).size() / 16);  // most are done with by their first byte
      std::vector<Expr> parts;
      const Expr none = node.kind == Kind::kAny ? kNothing : kEverything;
      for (const Expr child : children(a)) {
        const Expr derived = part(child);
        if (derived != none) parts.push_back(derived);
      }
      if (!missing.empty()) return false;
      out = node.kind == Kind::kAny ? any_of(parts) : all_of(parts);
      return true;
    }
    case Kind::kNot: {
      const Expr inner = part(node.a);
      if (!missing.empty()) return false;
      out = complement(inner);
      return true;
    }
    case Kind::kDecimal:
      out = derive_decimal(node, byte);
      return true;
    default: {  // kRepeat: x{m,n} after a byte is what is left of x, then x{m-1,n-1}
      const Expr inner = part(node.a);
      if (!missing.empty()) return false;
      out = inner == kNothing ? kNothing
                              : concat(inner, repeat(node.a, node.min == 0 ? 0 : node.min - 1,
                                                     node.max == kUnbounded ? kUnbounded : node.max - 1));
      return true;
    }
  }
}

Expr Regexes::derivative(Expr a, uint8_t byte) {
  Expr out = kNothing;
  if (known_derivative(a, byte, out)) return out;
  constexpr size_t kMaxMemo = 200'000;
  if (derived_.size() > kMaxMemo) derived_.clear();
  std::vector<Expr> stack = {a}, missing;
  while (!stack.empty()) {
    const Expr top = stack.back();
    spend(1);
    missing.clear();
    if (known_derivative(top, byte, out)) {
      stack.pop_back();
    } else if (derive_from_parts(top, byte, missing, out)) {
      derived_.emplace(memo_key(top, byte), out);
      stack.pop_back();
    } else {
      stack.insert(stack.end(), missing.begin(), missing.end());
    }
  }
  return out;
}

// Phase 0: before the point; n + 1: n digits after it.
Expr Regexes::decimal_remainder(uint32_t modulus, uint32_t places, uint32_t remainder, uint32_t phase) {
  const uint32_t missing = phase == 0 ? places : places - (phase - 1);
  uint64_t scaled = remainder;
  for (uint32_t i = 0; i < missing; i++) scaled = scaled * 10 % modulus;
  return intern({.kind = Kind::kDecimal,
                 .nullable = scaled == 0,
                 .extended = true,
                 .a = remainder,
                 .b = modulus,
                 .min = places,
                 .max = phase});
}

Expr Regexes::derive_decimal(const Node& node, uint8_t byte) {
  if (byte == '.') return node.max == 0 ? decimal_remainder(node.b, node.min, node.a, 1) : kNothing;
  if (byte < '0' || byte > '9') return kNothing;
  if (node.max == node.min + 1) {  // beyond the last place that counts
    return byte == '0' && node.nullable ? decimal_remainder(node.b, node.min, node.a, node.max) : kNothing;
  }
  const auto remainder = static_cast<uint32_t>((uint64_t{node.a} * 10 + (byte - '0')) % node.b);
  return decimal_remainder(node.b, node.min, remainder, node.max == 0 ? 0 : node.max + 1);
}

bool Regexes::matches(Expr a, std::string_view text) {
  for (const char c : text) {
    a = derivative(a, static_cast<uint8_t>(c));
    if (a == kNothing) return false;
  }
  return nullable(a);
}

bool Regexes::known_empty(Expr a, bool& empty) const {
  if (nodes_[a].nullable || !nodes_[a].extended) {
    empty = a == kNothing;
    return true;
  }
  const auto it = empty_.find(a);
  if (it != empty_.end()) empty = it->second;
  return it != empty_.end();
}

// Sequences, alternatives and repeats are as empty as their parts; only intersections and complements need a search.
bool Regexes::is_empty(Expr a, size_t max_steps, std::span<const uint8_t> letters) {
  bool empty = false;
  std::vector<Expr> stack = {a};
  while (!stack.empty()) {
    const Expr top = stack.back();
    if (known_empty(top, empty)) {
      stack.pop_back();
      continue;
    }
    const Node node = nodes_[top];
    bool is_known = true;
    const auto ask = [&](Expr part) {
      is_known = known_empty(part, empty);
      if (!is_known) stack.push_back(part);
      return is_known && empty;
    };
    bool answer = false;
    if (node.kind == Kind::kConcat) {
      answer = ask(node.a);
      if (is_known && !answer) answer = ask(node.b);
    } else if (node.kind == Kind::kRepeat) {
      answer = ask(node.a);
    } else if (node.kind == Kind::kAny) {
      answer = true;
      for (size_t i = 0; answer && i < children(top).size(); i++) answer = ask(children(top)[i]);
    } else {
      answer = search_is_empty(top, max_steps, letters);
    }
    if (!is_known) continue;
    empty_.insert_or_assign(top, answer);
    stack.pop_back();
  }
  known_empty(a, empty);
  return empty;
}

bool Regexes::search_is_empty(Expr a, size_t max_steps, std::span<const uint8_t> letters) {
  std::vector<uint8_t> byte_of(letters.begin(), letters.end());
  if (letters.empty()) {
    std::array<uint8_t, 256> classes{};
    byte_of.resize(static_cast<size_t>(byte_classes(std::span(&a, 1), classes)));
    for (int byte = 255; byte >= 0; byte--) byte_of[classes[static_cast<size_t>(byte)]] = static_cast<uint8_t>(byte);
  }
  // Steps are dear where each makes many expressions: both count.
  const size_t max_size = nodes_.size() + 4 * max_steps;
  std::vector<Expr> met = {a};
  std::unordered_map<Expr, Expr> from = {{a, a}};  // the expression that each was first derived from
  for (size_t i = 0; i < met.size(); i++) {
    if (++searched_ > max_searched_) {
      throw LimitError("[grammar] intersections were searched for a text for more than {} steps", max_searched_);
    }
    spend(byte_of.size());
    for (const uint8_t byte : byte_of) {
      const Expr next = derivative(met[i], byte);
      bool empty = false;
      const bool is_known = known_empty(next, empty);
      if ((is_known && empty) || !from.try_emplace(next, met[i]).second) continue;
      if (is_known) {
        for (Expr at = next; at != a; at = from[at]) empty_.insert_or_assign(at, false);
        return false;
      }
      met.push_back(next);
    }
    if (met.size() > max_steps || nodes_.size() > max_size) {
      throw LimitError("[grammar] no text was found in an intersection after {} steps", met.size());
    }
  }
  for (const Expr expr : met) empty_.insert_or_assign(expr, true);
  return true;
}

int Regexes::byte_classes(std::span<const Expr> roots, std::array<uint8_t, 256>& classes) const {
  spend(nodes_.size() / 512 + sets_.size());
  std::vector<bool> seen(nodes_.size()), used(sets_.size());
  bool digits = false;
  std::vector<Expr> stack(roots.begin(), roots.end());
  while (!stack.empty()) {
    const Expr top = stack.back();
    stack.pop_back();
    if (seen[top]) continue;
    seen[top] = true;
    spend(1);
    const Node& node = nodes_[top];
    if (node.kind == Kind::kBytes) used[node.a] = true;
    if (node.kind == Kind::kDecimal) digits = true;
    if (node.kind == Kind::kConcat) stack.push_back(node.b);
    if (node.kind == Kind::kConcat || node.kind == Kind::kNot || node.kind == Kind::kRepeat) stack.push_back(node.a);
    if (node.kind == Kind::kAny || node.kind == Kind::kAll) {
      const auto parts = children(top);
      stack.insert(stack.end(), parts.begin(), parts.end());
    }
  }
  std::array<int, 256> of{};
  int count = 1;
  const auto split = [&](const ByteSet& set) {
    std::array<std::array<int, 2>, 256> next;
    for (auto& pair : next) pair = {-1, -1};
    int made = 0;
    for (int byte = 0; byte < 256; byte++) {
      int& to = next[static_cast<size_t>(of[static_cast<size_t>(byte)])][set.has(static_cast<uint8_t>(byte)) ? 1 : 0];
      if (to < 0) to = made++;
      of[static_cast<size_t>(byte)] = to;
    }
    count = made;
  };
  ByteSet singles;  // bytes that some expression names alone: a class each
  if (digits) singles = ByteSet::of(".0123456789");
  for (size_t i = 0; i < sets_.size(); i++) {
    if (!used[i]) continue;
    if (sets_[i].count() == 1) {
      singles = singles | sets_[i];
    } else {
      split(sets_[i]);
    }
  }
  split(singles);
  for (int byte = 0; byte < 256; byte++) {
    if (!singles.has(static_cast<uint8_t>(byte))) continue;
    const auto at = static_cast<size_t>(byte);
    if (std::ranges::count(of, of[at]) > 1) of[at] = count++;
  }
  for (size_t byte = 0; byte < 256; byte++) classes[byte] = static_cast<uint8_t>(of[byte]);
  return count;
}

bool Regexes::describe(Expr a, uint32_t clamp, size_t max_nodes, std::string& out) const {
  const auto number = [&](uint32_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  std::vector<Expr> stack = {a};
  size_t count = 0;
  while (!stack.empty()) {
    const Expr top = stack.back();
    stack.pop_back();
    if (++count > max_nodes) return false;
    const Node& node = nodes_[top];
    out.push_back(static_cast<char>(node.kind));
    if (node.kind == Kind::kBytes) {
      out.append(reinterpret_cast<const char*>(sets_[node.a].words.data()), sizeof(ByteSet));
    } else if (node.kind == Kind::kConcat) {
      stack.push_back(node.b);
      stack.push_back(node.a);
    } else if (node.kind == Kind::kNot) {
      stack.push_back(node.a);
    } else if (node.kind == Kind::kDecimal) {
      for (const uint32_t value : {node.a, node.b, node.min, node.max}) number(value);
    } else if (node.kind == Kind::kRepeat) {
      number(std::min(node.min, clamp));
      number(node.max >= clamp ? kUnbounded : node.max);
      stack.push_back(node.a);
    } else if (node.kind == Kind::kAny || node.kind == Kind::kAll) {
      const auto parts = children(top);
      number(static_cast<uint32_t>(parts.size()));
      stack.insert(stack.end(), parts.begin(), parts.end());
    }
  }
  return true;
}

}  // namespace ingot::grammar
