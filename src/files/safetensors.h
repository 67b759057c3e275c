// safetensors: a JSON header, then the tensors' bytes without a gap. One file, or shards with an index.
// The reader checks everything against the file's size first; its errors begin with "[safetensors] " and the file's
// name, and name the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap.h"
#include "base/seeded_hash.h"

namespace ingot {

struct SafeTensor {
  std::string name;
  std::string dtype;           // "F32", "BF16", "F8_E4M3" …: one of safetensors_dtype_bits
  std::vector<int64_t> shape;  // the last is contiguous; empty for a scalar; a 0 means no data
  const std::byte* data = nullptr;
  size_t bytes = 0;
  int file_index = 0;
};

// Bits of one value; 0 for an unknown dtype.
int safetensors_dtype_bits(std::string_view dtype);

class SafeTensors {
 public:
  // A .safetensors file, a .safetensors.index.json, or a directory that holds model.safetensors or
  // model.safetensors.index.json (or one single .safetensors file of another name).
  static SafeTensors open(const std::string& path);
  // The paths of the files that open(directory) reads, the index left out. Reads the index, where there is one.
  static std::vector<std::string> files_in(const std::string& directory);
  // One file in memory; `bytes` must outlive the result. `name` stands for the file in errors.
  static SafeTensors parse(std::span<const std::byte> bytes, std::string_view name = "memory");

  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // file by file, in the order of their data
  const SafeTensor* find(std::string_view name) const;                 // nullptr where absent
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // "__metadata__" of all files
  const std::vector<MappedFile>& files() const { return files_; }                   // empty after parse()

 private:
  void add_file(std::span<const std::byte> bytes, const std::string& name, int file_index);
  void open_file(const std::string& path);
  void open_shards(const std::string& index_path);
  static std::string only_file_in(const std::string& directory);

  std::vector<MappedFile> files_;
  std::vector<SafeTensor> tensors_;
  SeededMap<size_t> names_;  // into tensors_
  std::map<std::string, std::string> metadata_;
};

}  // namespace ingot
