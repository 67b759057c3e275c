// The numbers of a model's experts as the keys of a GGUF file.
#pragma once

#include <string>

#include "weights/hparams.h"

namespace ingot {

class GgufKeys;

// REQUIRES: hp.experts.count > 0. Throws Error where this architecture's keys cannot say them.
void write_gguf_experts(GgufKeys& keys, const std::string& arch, const Hparams& hp);

}  // namespace ingot
