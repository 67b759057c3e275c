// The format specification that `%` and str.format share: [[fill]align][sign][#][0][width][,][.precision][type].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja/value/value.h"

namespace ingot::jinja {

struct FormatSpec {
  std::string_view fill = " ";  // of the text that the specification was read from
  char align = 0;               // '<', '>', '^', '=' or none
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  char group = 0;  // ',' or '_'
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

// Reads a str.format specification. Error when it is none.
FormatSpec parse_spec(Interp& interp, std::string_view text);
// A number of at most four digits at text[pos], which is moved behind it; -1 when there is none.
int64_t spec_number(Interp& interp, std::string_view text, size_t& pos);

// `text` in its width; `number` decides the side when no alignment is given.
Text align_text(Interp& interp, const Text& text, const FormatSpec& spec, bool number);
Text format_number(Interp& interp, const Value& value, const FormatSpec& spec);
// format(value, spec).
Text format_value(Interp& interp, const Value& value, const FormatSpec& spec, bool empty_spec);

}  // namespace ingot::jinja
