// Writes a model of random weights as a GGUF file that other engines can load.
#pragma once

#include <string>

#include "models/model.h"

namespace ingot {

// With a vocabulary of bytes and made-up words, since random weights have none. REQUIRES: the model is
// Model::random's. Throws Error where a weight has no name or no type in GGUF.
void save_random(Model& model, const std::string& path);

}  // namespace ingot
