// The vocabulary of a GGUF file as tokenizer.json, tokenizer_config.json and generation_config.json say it.
#pragma once

#include <vector>

#include "compress/directory/directory_model.h"
#include "files/gguf/gguf.h"

namespace ingot {

struct DirectoryVocabulary {
  std::vector<SideFile> files;  // empty: the file says that it has none
  JsonObject ids;               // bos_token_id … of config.json
};

// Throws Error for a file that does not speak of a vocabulary, and naming one that is no BPE.
DirectoryVocabulary directory_vocabulary(const Gguf& gguf, int context);

}  // namespace ingot
