// The keys of one architecture in a GGUF file: "<arch>.<name>".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/gguf/gguf_writer.h"

namespace ingot {

class GgufKeys {
 public:
  // `writer` must outlive it.
  GgufKeys(GgufWriter& writer, const std::string& arch) : writer_(writer), prefix_(arch + ".") {}
  void u32(const char* name, int value) { writer_.set(prefix_ + name, static_cast<uint32_t>(value)); }
  void f32(const char* name, double value) { writer_.set(prefix_ + name, static_cast<float>(value)); }
  void text(const char* name, const char* value) { writer_.set(prefix_ + name, value); }
  void flag(const char* name, bool value) { writer_.set(prefix_ + name, value); }
  // One number for each layer.
  void list(const char* name, const std::vector<uint32_t>& values) {
    writer_.set_array(prefix_ + name, std::span<const uint32_t>(values));
  }

 private:
  GgufWriter& writer_;
  const std::string prefix_;
};

}  // namespace ingot
