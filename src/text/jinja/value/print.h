// Values as text: Python's str() and repr(), and json.dumps.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value/value.h"

namespace ingot::jinja {

void append_str(Interp& interp, Text& out, const Value& value);
void append_repr(Interp& interp, Text& out, const Value& value);
Text to_text(Interp& interp, const Value& value);  // str()
Value to_str(Interp& interp, const Value& value);  // str() as a value; a str stays itself
void append_quoted(Text& out, const Text& text);   // repr() of a str

struct JsonStyle {
  bool ascii = false;
  bool pretty = false;  // one line for each item
  std::string indent;   // per level, when pretty
  Text item_separator{", ", true};
  Text key_separator{": ", true};
  bool sort_keys = false;
};
void append_json(Interp& interp, Text& out, const Value& value, const JsonStyle& style);

}  // namespace ingot::jinja
