// Limits and fields that several endpoints have in common: only the tables use these.
#pragma once

#include <array>

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

// One table of several.
template <size_t... N>
constexpr auto join(const std::array<Field, N>&... parts) {
  std::array<Field, (N + ...)> all{};
  size_t at = 0;
  const auto add = [&](const auto& part) {
    for (const Field& field : part) all[at++] = field;
  };
  (add(parts), ...);
  return all;
}

// Every number of sampling.
inline constexpr auto kSamplingFields = [] {
  std::array<Field, kSamplingNumbers.size()> fields{};
  for (size_t i = 0; i < fields.size(); ++i) {
    fields[i] = sampling_field(kSamplingNumbers[i]);
    if (fields[i].name != std::string_view("top_k")) continue;
    fields[i].low = -1;  // what clients of other servers send for all
    fields[i].text = "Likeliest tokens; 0 or -1: all";
  }
  return fields;
}();

inline constexpr Field kStopField{.name = "stop",
                                  .kinds = kString | kArray,
                                  .text = "Texts that end the answer",
                                  .max_length = kMaxStopLength,
                                  .max_items = kMaxStops,
                                  .items = kString,
                                  .item_max_length = kMaxStopLength};
inline constexpr Field kParallelCallsField{
    .name = "parallel_tool_calls", .kinds = kBool, .text = "Whether several calls may come", .fallback = "true"};

// How a request is run, beside the numbers of sampling.
inline constexpr std::array kRunFields = {
    Field{.name = "logit_bias",
          .kinds = kObject,
          .text = "Token id to a number from -100 to 100",
          .low = -100,
          .high = 100,
          .max_items = kMaxLogitBias},
    kSeedField,
    kStopField,
    Field{.name = "stop_token_ids",
          .kinds = kArray,
          .text = "Tokens that end the answer",
          .max_items = kMaxStops,
          .items = kInteger},
    Field{.name = "ignore_eos",
          .kinds = kBool,
          .text = "The model's own end tokens do not end the answer",
          .fallback = "false"},
    Field{.name = "min_tokens",
          .kinds = kInteger,
          .text = "No end token before so many",
          .low = 0,
          .high = kMaxAnswerTokens,
          .fallback = "0"},
    Field{.name = "priority",
          .kinds = kInteger,
          .text = "Among waiting requests; more is sooner",
          .low = -100,
          .high = 100,
          .fallback = "0"},
    kTimeoutField,
    Field{.name = "cache_prompt", .kinds = kBool, .text = "Whether the cache of prefixes is used", .fallback = "true"},
};

}  // namespace ingot
