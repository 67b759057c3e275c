// Fuzz target: grammars of Lark that answers are held to. slow: a schema's or grammar's limits are reached after a
// while. coverage: src/grammar/rules/lark.cpp src/grammar/rules/ebnf.cpp
#include "language_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::grammar::fuzz_language(ingot::grammar::Language::kLark, data, size);
  return 0;
}
