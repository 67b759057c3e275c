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

inline constexpr Field kModelField{
    .name = "model", .kinds = kString, .text = "A name that /v1/models tells; may be left out", .max_length = 512};
inline constexpr Field kSeedField{
    .name = "seed", .kinds = kInteger, .text = "The same seed gives the same answer", .low = -0x1p63, .high = 0x1p63};
inline constexpr Field kTimeoutField{.name = "timeout",
                                     .kinds = kNumber,
                                     .text = "Seconds that the whole answer may take; the server may allow fewer",
                                     .low = 1,
                                     .high = 86400};
inline constexpr Field kToolNameField{.name = "name",
                                      .kinds = kString,
                                      .text = "Letters, digits, _ - and .",
                                      .required = true,
                                      .max_length = kMaxToolName,
                                      .min_length = 1};

// The field of a number that shapes sampling, under its own name.
constexpr Field sampling_field(const SamplingNumber& n) {
  return {.name = n.name,
          .kinds = n.integer ? kInteger : kNumber,
          .text = n.text,
          .low = n.low,
          .high = n.high,
          .sampling = &n};
}
// The same by its name; one that is not in the table does not compile.
consteval Field sampling_field(std::string_view name) {
  for (const SamplingNumber& n : kSamplingNumbers) {
    if (n.name == name) return sampling_field(n);
  }
  throw "no such parameter";
}

}  // namespace ingot
