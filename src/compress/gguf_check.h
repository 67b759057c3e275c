// Whether a file that was written of a model says all of its numbers.
#pragma once

#include "weights/hparams.h"

namespace ingot {

// Throws Error naming the first number that differs: `given` is the model, `read` what a reader makes of `file`: "a
// GGUF file".
void check_same_numbers(const Hparams& given, const Hparams& read, bool windows, const char* file = "a GGUF file");

}  // namespace ingot
