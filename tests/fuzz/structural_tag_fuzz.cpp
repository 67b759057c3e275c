// Fuzz target: structural tags that answers are held to. slow: a schema's or grammar's limits are reached after a
// while. coverage: src/grammar/rules/structural_tag.cpp
#include "language_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::grammar::fuzz_language(ingot::grammar::Language::kStructuralTag, data, size);
  return 0;
}
