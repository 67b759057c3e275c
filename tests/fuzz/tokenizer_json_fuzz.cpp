// Fuzz target: tokenizer.json, and what a loaded one makes of texts.
// coverage: src/text/load/tokenizer_json.cpp src/text/load/tokenizer_json_models.cpp
// src/text/load/tokenizer_json_normalizer.cpp src/text/load/tokenizer_json_pre_tokenizer.cpp
// src/text/load/tokenizer_json_decoder.cpp src/text/load/tokenizer_json_post_processor.cpp
// src/text/load/tokenizer_json_stages.cpp src/text/load/tokenizer_json_lists.cpp
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/load/tokenizer_load.h"
#include "tokenizer_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ingot::exercise([&] { return ingot::parse_tokenizer_json(text, "/nonexistent/tokenizer.json"); });
  return 0;
}
