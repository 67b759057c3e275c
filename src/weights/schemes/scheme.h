// How other tools publish a compressed matrix: several stored tensors that together are one weight of ours. A scheme is
// one file of this folder; SchemeSource shows what it makes under the name that an uncompressed file would have.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.h"
#include "tensor/memory.h"
#include "weights/source.h"

namespace ingot {

class ThreadPool;

// The stored tensors of one module ("model.layers.0.mlp.up_proj"), by what follows its name (".qweight").
class Module {
 public:
  Module(std::string name, WeightSource& source, const JsonObject& settings)
      : name_(std::move(name)), source_(&source), settings_(&settings) {}

  const std::string& name() const { return name_; }
  const StoredWeight* find(std::string_view suffix) const;  // nullptr where absent
  // Throws Error naming the tensor where it is absent, has another dtype, or not as many dimensions.
  const StoredWeight& get(std::string_view suffix, std::string_view dtype, size_t dims) const;
  // A tensor of any float dtype as floats. Throws Error where it is none, or a value is not finite.
  std::vector<float> floats(std::string_view suffix) const;
  const JsonObject& settings() const { return *settings_; }  // quantization_config of config.json

 private:
  std::string name_;
  WeightSource* source_;
  const JsonObject* settings_;
};

// A module's weight in a format of ours.
struct Unpacked {
  Format format = Format::kF32;
  int64_t rows = 0, cols = 0;
  Memory data;
  const std::byte* stored = nullptr;  // in place of `data`, where the values lie in the file as they are wanted
  // Scales beside the data, [scales_down, scales_across], where the format has none of its own.
  std::vector<float> scales;
  int64_t scales_down = 0, scales_across = 0;
};

struct Scheme {
  const char* name;
  // What a module's tensors are called beside ".weight" and ".bias"; the first is what the scheme is known by.
  std::vector<std::string_view> parts;
  bool (*fits)(const Module& module);  // given that the first part is there
  // Throws Error where a part is missing, has another size than the others say, or holds what cannot be.
  Unpacked (*unpack)(const Module& module, ThreadPool& threads);
};

// In the order in which they are asked.
const std::vector<const Scheme*>& schemes();

extern const Scheme scheme_gptq, scheme_awq, scheme_packed_ints, scheme_packed_floats, scheme_ints, scheme_mxfp8,
    scheme_modelopt_nvfp4, scheme_bitsandbytes_4bit, scheme_bitsandbytes_int8, scheme_torchao_int8;

// The methods of quantization_config that are read.
bool scheme_method_known(std::string_view method);

// `source`, with each module that a scheme fits shown as its ".weight", which is made when it is first asked for.
// Throws Error for a tensor that is neither a weight nor part of one. `settings` is copied.
std::unique_ptr<WeightSource> with_schemes(std::unique_ptr<WeightSource> source, const JsonObject& settings);

}  // namespace ingot
