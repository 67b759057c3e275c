#include "app/expert_use_file.h"

#include <gtest/gtest.h>

#include <numeric>

#include "app/open_engine.h"
#include "base/data_test_support.h"
#include "base/error.h"
#include "files/files_test_support.h"

namespace ingot {
namespace {

std::string refusal(const std::string& path) {
  try {
    read_expert_uses(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(ExpertUseFile, IsWrittenByOneEngineAndReadByTheNext) {
  const TempDir directory;
  OpenOptions options{.device = "cpu", .model = {.context = 64}, .engine = {.threads = 2}};
  options.expert_use = directory / "uses.txt";
  constexpr int kRows = 9;
  const auto answer = [&] {
    const OpenEngine open = open_engine(committed_data("arch/qwen3-moe"), options);
    Request request;
    request.prompt.assign(kRows, 5);
    std::iota(request.prompt.begin(), request.prompt.end(), 3);
    request.max_tokens = 1;
    std::vector<int32_t> tokens;
    const Submission submission = open.engine->submit(std::move(request));
    while (const auto event = submission.stream->next()) tokens.push_back(event->sample.token);
    return tokens;
  };
  const std::vector<int32_t> one = answer();
  const auto uses = read_expert_uses(options.expert_use);
  ASSERT_GT(uses.size(), 1u);
  EXPECT_EQ(std::accumulate(uses[0].begin(), uses[0].end(), int64_t{0}), 3 * kRows);  // three experts for each row
  options.model.ep = 2;
  EXPECT_EQ(model_options(options).expert_uses, uses);
  EXPECT_EQ(answer(), one);
}

TEST(ExpertUseFile, WhatIsNoListIsRefused) {
  const TempDir directory;
  EXPECT_NE(refusal(directory / "none").find("cannot be read"), std::string::npos);
  directory.write("empty", "");
  EXPECT_NE(refusal(directory / "empty").find("is empty"), std::string::npos);
  for (const char* text : {"1 2\n3 x\n", "1 2\n-3 4\n", "1 2\n99999999999999999999\n", "1 2\n1  2\n", "1 2\n1\t2\n"}) {
    directory.write("bad", text);
    EXPECT_NE(refusal(directory / "bad").find("line 2 of"), std::string::npos) << text;
  }
}

TEST(ExpertUseFile, AServerDoesNotWriteIt) {
  OpenOptions options{.device = "cpu", .expert_use = "uses.txt", .routes = true};
  EXPECT_THROW(open_engine(committed_data("arch/qwen3-moe"), options), Error);
}

}  // namespace
}  // namespace ingot
