// Limits that fields of several endpoints have in common: only the tables use these.
#pragma once

#include "serve/fields.h"
#include "serve/tools_request.h"

namespace ingot {

inline constexpr int kMaxN = 16;
inline constexpr int kMaxAnswerTokens = 1 << 30;
inline constexpr int kMaxTopLogprobs = 20;
inline constexpr size_t kMaxMessages = 2048;
inline constexpr size_t kMaxCalls = 128;  // of one message
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopLength = 256;
inline constexpr size_t kMaxLogitBias = 1024;
inline constexpr size_t kMaxPrompts = 64;

}  // namespace ingot
