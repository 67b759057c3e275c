// Fuzz target: grammars of llama.cpp that answers are held to. slow: a schema's or grammar's limits are reached after a
// while. coverage: src/grammar/rules/gbnf.cpp src/grammar/rules/ebnf.cpp
#include "language_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::grammar::fuzz_language(ingot::grammar::Language::kGbnf, data, size);
  return 0;
}
