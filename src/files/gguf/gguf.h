// GGUF version 2 and 3, little-endian: a header, key-value metadata, tensor descriptions, tensor data.
// The reader checks everything against the file's size before it allocates or points anywhere; its errors begin with
// "[gguf] " and the file's name, and name the key or the tensor. It gives bytes and names and knows no meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap.h"
#include "base/seeded_hash.h"
#include "files/gguf/gguf_types.h"
#include "files/gguf/gguf_value.h"

namespace ingot {

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> dims;  // 1 to 4, each > 0; dims[0] is contiguous
  uint32_t type = 0;          // a known GgufTypeInfo with block > 0
  const std::byte* data = nullptr;
  size_t bytes = 0;
  int file_index = 0;  // the part of a split model
};

class Gguf {
 public:
  // Opens any part of a split model (split.count > 1, "-00001-of-00003.gguf") and with it all parts: the metadata is
  // the first part's, the tensors are those of all.
  static Gguf open(const std::string& path);
  // One file in memory; `bytes` must outlive the result. `name` stands for the file in errors.
  static Gguf parse(std::span<const std::byte> bytes, std::string_view name = "memory");

  uint32_t version() const { return version_; }
  const std::vector<GgufEntry>& metadata() const { return metadata_; }  // in the file's order
  const GgufValue* find(std::string_view key) const;                    // nullptr where absent
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // The value of `key`: without a fallback an absent key throws Error; a value of another type or out of range always
  // does. Any integer type is read as an integer of any width that holds it, and any number as a float.
  uint64_t get_u64(std::string_view key) const;
  uint64_t get_u64(std::string_view key, uint64_t fallback) const;
  int64_t get_i64(std::string_view key) const;
  int64_t get_i64(std::string_view key, int64_t fallback) const;
  float get_f32(std::string_view key) const;
  float get_f32(std::string_view key, float fallback) const;
  bool get_bool(std::string_view key) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::string get_string(std::string_view key) const;
  std::string get_string(std::string_view key, std::string_view fallback) const;

  // Arrays. An absent key throws Error: ask has() first.
  std::vector<uint64_t> get_u64_array(std::string_view key) const;
  std::vector<int64_t> get_i64_array(std::string_view key) const;
  std::vector<int32_t> get_i32_array(std::string_view key) const;
  std::vector<float> get_f32_array(std::string_view key) const;
  std::vector<bool> get_bool_array(std::string_view key) const;
  const std::vector<std::string_view>& get_string_array(std::string_view key) const;

  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the files' order
  const GgufTensor* find_tensor(std::string_view name) const;          // nullptr where absent

  const std::vector<MappedFile>& files() const { return files_; }  // empty after parse()
  const std::string& name() const { return name_; }                // of the first file, without its directory
  uint64_t data_offset() const { return data_offset_; }  // of the first file's tensor data: metadata lies before

 private:
  friend class GgufReader;
  static Gguf open_file(const std::string& path);
  static Gguf open_parts(Gguf given, const std::string& stem, uint64_t given_part, uint64_t count);
  void add_tensors(std::vector<GgufTensor> tensors, int file_index);
  const GgufValue& need(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const;
  template <class T>
  T number(std::string_view key, const GgufValue& value, uint64_t index) const;
  template <class T>
  T scalar(std::string_view key) const;
  template <class T>
  std::vector<T> array(std::string_view key) const;

  std::string name_;
  uint32_t version_ = 0;
  uint64_t data_offset_ = 0;
  std::vector<MappedFile> files_;
  std::vector<GgufEntry> metadata_;
  SeededViewMap<size_t> keys_;  // into metadata_
  std::vector<GgufTensor> tensors_;
  SeededMap<size_t> names_;  // into tensors_
};

}  // namespace ingot
