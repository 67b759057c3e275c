// Fuzz target: the safetensors reader. An input that begins with '{' is the index of a sharded model instead, in a
// directory with two shards that are always the same.
// coverage: src/files/safetensors.cpp src/files/safetensors_open.cpp
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "files/safetensors.h"

namespace {

using ingot::SafeTensors;

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A temporary directory, made once and removed at the end.
struct Directory {
  std::string path;
  Directory() {
    char pattern[] = "/tmp/ingot_safetensors_fuzz_XXXXXX";
    path = ::mkdtemp(pattern);
    for (const char name : {'a', 'b'}) {
      std::string header = R"({"?":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
      header[2] = name;
      const uint64_t n = header.size();
      std::string bytes(reinterpret_cast<const char*>(&n), sizeof(n));
      write_file(path + "/" + name + ".safetensors", bytes + header + "xy");
    }
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

const std::string& directory() {
  static const Directory made;
  return made.path;
}

uint64_t walk(const SafeTensors& file) {
  uint64_t sum = file.metadata().size();
  for (const ingot::SafeTensor& tensor : file.tensors()) {
    if (file.find(tensor.name) != &tensor) std::abort();
    for (size_t i = 0; i < tensor.bytes; i++) sum += std::to_integer<uint64_t>(tensor.data[i]);
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    if (size > 0 && data[0] == '{') {
      write_file(directory() + "/model.safetensors.index.json", {reinterpret_cast<const char*>(data), size});
      walk(SafeTensors::open(directory()));
    } else {
      walk(SafeTensors::parse(std::as_bytes(std::span(data, size))));
    }
  } catch (const ingot::Error&) {
  }
  return 0;
}
