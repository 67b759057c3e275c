// Fuzz target: JSON Schemas that answers are held to. slow: a schema's or grammar's limits are reached after a while.
// coverage: src/grammar/schema/document.cpp src/grammar/schema/keywords.cpp src/grammar/schema/algebra_shapes.cpp
#include "language_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::grammar::fuzz_language(ingot::grammar::Language::kJsonSchema, data, size);
  return 0;
}
