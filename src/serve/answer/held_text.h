// How much of an answer may be held back while it is not known what it is: a text, or a part of a call.
#pragma once

#include <fmt/format.h>

#include <cstddef>

#include "serve/api/api_error.h"

namespace ingot {

// Also the largest piece that one event of a stream can have of it. Text that has not become a call by then is given
// out as text: nothing is lost.
inline constexpr size_t kMaxHeldBytes = 64 << 10;

// The end of an answer inside a call. What is held of an argument can neither go out as text, since its call has begun,
// nor as JSON, since what it is is not known: a value of another type would be a call that the model has not made.
inline ApiError held_too_long() {
  return {.status = 400,
          .message = fmt::format("the answer calls a tool with more than {} bytes of which nothing can be told before "
                                 "they have ended",
                                 kMaxHeldBytes),
          .code = "held_text_limit"};
}

}  // namespace ingot
