#include <vector>

#include "grammar/schema/notation.h"

namespace ingot::grammar {

namespace {

// All escapes of a character: the short one, and for control characters \\u00XX.
void add_escapes(uint8_t byte, std::vector<std::string>& out) {
  constexpr std::string_view kPlain = "\"'\\\b\f\n\r\t", kShort = "\"'\\bfnrt";
  if (const size_t at = kPlain.find(static_cast<char>(byte)); at != std::string_view::npos) {
    out.push_back(std::string("\\") + kShort[at]);
  }
  if (byte >= 0x20) return;
  for (const std::string_view digits : {"0123456789abcdef", "0123456789ABCDEF"}) {
    out.push_back(std::string("\\u00") + digits[byte >> 4] + digits[byte & 15]);
  }
}

}  // namespace

Spelling::Spelling(Regexes& pool, char quote, bool bare_controls)
    : pool_(pool), quote_(quote), bare_controls_(bare_controls), any_spelled_(0) {
  any_spelled_ = pool.star(of_bytes(ByteSet::all()));
}

Expr Spelling::of_bytes(const ByteSet& set) {
  ByteSet plain;
  std::vector<std::string> escapes;
  for (int byte = 0; byte < 256; byte++) {
    const auto b = static_cast<uint8_t>(byte);
    if (!set.has(b)) continue;
    const bool control = b < 0x20, marked = b == static_cast<uint8_t>(quote_) || b == '\\';
    if (control || marked) add_escapes(b, escapes);
    if (!marked && (!control || bare_controls_)) plain.add(b);
  }
  if (escapes.empty()) return pool_.bytes(plain);
  return pool_.any_of({pool_.bytes(plain), pool_.literals(std::move(escapes))});
}

// All parts are known. A spelling is that of one text and no character's begins another's, so that it commutes with
// intersection; the complement is taken within the texts that are spelled at all.
Expr Spelling::from_parts(Expr text, bool in_all) {
  const Regexes::Node node = pool_.node(text);
  switch (node.kind) {
    case Regexes::Kind::kBytes:
      return of_bytes(ByteSet(pool_.set(text)));
    case Regexes::Kind::kConcat:
      return pool_.concat(known_.at(node.a), known_.at(node.b));
    case Regexes::Kind::kRepeat:
      return pool_.repeat(known_.at(node.a), node.min, node.max);
    case Regexes::Kind::kNot: {
      const Expr rest = pool_.complement(known_.at(node.a));
      return in_all ? rest : pool_.all_of({any_spelled_, rest});
    }
    case Regexes::Kind::kAny:
    case Regexes::Kind::kAll: {
      const bool all = node.kind == Regexes::Kind::kAll;
      const std::vector<Expr> given(pool_.children(text).begin(), pool_.children(text).end());
      std::vector<Expr> parts;
      bool positive = false;
      for (const Expr part : given) {
        const bool negated = pool_.node(part).kind == Regexes::Kind::kNot;
        positive |= !negated;
        parts.push_back(all && negated ? from_parts(part, true) : known_.at(part));
      }
      if (all && !positive) parts.push_back(any_spelled_);
      return all ? pool_.all_of(parts) : pool_.any_of(parts);
    }
    default:
      return text;
  }
}

Expr Spelling::spelled(Expr text) {
  std::vector<Expr> stack{text};
  while (!stack.empty()) {
    const Expr top = stack.back();
    if (known_.contains(top)) {
      stack.pop_back();
      continue;
    }
    const size_t before = stack.size();
    const auto need = [&](Expr part) {
      if (!known_.contains(part)) stack.push_back(part);
    };
    const Regexes::Node& node = pool_.node(top);
    if (node.kind == Regexes::Kind::kConcat) need(node.b);
    if (node.kind == Regexes::Kind::kConcat || node.kind == Regexes::Kind::kNot ||
        node.kind == Regexes::Kind::kRepeat) {
      need(node.a);
    }
    if (node.kind == Regexes::Kind::kAny || node.kind == Regexes::Kind::kAll) {
      for (const Expr part : pool_.children(top)) need(part);
    }
    if (stack.size() > before) continue;
    known_.emplace(top, from_parts(top, false));
    stack.pop_back();
  }
  return known_.at(text);
}

}  // namespace ingot::grammar
