// Fuzz target: calls of tools that answers are held to. slow: a schema's limits are reached after a while. coverage:
// src/grammar/calls
#include "language_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::grammar::fuzz_language(ingot::grammar::Language::kCalls, data, size);
  return 0;
}
