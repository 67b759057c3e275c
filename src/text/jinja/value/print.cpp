// str() and repr().
#include "text/jinja/value/print.h"

#include "base/utf8.h"
#include "text/jinja/parse/literal.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

void append_char(Text& out, const Text& text, size_t pos, Char c, char quote) {
  bool by = text.from_template(pos);
  if (c.cp == static_cast<uint32_t>(quote) || c.cp == '\\') {
    out.append("\\", by);
  } else if (c.cp == '\n' || c.cp == '\r' || c.cp == '\t') {
    out.append(c.cp == '\n' ? "\\n" : c.cp == '\r' ? "\\r" : "\\t", by);
    return;
  } else if (c.cp < 32 || c.cp == 127 || (c.cp >= 128 && !has_property(c.cp, Property::kPrintable))) {
    out.append(c.cp < 0x100     ? fmt::format("\\x{:02x}", c.cp)
               : c.cp < 0x10000 ? fmt::format("\\u{:04x}", c.cp)
                                : fmt::format("\\U{:08x}", c.cp),
               by);
    return;
  }
  out.append(text, pos, pos + c.size);
}

void append_items(Interp& interp, Text& out, const std::vector<Value>& items) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(", ", true);
    first = false;
    append_repr(interp, out, item);
  }
}

void append_entries(Interp& interp, Text& out, const Dict& dict) {
  out.append("{", true);
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out.append(", ", true);
    first = false;
    append_repr(interp, out, key);
    out.append(": ", true);
    append_repr(interp, out, value);
  }
  out.append("}", true);
}

void append_view(Interp& interp, Text& out, const Value& value) {
  static constexpr std::string_view kNames[] = {"dict_keys([", "dict_values([", "dict_items(["};
  out.append(kNames[value.as<View>().part], true);
  append_items(interp, out, interp.collect(value));
  out.append("])", true);
}

std::string range_repr(const Range& range) {
  if (range.step == 1) return fmt::format("range({}, {})", range.start, range.stop);
  return fmt::format("range({}, {}, {})", range.start, range.stop, range.step);
}

// What the engine made itself: Python prints an address there, so that no template can rely on it.
std::string object_repr(Interp& interp, const Value& value) {
  switch (value.kind()) {
    case Kind::kMacro: {
      const std::string& name = value.as<Macro>().def->name;
      return name.empty() ? "<Macro anonymous>" : "<Macro '" + name + "'>";
    }
    case Kind::kLoop:
      return fmt::format("<LoopContext {}/{}>", value.as<Loop>().index0 + 1, value.as<Loop>().length(interp));
    case Kind::kFunction:
      return fmt::format("<function {}>", value.as<Function>().name);
    default:
      return fmt::format("<{} object>", type_name(value.kind()));
  }
}

}  // namespace

void append_quoted(Text& out, const Text& text) {
  const std::string& bytes = text.bytes();
  bool single = bytes.find('\'') != std::string::npos, twice = bytes.find('"') != std::string::npos;
  char quote = single && !twice ? '"' : '\'';
  out.append(std::string_view(&quote, 1), true);
  size_t plain = 0;  // characters that are copied as they are, in one piece
  for (size_t i = 0; i < bytes.size();) {
    unsigned char byte = static_cast<unsigned char>(bytes[i]);
    if (byte >= 32 && byte < 127 && byte != '\\' && bytes[i] != quote) {
      ++i;
      continue;
    }
    Char c = char_at(bytes, i);
    out.append(text, plain, i);
    append_char(out, text, i, c, quote);
    i += c.size;
    plain = i;
  }
  out.append(text, plain, bytes.size());
  out.append(std::string_view(&quote, 1), true);
}

void append_repr(Interp& interp, Text& out, const Value& value) {
  interp.budget().step();
  Interp::Deeper deeper(interp);  // namespaces may hold themselves
  switch (value.kind()) {
    case Kind::kStr:
      interp.budget().scan(2 * value.text().size());
      if (value.markup()) out.append("Markup(", true);
      append_quoted(out, value.text());
      if (value.markup()) out.append(")", true);
      break;
    case Kind::kUndefined:
      out.append("Undefined", true);
      break;
    case Kind::kList:
      out.append("[", true);
      append_items(interp, out, value.items());
      out.append("]", true);
      break;
    case Kind::kTuple:
      out.append("(", true);
      append_items(interp, out, value.items());
      out.append(value.items().size() == 1 ? ",)" : ")", true);
      break;
    case Kind::kDict:
      append_entries(interp, out, value.dict());
      break;
    case Kind::kNamespace:
      out.append("<Namespace ", true);
      append_entries(interp, out, value.as<Dict>());
      out.append(">", true);
      break;
    case Kind::kView:
      append_view(interp, out, value);
      break;
    default:
      append_str(interp, out, value);
  }
  interp.budget().room(out.size());
}

void append_str(Interp& interp, Text& out, const Value& value) {
  switch (value.kind()) {
    case Kind::kStr:
      out.append(value.text());
      break;
    case Kind::kMissing:
    case Kind::kUndefined:
      break;
    case Kind::kNone:
      out.append("None", true);
      break;
    case Kind::kBool:
      out.append(value.integer() != 0 ? "True" : "False", true);
      break;
    case Kind::kInt:
      out.append(fmt::format_int(value.integer()).c_str(), true);
      break;
    case Kind::kFloat:
      out.append(float_repr(value.real()), true);
      break;
    case Kind::kBigInt:
      out.append(value.as<Str>().text);
      break;
    case Kind::kRange:
      out.append(range_repr(value.as<Range>()), true);
      break;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kNamespace:
      append_repr(interp, out, value);
      break;
    default:
      out.append(object_repr(interp, value), true);
  }
}

Text to_text(Interp& interp, const Value& value) {
  if (value.is_str()) return value.text();
  Text out;
  append_str(interp, out, value);
  return out;
}

Value to_str(Interp& interp, const Value& value) { return value.is_str() ? value : interp.str(to_text(interp, value)); }

}  // namespace ingot::jinja
