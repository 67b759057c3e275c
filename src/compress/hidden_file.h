// The hidden states of all rows of a calibration between two layers, in a private file: 2 bytes for a value, a factor
// for each row. Chunks go from a layer to the next one after another; the file has room for one more, so that a chunk
// is never written over one that is still needed, and a run that was killed goes on with the same command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/thread_pool.h"

namespace ingot {

class HiddenFile {
 public:
  // `chunks` chunks of `rows` rows of `width` values. Goes on with the file at `path` where it was made under the same
  // `key` (what the states depend on) and shape, else begins anew. Throws Error "[file] …".
  HiddenFile(const std::string& path, std::string_view key, int64_t chunks, int64_t rows, int64_t width);
  ~HiddenFile();
  HiddenFile(const HiddenFile&) = delete;
  HiddenFile& operator=(const HiddenFile&) = delete;

  int64_t chunks() const { return chunks_; }
  // Chunks before next_chunk() stand behind layer(), the others before it. Layer -1 is the embedding.
  int layer() const;
  int64_t next_chunk() const;

  // The states of a chunk as it stands.
  void load(int64_t chunk, float* hidden, ThreadPool& pool) const;
  // next_chunk() has passed layer(). Throws Error where a value is not finite.
  void advance(const float* hidden, ThreadPool& pool);

  // Takes the file away, at the end of all work.
  void remove();

 private:
  struct Header;
  std::byte* slot(int64_t layer, int64_t chunk) const;
  int64_t row_bytes() const { return 2 * width_ + static_cast<int64_t>(sizeof(float)); }

  const std::string path_;
  const int64_t chunks_, rows_, width_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace ingot
