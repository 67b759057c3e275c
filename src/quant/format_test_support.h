// Every format, for tests that go through all of them.
#pragma once

#include <vector>

#include "quant/format.h"

namespace ingot::test {

inline std::vector<Format> all_formats() {
  return {
#define X(NAME) Format::k##NAME,
      INGOT_FORMATS(X)
#undef X
  };
}

}  // namespace ingot::test
