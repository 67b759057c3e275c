// A model's configuration under one set of questions, whether it comes from config.json or from GGUF
// metadata. A key has two names; the GGUF one is prefixed with "<architecture>.".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/gguf/gguf.h"
#include "files/json.h"
#include "weights/model_files.h"

namespace ingot {

class Config {
 public:
  // `files` must outlive the result. The text part of a multimodal config is taken where it is nested.
  explicit Config(const ModelFiles& files);

  bool is_gguf() const { return gguf_ != nullptr; }
  // "llama", "gemma3_text" …: model_type of config.json, general.architecture of GGUF.
  const std::string& type() const { return type_; }
  const JsonObject& json() const { return json_; }  // empty for GGUF
  const Gguf& gguf() const { return *gguf_; }       // REQUIRES: is_gguf()

  // Each gives nothing where the key is absent or null (an empty name: absent), and throws Error naming
  // the key where its value has another type or is out of range.
  std::optional<double> number(const char* hf, const char* gguf) const;
  std::optional<bool> boolean(const char* hf, const char* gguf) const;
  std::optional<std::string> string(const char* hf, const char* gguf) const;
  std::vector<double> numbers(const char* hf, const char* gguf) const;  // empty where absent
  std::vector<std::string> strings(const char* hf) const;               // empty where absent

  // A whole number in [low, high]; Error where it is absent and there is no fallback.
  int integer(const char* hf, const char* gguf, int low, int high, std::optional<int> fallback = {}) const;

  // Whether the files hold this tensor, by its stored name.
  bool has_tensor(const std::string& stored_name) const;

 private:
  const Gguf* gguf_ = nullptr;
  const SafeTensors* safetensors_ = nullptr;
  JsonObject json_;
  std::string type_;
};

}  // namespace ingot
