// Where tensors lie in safetensors files that are to be written: one file, or shards with an index.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ingot {

struct SafeTensorSpec {
  std::string name;
  std::string dtype;  // one of safetensors_dtype_bits
  std::vector<int64_t> shape;
};

struct SafeTensorPlace {
  size_t file = 0;
  uint64_t offset = 0, bytes = 0;  // of the file
};

struct SafeTensorsLayout {
  struct File {
    std::string name;    // "model.safetensors", "model-00001-of-00003.safetensors"
    std::string header;  // all that lies before the data
    uint64_t bytes = 0;
  };
  std::vector<File> files;
  std::vector<SafeTensorPlace> places;  // of each tensor
  std::string index;                    // model.safetensors.index.json; empty for one file
};

// Shards of at most `shard_bytes` of data, in the order given but that a file's tensors lie by the size of their
// values, largest first, so that each is aligned. Throws Error for a dtype that is not known, and for a name twice.
SafeTensorsLayout lay_out_safetensors(const std::vector<SafeTensorSpec>& tensors,
                                      const std::map<std::string, std::string>& metadata,
                                      uint64_t shard_bytes = uint64_t{5} * 1000 * 1000 * 1000);

}  // namespace ingot
