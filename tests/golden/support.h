// What the golden tests share: where data lies, opening an engine, running tokens through it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/data_test_support.h"
#include "compress/scoring.h"
#include "engine/local_engine.h"
#include "files/json.h"
#include "models/model.h"

namespace ingot {

// Files that are committed with the tests.
inline std::string fixture(const std::string& name) { return committed_data(name); }

#define SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << (path)

// A checkpoint of an architecture: config.json, weights, and what the reference implementation makes of it.
inline std::string arch_directory(const std::string& name) {
  return std::filesystem::exists(fixture("arch/" + name)) ? fixture("arch/" + name) : test_data("arch/" + name);
}

// Whether the models of this build can be held against the checkpoint. One of tests/data always can; the larger set has
// others, too: architectures to come, and models that answer with something else than logits of text.
inline bool is_golden(const std::string& name) {
  if (std::filesystem::exists(fixture("arch/" + name))) return true;
  const std::string folder = arch_directory(name);
  if (!std::filesystem::exists(folder + "/config.json")) return false;
  const Json config = read_json_file(folder + "/config.json");
  const std::string type = get_string(as_object(config, "config"), "model_type", "");
  const bool known = std::ranges::any_of(
      architectures(), [&](const Architecture* arch) { return std::ranges::count(arch->hf_types, type) > 0; });
  if (!known) return false;
  // Layers that carry a state are to come.
  if (const JsonArray* types = find_array(as_object(config, "config"), "layer_types")) {
    if (std::ranges::any_of(*types, [](const Json& one) { return as_string(one, "layer_types") == "mamba"; }))
      return false;
  }
  const Json expected = read_json_file(folder + "/expected.json");
  const JsonObject& values = as_object(expected, "expected");
  return find(values, "logits_last") && find(values, "argmax") && !find(values, "pixel_values");
}

// Every checkpoint of tests/data/arch, and what else the larger set has. A new folder is a new test.
inline const std::vector<std::string>& arch_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = test_data_names("arch");
    std::erase_if(all, [](const std::string& name) { return !is_golden(name); });
    return all;
  }();
  return names;
}

struct RunSetup {
  int threads = 1;
  int step_rows = 256;
  int chunk_rows = 0;
  int max_seqs = 1;
  Kernels kernels = Kernels::kFast;
  std::set<std::string> fuse_off = {};
  bool keep_hidden = false;
  int context = 0;
  DType kv = DType::kF32;
  int64_t short_cols = kShortCols;  // 0: every weight in panels, however short its rows
  EngineDevice device = {};
};

struct TestEngine {
  std::unique_ptr<Model> model;
  std::unique_ptr<LocalEngine> engine;

  explicit TestEngine(const std::string& path, const RunSetup& s = {})
      : model(std::make_unique<Model>(Model::load(
            path, {.context = s.context, .keep_hidden = s.keep_hidden, .kv = s.kv, .fuse_off = s.fuse_off}))),
        engine(std::make_unique<LocalEngine>(*model, EngineConfig{.threads = s.threads,
                                                                  .max_seqs = s.max_seqs,
                                                                  .step_rows = s.step_rows,
                                                                  .chunk_rows = s.chunk_rows,
                                                                  .kernels = s.kernels,
                                                                  .short_cols = s.short_cols,
                                                                  .device = s.device})) {}
};

// The logits of every position.
inline std::vector<std::vector<float>> all_logits(LocalEngine& engine, const std::vector<int32_t>& tokens) {
  std::vector<std::vector<float>> rows;
  Request request;
  request.prompt = tokens;
  request.max_tokens = 0;
  request.on_logits = [&](int, std::span<const float> logits) { rows.emplace_back(logits.begin(), logits.end()); };
  EXPECT_EQ(engine.submit(std::move(request)).refused, "");
  while (!engine.idle()) engine.step();
  return rows;
}

inline std::vector<int32_t> int_list(const JsonObject& object, const char* key) {
  std::vector<int32_t> result;
  for (const Json& v : *find_array(object, key)) result.push_back(static_cast<int32_t>(as_int(v, key)));
  return result;
}

inline std::vector<float> float_list(const JsonArray& array) {
  std::vector<float> result;
  for (const Json& v : array) result.push_back(static_cast<float>(as_float(v, "list")));
  return result;
}

// Mean squared difference over mean square.
inline double nmse(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    error += d * d;
    norm += static_cast<double>(want[i]) * want[i];
  }
  return error / norm;
}

}  // namespace ingot
