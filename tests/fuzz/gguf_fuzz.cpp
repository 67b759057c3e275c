// Fuzz target: the GGUF reader and its getters. An input that says it is part of a split model is opened from a file
// too, beside a second part that is always the same.
// coverage: src/files/gguf/gguf.cpp src/files/gguf/gguf_open.cpp src/files/gguf/gguf_reader.cpp
// src/files/gguf/gguf_value.cpp
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>

#include "base/error.h"
#include "files/gguf/gguf.h"
#include "files/gguf/gguf_writer.h"

namespace {

using ingot::Error;
using ingot::Gguf;

template <class F>
void attempt(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

uint64_t walk(const Gguf& gguf) {
  uint64_t sum = gguf.version();
  for (const ingot::GgufEntry& entry : gguf.metadata()) {
    sum += entry.value.text().size() + entry.value.type_name().size();
    attempt([&] { sum += gguf.get_u64(entry.key, 0); });
    attempt([&] { sum += static_cast<uint64_t>(gguf.get_i64(entry.key, 0)); });
    attempt([&] { sum += gguf.get_f32(entry.key, 0) > 0 ? 1 : 0; });
    attempt([&] { sum += gguf.get_bool(entry.key, false) ? 1 : 0; });
    attempt([&] { sum += gguf.get_string(entry.key, "").size(); });
    attempt([&] { sum += gguf.get_u64_array(entry.key).size(); });
    attempt([&] { sum += gguf.get_i32_array(entry.key).size(); });
    attempt([&] { sum += gguf.get_i64_array(entry.key).size(); });
    attempt([&] { sum += gguf.get_f32_array(entry.key).size(); });
    attempt([&] { sum += gguf.get_bool_array(entry.key).size(); });
    attempt([&] {
      for (const std::string_view text : gguf.get_string_array(entry.key)) sum += text.empty() ? 0 : text.back() & 1;
    });
  }
  for (const ingot::GgufTensor& tensor : gguf.tensors()) {
    if (gguf.find_tensor(tensor.name) != &tensor) std::abort();
    for (size_t i = 0; i < tensor.bytes; i++) sum += std::to_integer<uint64_t>(tensor.data[i]);
  }
  return sum;
}

// A temporary directory, made once and removed at the end.
struct Directory {
  std::string path;
  Directory() {
    char pattern[] = "/tmp/ingot_gguf_fuzz_XXXXXX";
    path = ::mkdtemp(pattern);
    ingot::GgufWriter second;
    second.set("split.no", uint16_t{1});
    second.set("split.count", uint16_t{2});
    second.write(path + "/m-00002-of-00002.gguf");
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  bool split = false;
  attempt([&] {
    const Gguf gguf = Gguf::parse(bytes);
    walk(gguf);
    split = gguf.has("split.count");
  });
  if (split) {
    const std::string path = directory() + "/m-00001-of-00002.gguf";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    attempt([&] { walk(Gguf::open(path)); });
  }
  return 0;
}
