// A model's numbers as the keys of a GGUF file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weights/hparams.h"

namespace ingot {

class GgufWriter;

// general.architecture and all keys below "<arch>.". What GGUF keeps as tensors (rope_factors()) is not here.
void write_gguf_numbers(GgufWriter& writer, const std::string& arch, const Hparams& hp);

// The factors of rope that GGUF keeps as tensors: names and values; empty where the kind of rope has none.
struct RopeFactors {
  std::string name;
  std::vector<float> values;
};
std::vector<RopeFactors> rope_factors(const RopeSpec& rope);

}  // namespace ingot
