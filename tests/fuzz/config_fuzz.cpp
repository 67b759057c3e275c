// Fuzz target: the configurations of a model. An input is a JSON object that is read as config.json, as
// generation_config.json, and as tokenizer_config.json with the files that may lie beside it. What is accepted must be
// numbers that later sizes can be made of. coverage: src/weights/config.cpp src/weights/hparams.cpp
// src/weights/rope_scaling.cpp src/app/model_sampling.cpp
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "app/model_sampling.h"
#include "base/error.h"
#include "text/load/tokenizer_load.h"
#include "text/prompt.h"
#include "weights/config.h"
#include "weights/hparams.h"

namespace {

using ingot::Error;

template <class F>
void attempt(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

void require(bool holds) {
  if (!holds) std::abort();
}

// A folder in which one file goes by all the names of a tokenizer's configuration.
std::string make_folder() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("ingot_config_fuzz_{}", getpid());
  fs::create_directories(folder);
  for (const char* name : {"special_tokens_map.json", "generation_config.json", "chat_template.json"}) {
    std::error_code there;
    fs::create_symlink("tokenizer_config.json", folder / name, there);
  }
  return folder.string();
}

void check(const ingot::RopeSpec& rope, int context) {
  require(rope.rotary_dim() >= 2 && rope.rotary_dim() <= rope.head_dim);
  const ingot::RopeFrequencies frequencies = ingot::rope_frequencies(rope, context);
  require(frequencies.inv_freq.size() == static_cast<size_t>(rope.rotary_dim() / 2));
}

void read_model(const ingot::ModelFiles& files) {
  const ingot::Config config(files);
  const ingot::Hparams hp = ingot::read_hparams(config);
  for (const int size : {hp.layers, hp.hidden, hp.heads, hp.kv_heads, hp.head_dim, hp.ffn, hp.context}) {
    require(size > 0 && size <= 1 << 30);
  }
  require(hp.vocab >= 0 && std::isfinite(hp.eps));
  require(hp.sliding.size() == static_cast<size_t>(hp.layers) && hp.uses_rope.size() == hp.sliding.size());
  check(hp.rope, hp.context);
  check(hp.rope_local, hp.context);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string folder = make_folder();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::ofstream(folder + "/tokenizer_config.json", std::ios::binary) << text;
  attempt([&] { ingot::read_tokenizer_config(folder); });
  attempt([&] { ingot::template_in(folder); });

  attempt([&] {
    static constexpr std::string_view kNothing("\2\0\0\0\0\0\0\0{}", 10);
    const ingot::Json json = ingot::parse_json(text, "fuzz", {.allow_nonfinite = true});
    ingot::ModelFiles files;
    files.safetensors = std::make_unique<ingot::SafeTensors>(
        ingot::SafeTensors::parse(std::as_bytes(std::span(kNothing.data(), kNothing.size()))));
    files.config = files.generation_config = ingot::as_object(json, "fuzz");
    const ingot::SamplingParams sampling = ingot::model_sampling(files);
    for (const ingot::SamplingNumber& n : ingot::kSamplingNumbers) require(n.in_range(n.of(sampling)));
    read_model(files);
  });
  return 0;
}
