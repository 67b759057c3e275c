#include "files/gguf/gguf_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace ingot {

namespace {

std::string number_text(const GgufValue& value, uint64_t index) {
  return visit_number(value, index, [](auto number) { return fmt::format("{}", number); });
}

}  // namespace

std::string GgufValue::type_name() const {
  if (!is_array()) return gguf_kind_name(kind);
  return fmt::format("array of {}", gguf_kind_name(element));
}

std::string GgufValue::text(size_t max_elements) const {
  if (kind == GgufKind::kString) return fmt::format("\"{}\"", utf8_printable(string, 200));
  if (!is_array()) return number_text(*this, 0);
  std::string out = "[";
  for (uint64_t i = 0; i < std::min<uint64_t>(count, max_elements); i++) {
    if (i > 0) out += ", ";
    out += element == GgufKind::kString ? fmt::format("\"{}\"", utf8_printable(strings[i])) : number_text(*this, i);
  }
  return out + (count > max_elements ? fmt::format(", … {} in all]", count) : "]");
}

}  // namespace ingot
