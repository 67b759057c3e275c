// A model as a directory of safetensors holds it: names and shapes of tensors, configuration and small files, whatever
// files it comes from. Inside compress/ only.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/method.h"
#include "compress/model_tensors.h"
#include "files/json.h"
#include "weights/hparams.h"
#include "weights/model_files.h"

namespace ingot {

// A name and its content.
using SideFile = std::pair<std::string, std::string>;

struct DirectoryModel {
  ModelFiles files;
  const Architecture* arch = nullptr;  // by which methods know the tensors
  Hparams hp;                          // as the files say them
  JsonObject config;
  // In the names of the directory. Of a GGUF file's experts all of a layer's are one, with '*' for their number.
  std::vector<ModelTensor> tensors;
  ScaleType scales = ScaleType::kBF16;  // of matrices that are rounded: as the embedding is stored
  // Of a GGUF file: what becomes of tensors that are not rounded. Nothing: they stay as they are stored.
  std::optional<Format> kept;
  bool norms_less_one = false;     // of a GGUF file, which has 1 added
  std::vector<SideFile> made;      // of a GGUF file
  std::vector<std::string> notes;  // for people

  // Throws Error for what no directory can be made of.
  static DirectoryModel open(const std::string& path);
  // Calls `write` with each small file but config.json.
  void each_side_file(const std::function<void(const std::string& name, const std::string& content)>& write) const;
  // Of a GGUF file: throws Error naming the number where `config` says another. The header of the tensors lies in
  // `safetensors`.
  void check_numbers(const JsonObject& config, std::span<const std::byte> safetensors) const;
};

// The name of one expert's tensor; `name` itself where it has no '*'.
std::string expert_name(std::string name, int64_t expert);

// Fills in all but `files` of a GGUF file.
void read_gguf_as_directory(DirectoryModel& model);

}  // namespace ingot
