// Fuzz target: SentencePiece's tokenizer.model.
// coverage: src/text/load/sentencepiece_file.cpp src/text/model/sentencepiece_model.cpp src/text/split/charsmap.cpp
// src/files/protobuf.cpp
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/load/tokenizer_load.h"
#include "tokenizer_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ingot::exercise([&] { return ingot::parse_sentencepiece_model(bytes, "/nonexistent/tokenizer.model"); });
  return 0;
}
