// Whether the keys of a GGUF file say all of a model's numbers.
#pragma once

#include "weights/hparams.h"

namespace ingot {

// Throws Error naming the first number that differs: `given` is the model, `read` what a reader makes of its GGUF file.
void check_same_numbers(const Hparams& given, const Hparams& read, bool windows);

}  // namespace ingot
