// /v1/responses: from the body to what is to be generated, and what its answer repeats of the request.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/generation.h"

namespace ingot {

inline constexpr size_t kMaxResponseItems = 4096;               // of `input`
inline constexpr size_t kMaxRepeatedBytes = size_t{256} << 10;  // of ResponseFrame::repeated: held until the end
inline constexpr size_t kMaxMetadataLength = 512;               // characters of a value
// Of a conversation that is kept: what goes on from it reads it all, as if it had come as a body.
inline constexpr size_t kMaxKeptBytes = size_t{4} << 20;

extern const FieldTable kFunctionTool, kCustomTool;  // a tool of that type

// What the answer's object says beside what was made.
struct ResponseFrame {
  std::string id;        // "resp_" and 128 random bits
  std::string repeated;  // members that are the same in each event: JSON without the braces
  bool summary = false;  // thoughts come as the summary
  bool store = false;    // it is to be kept
  std::string input;     // where it is: the items before the answer, a JSON array
};

struct ResponseRequest {
  Generation generation;
  ResponseFrame frame;
};

// What reading needs of the answers that are kept.
struct KeptResponses {
  bool on = false;  // answers may be kept
  // The items of the conversation up to and with this answer, a JSON array; none: there is no such answer.
  std::function<std::optional<std::string>(const std::string& id)> conversation = {};
};

// Throws ApiError. `body` has passed read_body() with kResponseFields. `context`: positions that whoever asks has for
// the prompt and the answer, which `truncation` makes room in. `work` as for the other readers.
ResponseRequest read_response(const JsonObject& body, const ServedModel& model, int context, const KeptResponses& kept,
                              TokenWork* work = nullptr);

}  // namespace ingot
