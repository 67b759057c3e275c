// Writes GGUF version 3, little-endian, alignment 32.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"
#include "files/gguf/gguf.h"
#include "files/gguf/gguf_types.h"

namespace ingot {

template <class T>
concept GgufNumber = std::same_as<T, uint8_t> || std::same_as<T, int8_t> || std::same_as<T, uint16_t> ||
    std::same_as<T, int16_t> || std::same_as<T, uint32_t> || std::same_as<T, int32_t> || std::same_as<T, uint64_t> ||
    std::same_as<T, int64_t> || std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, bool>;

// Takes the pieces of a tensor's data in order.
using GgufSink = std::function<void(std::span<const std::byte>)>;
// Gives a tensor's data to the sink, in as many pieces as it likes; called once for each write.
using GgufProvider = std::function<void(const GgufSink&)>;

// A key or a tensor that is set twice, an empty name, a shape that is not whole blocks: Error "[gguf] …".
class GgufWriter {
 public:
  // The C++ type decides the type in the file: set("a", uint32_t{1}) writes u32.
  template <GgufNumber T>
  void set(std::string_view key, T value);
  void set(std::string_view key, std::string_view value);
  void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
  template <GgufNumber T>
  void set_array(std::string_view key, std::span<const T> values);
  void set_array(std::string_view key, const std::vector<std::string>& values);
  void set_array(std::string_view key, const std::vector<std::string_view>& values);
  // A value as a reader gave it.
  void set(std::string_view key, const GgufValue& value);

  // `data` must stay until write(). dims[0] is contiguous.
  void add_tensor(std::string name, std::vector<int64_t> dims, uint32_t type, std::span<const std::byte> data);
  void add_tensor(std::string name, std::vector<int64_t> dims, uint32_t type, GgufProvider provider);

  // A tensor whose data the caller writes itself, to tensor_offset(): write() and bytes() are not for such a file.
  void add_tensor(std::string name, std::vector<int64_t> dims, uint32_t type);

  // All that lies before the tensors' data.
  std::string header() const;
  // Where the data of tensor i begins, in the order in which they were added, behind a header of `header_bytes`.
  uint64_t tensor_offset(size_t i, uint64_t header_bytes) const { return header_bytes + tensors_[i].offset; }
  uint64_t tensor_bytes(size_t i) const { return tensors_[i].bytes; }
  uint64_t file_bytes(uint64_t header_bytes) const { return header_bytes + data_bytes_; }

  // Writes a temporary file beside `path` and renames it: `path` is the old file or the whole new one.
  // Throws Error when writing fails or a provider gives more or fewer bytes than its tensor has.
  void write(const std::string& path) const;
  // The same bytes in memory.
  std::vector<std::byte> bytes() const;

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> dims;
    uint32_t type;
    uint64_t bytes;
    uint64_t offset;  // in the data part
    GgufProvider provider;
  };

  void begin_value(std::string_view key, GgufKind kind);
  void begin_array(std::string_view key, GgufKind element, uint64_t count);
  void emit(const GgufSink& sink) const;

  std::string metadata_;  // encoded key-value pairs
  uint64_t n_keys_ = 0;
  SeededSet keys_;
  SeededSet names_;
  std::vector<Tensor> tensors_;
  uint64_t data_bytes_ = 0;  // of all tensors, each padded to the alignment
};

}  // namespace ingot
