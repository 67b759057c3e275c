// Fuzz target: vocabularies inside GGUF files.
// coverage: src/text/load/tokenizer_gguf.cpp src/text/load/pre_names.cpp
#include <cstddef>
#include <cstdint>
#include <span>

#include "files/gguf/gguf.h"
#include "tokenizer_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::exercise([&] {
    const ingot::Gguf gguf = ingot::Gguf::parse(std::span(reinterpret_cast<const std::byte*>(data), size));
    return ingot::Tokenizer::from_gguf(gguf);
  });
  return 0;
}
