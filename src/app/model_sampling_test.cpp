#include "app/model_sampling.h"

#include <gtest/gtest.h>

#include "weights/model_files.h"

namespace ingot {
namespace {

SamplingParams of_config(const char* text) {
  ModelFiles files;
  files.generation_config = as_object(parse_json(text, "test"), "test");
  return model_sampling(files);
}

TEST(ModelSampling, GenerationConfig) {
  const SamplingParams silent = of_config(R"({"eos_token_id": 2})");
  EXPECT_EQ(silent.temperature, 0.7f);
  EXPECT_EQ(silent.top_k, 40);
  EXPECT_EQ(silent.top_p, 0.9f);
  const SamplingParams spoken = of_config(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.95})");
  EXPECT_EQ(spoken.temperature, 0.6f);
  EXPECT_EQ(spoken.top_p, 0.95f);
  EXPECT_EQ(spoken.top_k, 50);
  EXPECT_EQ(of_config(R"({"do_sample": false, "temperature": 0.6})").temperature, 0);
  EXPECT_EQ(of_config(R"({"temperature": -1, "top_p": null, "top_k": "many"})").temperature, 1);
}

}  // namespace
}  // namespace ingot
