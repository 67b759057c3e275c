// The matrices of one layer as a method encoded them: the layer is run with them before the next one is compressed. It
// can be kept in a file, from which a run that was killed meanwhile goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/method.h"

namespace ingot {

class EncodedLayer {
 public:
  struct Matrix {
    Format format = Format::kF32;
    int64_t rows = 0, cols = 0;
    std::vector<std::byte> bytes;
  };

  // Rows of a matrix, as round() has made them. Any thread.
  void add(const TensorJob& job, std::span<const std::byte> encoded);
  // Null where there is none.
  const Matrix* find(const std::string& tensor, int expert) const;
  void clear() { matrices_.clear(); }

  void save(const std::string& path) const;
  // What save() wrote. Throws Error where it is something else.
  void load(const std::string& path);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, Matrix> matrices_;
};

}  // namespace ingot
