// Limits and fields that several endpoints have in common: only the tables use these.
#pragma once

#include "serve/api/fields.h"
#include "serve/api/tools_request.h"

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

inline constexpr Field kTemperatureField{.name = "temperature",
                                         .kinds = kNumber,
                                         .text = "0: the likeliest token; absent: as the model's files say",
                                         .low = 0,
                                         .high = 2};
inline constexpr Field kTopPField{
    .name = "top_p", .kinds = kNumber, .text = "Likeliest tokens that have so much of the mass", .low = 0, .high = 1};
inline constexpr Field kSeedField{
    .name = "seed", .kinds = kInteger, .text = "The same seed gives the same answer", .low = -0x1p63, .high = 0x1p63};
inline constexpr Field kToolNameField{.name = "name",
                                      .kinds = kString,
                                      .text = "Letters, digits, _ - and .",
                                      .required = true,
                                      .max_length = kMaxToolName,
                                      .min_length = 1};

}  // namespace ingot
