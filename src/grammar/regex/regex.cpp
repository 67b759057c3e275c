#include "grammar/regex/regex.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ingot::grammar {

ByteSet ByteSet::of(std::string_view bytes) {
  ByteSet set;
  for (const char c : bytes) set.add(static_cast<uint8_t>(c));
  return set;
}

ByteSet ByteSet::range(uint8_t first, uint8_t last) {
  ByteSet set;
  for (int byte = first; byte <= last; byte++) set.add(static_cast<uint8_t>(byte));
  return set;
}

int ByteSet::count() const {
  int n = 0;
  for (const uint64_t word : words) n += std::popcount(word);
  return n;
}

ByteSet operator|(const ByteSet& a, const ByteSet& b) {
  ByteSet out;
  for (size_t i = 0; i < 4; i++) out.words[i] = a.words[i] | b.words[i];
  return out;
}

ByteSet operator&(const ByteSet& a, const ByteSet& b) {
  ByteSet out;
  for (size_t i = 0; i < 4; i++) out.words[i] = a.words[i] & b.words[i];
  return out;
}

ByteSet operator~(const ByteSet& a) {
  ByteSet out;
  for (size_t i = 0; i < 4; i++) out.words[i] = ~a.words[i];
  return out;
}

Regexes::Regexes(size_t max_nodes) : max_nodes_(max_nodes), table_(1024, 0) {
  nodes_.push_back({.kind = Kind::kNone});
  nodes_.push_back({.kind = Kind::kEpsilon, .nullable = true});
  first_.resize(2);
  complement(kNothing);  // kEverything
}

uint64_t Regexes::hash_of(const Node& node, std::span<const Expr> children) {
  SeededNumbers hash;
  hash.add(static_cast<uint64_t>(node.kind));
  if (children.empty()) hash.add(uint64_t{node.a} << 32 | node.b);
  hash.add(uint64_t{node.min} << 32 | node.max);
  for (const Expr child : children) hash.add(child);
  return hash.value();
}

bool Regexes::same(const Node& node, std::span<const Expr> parts, Expr known) const {
  const Node& other = nodes_[known];
  if (node.kind != other.kind || node.min != other.min || node.max != other.max) return false;
  if (parts.empty()) return node.a == other.a && node.b == other.b;
  return std::ranges::equal(parts, children(known));
}

void Regexes::grow_table() {
  table_.assign(table_.size() * 2, 0);
  for (Expr id = 2; id < nodes_.size(); id++) {
    const Node& node = nodes_[id];
    const bool list = node.kind == Kind::kAny || node.kind == Kind::kAll;
    size_t at = hash_of(node, list ? children(id) : std::span<const Expr>()) & (table_.size() - 1);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = id;
  }
}

ByteSet Regexes::first_of(const Node& node, std::span<const Expr> parts) const {
  switch (node.kind) {
    case Kind::kBytes:
      return sets_[node.a];
    case Kind::kConcat:
      return nodes_[node.a].nullable ? first_[node.a] | first_[node.b] : first_[node.a];
    case Kind::kRepeat:
      return first_[node.a];
    case Kind::kAny: {
      ByteSet out;
      for (const Expr part : parts) out = out | first_[part];
      return out;
    }
    case Kind::kAll: {
      ByteSet out = ~ByteSet{};
      for (const Expr part : parts) out = out & first_[part];
      return out;
    }
    default:
      return ~ByteSet{};
  }
}

bool Regexes::wild_of(const Node& node, std::span<const Expr> parts) const {
  const auto is_wild = [&](Expr part) { return nodes_[part].wild; };
  switch (node.kind) {
    case Kind::kBytes:
      return sets_[node.a].has(0xFF);
    case Kind::kConcat:
      return is_wild(node.a) || is_wild(node.b);
    case Kind::kRepeat:
      return is_wild(node.a);
    case Kind::kAny:
      return std::ranges::any_of(parts, is_wild);
    case Kind::kAll:
      return std::ranges::all_of(parts, is_wild);
    default:
      return node.kind == Kind::kNot;
  }
}

Expr Regexes::intern(const Node& node, std::span<const Expr> parts) {
  spend(1 + parts.size() / 8);
  const uint64_t hash = hash_of(node, parts);
  size_t at = hash & (table_.size() - 1);
  while (table_[at] != 0) {
    if (same(node, parts, table_[at])) return table_[at];
    at = (at + 1) & (table_.size() - 1);
  }
  if (nodes_.size() + children_.size() / 4 >= max_nodes_) {
    throw LimitError("[grammar] more than {} regular expressions", max_nodes_);
  }
  const auto id = static_cast<Expr>(nodes_.size());
  nodes_.push_back(node);
  nodes_[id].wild = wild_of(node, parts);
  first_.push_back(first_of(node, parts));
  if (!parts.empty()) {
    nodes_[id].a = static_cast<uint32_t>(children_.size());
    children_.insert(children_.end(), parts.begin(), parts.end());
    nodes_[id].b = static_cast<uint32_t>(children_.size());
  }
  table_[at] = id;
  if (nodes_.size() * 2 > table_.size()) grow_table();
  return id;
}

std::span<const Expr> Regexes::children(Expr a) const {
  return std::span(children_).subspan(nodes_[a].a, nodes_[a].b - nodes_[a].a);
}

size_t Regexes::memory() const {
  return nodes_.capacity() * (sizeof(Node) + sizeof(ByteSet)) +
         (children_.capacity() + table_.capacity()) * sizeof(Expr) + sets_.capacity() * (sizeof(ByteSet) + 96) +
         (derived_.size() + empty_.size()) * 48;
}

Expr Regexes::bytes(const ByteSet& set) {
  if (set == ByteSet{}) return kNothing;
  const auto [it, is_new] = set_ids_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  return intern({.kind = Kind::kBytes, .a = it->second});
}

Expr Regexes::literal(std::string_view text) {
  Expr out = kEmpty;
  for (size_t i = text.size(); i-- > 0;) out = concat(bytes(ByteSet::of(text.substr(i, 1))), out);
  return out;
}

Expr Regexes::literals(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  // The tree of prefixes, from the longest prefix down: what follows each is known when its parent is made.
  struct Open {
    size_t depth;              // bytes of the prefix
    std::vector<Expr> branch;  // what may follow it
  };
  std::vector<Open> open = {{0, {}}};
  const auto close_to = [&](size_t depth, std::string_view text) {
    while (open.back().depth > depth) {
      Open top = std::move(open.back());
      open.pop_back();
      if (open.back().depth < depth) open.push_back({depth, {}});
      const size_t from = open.back().depth;
      open.back().branch.push_back(concat(literal(text.substr(from, top.depth - from)), any_of(top.branch)));
    }
  };
  for (size_t i = 0; i < texts.size(); i++) {
    if (i > 0) {
      const auto [here, there] = std::ranges::mismatch(texts[i - 1], texts[i]);
      close_to(static_cast<size_t>(here - texts[i - 1].begin()), texts[i - 1]);
    }
    if (texts[i].size() == open.back().depth) {
      open.back().branch.push_back(kEmpty);
    } else {
      open.push_back({texts[i].size(), {kEmpty}});
    }
  }
  if (!texts.empty()) close_to(0, texts.back());
  return any_of(open.front().branch);
}

Expr Regexes::concat(Expr a, Expr b) {
  if (a == kNothing || b == kNothing) return kNothing;
  if (a == kEmpty) return b;
  if (b == kEmpty) return a;
  if (nodes_[a].kind == Kind::kConcat) {  // the left side is never a concatenation: equal texts get equal ids
    std::vector<Expr> heads;
    Expr rest = a;
    for (; nodes_[rest].kind == Kind::kConcat; rest = nodes_[rest].b) heads.push_back(nodes_[rest].a);
    Expr out = concat(rest, b);
    for (size_t i = heads.size(); i-- > 0;) out = concat(heads[i], out);
    return out;
  }
  // x{1,2} x{3,} = x{4,}
  const auto base = [&](Expr e) { return nodes_[e].kind == Kind::kRepeat ? nodes_[e].a : e; };
  const auto low = [&](Expr e) { return nodes_[e].kind == Kind::kRepeat ? nodes_[e].min : 1; };
  const auto high = [&](Expr e) { return nodes_[e].kind == Kind::kRepeat ? nodes_[e].max : 1; };
  while (b != kEmpty) {
    const Expr next = nodes_[b].kind == Kind::kConcat ? nodes_[b].a : b;
    const bool counted = nodes_[a].kind == Kind::kRepeat || nodes_[next].kind == Kind::kRepeat;
    if (!counted || base(a) != base(next)) break;
    const uint64_t min = uint64_t{low(a)} + low(next);
    const bool open = high(a) == kUnbounded || high(next) == kUnbounded;
    const uint64_t max = open ? kUnbounded : uint64_t{high(a)} + high(next);
    if (min >= kUnbounded || max > kUnbounded) break;
    a = repeat(base(a), static_cast<uint32_t>(min), static_cast<uint32_t>(max));
    b = next == b ? kEmpty : nodes_[b].b;
  }
  if (b == kEmpty) return a;
  return intern({.kind = Kind::kConcat,
                 .nullable = nodes_[a].nullable && nodes_[b].nullable,
                 .extended = nodes_[a].extended || nodes_[b].extended,
                 .a = a,
                 .b = b});
}

Expr Regexes::concat(std::span<const Expr> parts) {
  Expr out = kEmpty;
  for (size_t i = parts.size(); i-- > 0;) out = concat(parts[i], out);
  return out;
}

void Regexes::flatten(Kind kind, std::span<const Expr> parts, std::vector<Expr>& out) const {
  for (const Expr part : parts) {
    if (nodes_[part].kind == kind) {  // its own parts are never of that kind
      const auto inner = children(part);
      out.insert(out.end(), inner.begin(), inner.end());
    } else {
      out.push_back(part);
    }
  }
  spend(1 + out.size() / 2);
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

// Of alternatives, x{1,3} | x{2,7} is x{1,7}: so a count that may begin at many places stays one expression.
void Regexes::merge_repeats(std::vector<Expr>& parts) {
  std::vector<Expr> repeats;
  for (const Expr part : parts) {
    if (nodes_[part].kind == Kind::kRepeat) repeats.push_back(part);
  }
  if (repeats.size() < 2) return;
  std::ranges::sort(repeats, [&](Expr a, Expr b) {
    const Node &x = nodes_[a], &y = nodes_[b];
    return x.a != y.a ? x.a < y.a : x.min < y.min;
  });
  std::vector<Expr> merged;
  for (const Expr part : repeats) {
    const Node node = nodes_[part];
    if (!merged.empty()) {
      const Node last = nodes_[merged.back()];
      if (last.a == node.a && (last.max == kUnbounded || node.min <= last.max + 1)) {
        merged.back() = repeat(node.a, last.min, std::max(last.max, node.max));
        continue;
      }
    }
    merged.push_back(part);
  }
  if (merged.size() == repeats.size()) return;
  std::erase_if(parts, [&](Expr part) { return nodes_[part].kind == Kind::kRepeat; });
  parts.insert(parts.end(), merged.begin(), merged.end());
  std::ranges::sort(parts);
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
}

Expr Regexes::any_of(std::span<const Expr> given) {
  std::vector<Expr> parts;
  flatten(Kind::kAny, given, parts);
  ByteSet set;
  bool nullable = false, extended = false, other_nullable = false;
  std::erase(parts, kNothing);
  if (std::ranges::count(parts, Kind::kBytes, [&](Expr part) { return nodes_[part].kind; }) > 1) {
    std::erase_if(parts, [&](Expr part) {
      if (nodes_[part].kind != Kind::kBytes) return false;
      set = set | sets_[nodes_[part].a];
      return true;
    });
    const Expr one = bytes(set);
    parts.insert(std::ranges::lower_bound(parts, one), one);
  }
  merge_repeats(parts);
  for (const Expr part : parts) {
    if (part == kEverything) return kEverything;
    nullable |= nodes_[part].nullable;
    extended |= nodes_[part].extended;
    other_nullable |= nodes_[part].nullable && part != kEmpty;
  }
  if (other_nullable) std::erase(parts, kEmpty);
  if (parts.empty()) return kNothing;
  if (parts.size() == 1) return parts[0];
  return intern({.kind = Kind::kAny, .nullable = nullable, .extended = extended}, parts);
}

Expr Regexes::all_of(std::span<const Expr> given) {
  std::vector<Expr> parts;
  flatten(Kind::kAll, given, parts);
  std::erase(parts, kEverything);
  if (parts.empty()) return kEverything;
  ByteSet set = ~ByteSet{};
  int sets = 0;
  bool nullable = true, has_empty = false;
  for (const Expr part : parts) {
    const Node& node = nodes_[part];
    nullable &= node.nullable;
    has_empty |= part == kEmpty;
    if (part == kNothing) return kNothing;
    if (node.kind == Kind::kNot && std::ranges::binary_search(parts, node.a)) return kNothing;
    if (node.kind == Kind::kBytes) {
      sets++;
      set = set & sets_[node.a];
    }
  }
  if (has_empty) return nullable ? kEmpty : kNothing;
  if (sets > 1) {
    std::erase_if(parts, [&](Expr part) { return nodes_[part].kind == Kind::kBytes; });
    const Expr one = bytes(set);
    if (one == kNothing) return kNothing;
    parts.insert(std::ranges::lower_bound(parts, one), one);
  }
  if (parts.size() == 1) return parts[0];
  return intern({.kind = Kind::kAll, .nullable = nullable, .extended = true}, parts);
}

Expr Regexes::complement(Expr a) {
  if (nodes_[a].kind == Kind::kNot) return nodes_[a].a;
  return intern({.kind = Kind::kNot, .nullable = !nodes_[a].nullable, .extended = a != kNothing, .a = a});
}

Expr Regexes::repeat(Expr a, uint32_t min, uint32_t max) {
  CHECK(min <= max, "{} {}", min, max);
  if (max == 0 || a == kEmpty) return kEmpty;
  if (a == kNothing) return min == 0 ? kEmpty : kNothing;
  const Node node = nodes_[a];
  if (node.nullable) min = 0;
  if (min == 1 && max == 1) return a;
  if (node.kind == Kind::kRepeat) {
    if (node.max == kUnbounded && node.min <= 1) {  // (x*){…} and (x+){…}
      return repeat(node.a, node.min * min, kUnbounded);
    }
    if (node.min == 0 && min == 0) {  // (x{0,m}){0,n}
      const uint64_t most = max == kUnbounded ? kUnbounded : uint64_t{node.max} * max;
      if (most <= kUnbounded) return repeat(node.a, 0, static_cast<uint32_t>(most));
    }
  }
  if (node.kind == Kind::kAny && node.nullable && std::ranges::binary_search(children(a), kEmpty)) {
    std::vector<Expr> parts(children(a).begin(), children(a).end());  // (x|){…} is x{0,…}
    std::erase(parts, kEmpty);
    return repeat(any_of(parts), 0, max);
  }
  return intern(
      {.kind = Kind::kRepeat, .nullable = min == 0, .extended = node.extended, .a = a, .min = min, .max = max});
}

}  // namespace ingot::grammar
