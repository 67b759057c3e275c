// What a model's files store, from their headers alone: the facts that inspect, ls and /v1/models tell.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ingot {

struct ModelFiles;

struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  std::string format;          // "q4_0"; what the file calls it where it is none of ours
  int64_t bytes = 0;
  int64_t parameters = 0;  // values of the model; 0 of scales that lie beside others
};

// "gguf" or "safetensors".
std::string container_name(const ModelFiles& files);

// In the order of the files.
std::vector<StoredTensor> stored_tensors(const ModelFiles& files);

// Bytes of each format, by its name.
using FormatBytes = std::map<std::string, int64_t>;
FormatBytes bytes_of_formats(const ModelFiles& files);

// The weights' format in a word: "q8_0", or "q4_k+q6_k" where several have a hundredth of the bytes or more, the
// largest first. Norms, which are float32 in most files, so do not count. Empty where there are no bytes.
std::string format_text(const FormatBytes& formats);

}  // namespace ingot
