// Whether weights are numbers at all: asked of every value that is compressed. Pure, any thread.
#pragma once

#include <cstdint>
#include <span>

namespace ingot {

// The first value that is infinite or no number; -1: none is.
int64_t first_not_finite(std::span<const float> values);

}  // namespace ingot
