// Helpers of this folder's tests: temporary directories, small files byte by byte, a count of allocations.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/data_test_support.h"
#include "base/error.h"
#include "files/gguf/gguf.h"
#include "files/safetensors.h"

namespace ingot {

// Bytes that this thread asked operator new for since start() (defined in allocation_probe_test.cpp).
struct AllocationProbe {
  static void start();
  static size_t total();
};

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// The message of the Error that f throws; "" when it throws none.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

class TempDir {
 public:
  TempDir() {
    std::string pattern = testing::TempDir() + "ingot_files_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }
  std::string write(std::string_view name, std::string_view text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }

 private:
  std::string path_;
};

// Every file of the test data whose name ends so.
inline std::vector<std::string> data_files(const std::string& extension) {
  std::vector<std::string> files;
  for (const std::string& folder : data_folders()) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == extension) files.push_back(entry.path().string());
    }
  }
  return files;
}

// A GGUF file written field by field, apart from GgufWriter, that remembers where each field lies.
struct Field {
  std::string name;
  size_t offset;
  size_t width;
  bool payload;  // a value that any bits may stand in
};

class GgufBytes {
 public:
  std::string bytes;
  std::vector<Field> fields;
  std::vector<std::pair<size_t, size_t>> data;  // [begin, end) of each tensor, in the order of the names t0, t1 …

  template <class T>
  void number(std::string name, T value, bool payload = false) {
    fields.push_back({std::move(name), bytes.size(), sizeof(T), payload});
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void string(const std::string& name, std::string_view text) {
    number(fmt::format("{} length", name), uint64_t{text.size()});
    bytes += text;
  }
  void key(const std::string& name, GgufKind kind) {
    string(fmt::format("key {}", name), name);
    number(fmt::format("type of {}", name), static_cast<uint32_t>(kind));
  }
};

// About 4 KiB: every kind of value, arrays, a vocabulary, four tensors t0 … t3 of several types, without padding at
// the end.
GgufBytes small_gguf();

// Reads every value and every byte that the file gives; the sum is of no use but that nothing is optimised away.
uint64_t walk(const Gguf& gguf);
uint64_t walk(const SafeTensors& tensors);

// A safetensors file from its header's text and as many zero bytes of data.
std::string safetensors_bytes(std::string_view header, size_t data_bytes);

}  // namespace ingot
