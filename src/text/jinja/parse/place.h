// Where something stands in a template's source, for its errors.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace ingot::jinja {

struct Place {
  uint32_t line = 0;    // from 1; 0: nowhere
  uint32_t column = 0;  // from 1, in characters
};

[[noreturn]] inline void fail_at(Place place, std::string_view what) {
  throw Error("[template] line {}, column {}: {}", place.line, place.column, what);
}

}  // namespace ingot::jinja
