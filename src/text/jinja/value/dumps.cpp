// json.dumps.
#include <algorithm>
#include <cmath>

#include "text/jinja/parse/literal.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

std::string json_escape(uint32_t cp) {
  switch (cp) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      break;
  }
  if (cp < 0x10000) return fmt::format("\\u{:04x}", cp);
  uint32_t v = cp - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (v >> 10), 0xDC00 + (v & 0x3FF));
}

void append_json_string(Interp& interp, Text& out, const Text& text, bool ascii) {
  interp.budget().scan(2 * text.size());
  out.append("\"", true);
  const std::string& bytes = text.bytes();
  size_t plain = 0;
  for (size_t i = 0; i < bytes.size();) {
    unsigned char byte = static_cast<unsigned char>(bytes[i]);
    bool special = byte < 32 || byte == '"' || byte == '\\' || (byte >= 127 && ascii);
    if (byte == 127) special = false;
    if (!special) {
      ++i;
      continue;
    }
    Char c = char_at(bytes, i);
    out.append(text, plain, i);
    out.append(json_escape(c.cp), text.from_template(i));
    i += c.size;
    plain = i;
  }
  out.append(text, plain, bytes.size());
  out.append("\"", true);
}

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return float_repr(value);
}

class Writer {
 public:
  Writer(Interp& interp, Text& out, const JsonStyle& style) : interp_(interp), out_(out), style_(style) {}

  void value(const Value& v) {
    interp_.budget().step();
    interp_.budget().room(out_.size());
    switch (v.kind()) {
      case Kind::kStr:
        append_json_string(interp_, out_, v.text(), style_.ascii);
        break;
      case Kind::kNone:
        out_.append("null", true);
        break;
      case Kind::kBool:
        out_.append(v.integer() != 0 ? "true" : "false", true);
        break;
      case Kind::kInt:
      case Kind::kBigInt:
        append_str(interp_, out_, v);
        break;
      case Kind::kFloat:
        out_.append(json_float(v.real()), true);
        break;
      case Kind::kList:
      case Kind::kTuple:
        array(v.items());
        break;
      case Kind::kDict:
        object(v.dict());
        break;
      default:
        interp_.fail(fmt::format("Object of type {} is not JSON serializable", type_name(v.kind())));
    }
  }

 private:
  void line() {
    if (!style_.pretty) return;
    out_.append("\n", true);
    for (int i = 0; i < level_; ++i) out_.append(style_.indent, true);
  }

  void array(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]", true);
    out_.append("[", true);
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out_.append(style_.item_separator);
      line();
      value(items[i]);
    }
    --level_;
    line();
    out_.append("]", true);
  }

  void object(const Dict& dict) {
    if (dict.entries.empty()) return out_.append("{}", true);
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) order.push_back(&entry);
    if (style_.sort_keys) {
      // Python compares as it sorts; one type of key is all that it accepts, so the check comes first.
      for (size_t i = 1; i < order.size(); ++i) less(interp_, order[i - 1]->first, order[i]->first);
      std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return KeyLess()(a->first, b->first); });
    }
    out_.append("{", true);
    ++level_;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i != 0) out_.append(style_.item_separator);
      line();
      key(order[i]->first);
      out_.append(style_.key_separator);
      value(order[i]->second);
    }
    --level_;
    line();
    out_.append("}", true);
  }

  void key(const Value& k) {
    if (k.is_str()) return append_json_string(interp_, out_, k.text(), style_.ascii);
    if (!k.is_number() && !k.is_none() && !k.is(Kind::kBigInt)) {
      interp_.fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(k.kind())));
    }
    out_.append("\"", true);
    value(k);
    out_.append("\"", true);
  }

  Interp& interp_;
  Text& out_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

void append_json(Interp& interp, Text& out, const Value& value, const JsonStyle& style) {
  Writer(interp, out, style).value(value);
}

}  // namespace ingot::jinja
