// The config.json of a model whose numbers come from a GGUF file.
#pragma once

#include <string>
#include <string_view>

#include "files/json.h"
#include "weights/hparams.h"

namespace ingot {

// An architecture of GGUF and what a directory calls it.
struct DirectoryTarget {
  std::string_view gguf;    // general.architecture
  std::string_view arch;    // ours, whose names the directory has
  std::string_view type;    // model_type
  std::string_view loader;  // transformers' class
  bool experts = false;
};

// Throws Error naming those that can be written.
const DirectoryTarget& directory_target(std::string_view gguf, bool experts);

// Throws Error where transformers has no word for a number of the model. `dtype`: "bfloat16".
JsonObject directory_config(const DirectoryTarget& target, const Hparams& hp, std::string_view dtype);

}  // namespace ingot
