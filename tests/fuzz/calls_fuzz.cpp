// Fuzz target: calls of tools that answers are held to. slow: a schema's limits are reached after a while. coverage:
// src/grammar/calls
#include "language_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot::grammar;
  Source source{.language = Language::kCalls, .text = {reinterpret_cast<const char*>(data), size}};
  if (size % 2 == 1) {  // or another text
    source.instead.push_back({.language = Language::kJsonSchema, .text = R"({"enum": ["<f", {"name": "f"}]})"});
    source.lead = "a<end>";
  }
  fuzz_source(source);
  return 0;
}
