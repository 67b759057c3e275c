// The files of one published model: a GGUF file (or its parts), or a Hugging Face directory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "files/gguf/gguf.h"
#include "files/json.h"
#include "files/safetensors.h"

namespace ingot {

struct ModelFiles {
  std::string path;
  std::unique_ptr<Gguf> gguf;  // one of these two
  std::unique_ptr<SafeTensors> safetensors;
  JsonObject config;             // config.json; empty for GGUF
  JsonObject generation_config;  // generation_config.json; empty where there is none

  bool is_gguf() const { return gguf != nullptr; }
  int64_t bytes() const;  // of all weight files
  // What was read of the weight files leaves this process's memory; it comes back when it is read again.
  void give_back_pages() const;

  // Recognises what `path` is by its content. Throws Error that says what is missing or wrong.
  static ModelFiles open(const std::string& path);
};

}  // namespace ingot
