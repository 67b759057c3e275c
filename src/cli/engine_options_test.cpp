#include "cli/engine_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/command.h"

namespace ingot {
namespace {

using Words = std::vector<std::string>;

// What the parser says of the words; empty: it takes them. Nothing is run.
std::string refusal(const Command& command, Words words) {
  CLI::App app;
  const CommandBody body = command.setup(app);
  std::ranges::reverse(words);  // as CLI::App wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

struct Use {
  const Command* command;
  Words words;  // that the command needs beside the option
};

std::string refusal(const Use& use, const std::string& option, const std::string& value) {
  Words words = use.words;
  words.insert(words.end(), {option, value});
  return refusal(*use.command, std::move(words));
}

// All of these commands take the option with the first values and refuse each of the others with one and the same line.
void expect_alike(const std::vector<Use>& uses, const std::string& option, const Words& good, const Words& bad) {
  for (const Use& use : uses) {
    SCOPED_TRACE(std::string(use.command->name) + (use.words.empty() ? "" : " " + use.words[0]));
    for (const std::string& value : good) EXPECT_EQ(refusal(use, option, value), "") << value;
    for (const std::string& value : bad) {
      // What stands before the colon is the option, and nothing where the help hides it.
      const auto reason = [](const std::string& line) { return line.substr(std::min(line.find(": "), line.size())); };
      const std::string said = refusal(use, option, value);
      EXPECT_GT(reason(said).size(), 2u) << value << ": " << said;
      EXPECT_EQ(reason(said), reason(refusal(uses[0], option, value)));
    }
  }
}

const Use kRun{&kRunCommand, {"hello"}};
const Use kChat{&kChatCommand, {}};
const Use kServe{&kServeCommand, {}};
const Use kLogits{&kEvalCommand, {"logits", "--ids", "1"}};
const Use kPpl{&kEvalCommand, {"ppl", "--text", "x"}};
const Use kTask{&kEvalCommand, {"task", "--task", "piqa", "--data", "x"}};
const Use kBench{&kBenchCommand, {}};
const Use kOps{&kBenchCommand, {"ops"}};
const Use kTrace{&kBenchCommand, {"trace", "x"}};

TEST(EngineOptions, MeanTheSameInEveryCommand) {
  expect_alike({kRun, kChat, kServe, kLogits, kPpl, kBench, kTrace}, "--kv",
               {"f32", "f16", "bf16", "fp8", "int8", "q8_0"}, {"", "F16", "q4_0", "f16,f32"});
  const std::vector<Use> computing = {kRun, kChat, kServe, kLogits, kPpl, kTask, kBench, kOps, kTrace};
  expect_alike(computing, "--threads", {"1", "1024"}, {"0", "-1", "1025", "1.5", "x"});
  expect_alike(computing, "--device", {"cpu", "cuda", "cuda:1"}, {"", "tpu", "cuda:", "cuda:x"});
  expect_alike({kRun, kChat, kServe}, "--ctx", {"1", "4096"}, {"0", "-1", "x", "2147483648"});
  expect_alike({kRun, kChat, kServe, kLogits}, "--no-fuse", {"all", "a,b"}, {});
  expect_alike({kServe, kTrace}, "--gap-ms", {"0", "0.5", "1e6"}, {"-1", "nan", "1e7", "x"});
  expect_alike({kServe, kTrace}, "--ttft-target", {"0", "0.5", "1e9"}, {"-1", "nan", "1e10", "x"});
  expect_alike({kServe, kTrace}, "--kv-memory", {"1", "512M", "1G"}, {"0", "much", "99999999999G"});
  expect_alike({kServe, kBench, kTrace}, "--step-rows", {"1", "65536"}, {"0", "65537", "x"});
}

TEST(EngineOptions, RefusalsNameWhatWouldDo) {
  EXPECT_EQ(refusal(kPpl, "--kv", "q2"), "--kv: q2 not in {f32,f16,bf16,fp8,int8,q8_0}");
  EXPECT_EQ(refusal(kRun, "--threads", "0"), "--threads: '0' is not a whole number from 1 to 1024");
  EXPECT_EQ(refusal(kTrace, "--page-rows", "17"), "--page-rows: must be a multiple of 16");
}

OpenOptions parse(const std::string& line, const std::vector<const char*>& names) {
  OpenOptions options;
  CLI::App app;
  for (const char* name : names) add_engine_option(app, name, options);
  app.parse(line);
  return options;
}

TEST(EngineOptions, WriteWhatTheEngineIsOpenedWith) {
  OpenOptions o = parse("--threads 3 --device cuda:2 --batch-invariant --fp8-rows --ref --verify m.json",
                        {"--threads", "--device", "--batch-invariant", "--fp8-rows", "--ref", "--verify"});
  EXPECT_EQ(o.engine.threads, 3);
  EXPECT_EQ(o.device, "cuda:2");
  EXPECT_TRUE(o.engine.device.batch_invariant);
  EXPECT_TRUE(o.engine.device.f8_rows);
  EXPECT_TRUE(o.ref);
  EXPECT_EQ(o.verify, "m.json");
  o = parse("--ctx 99 --kv q8_0 --no-fuse a,,b", {"--ctx", "--kv", "--no-fuse"});
  EXPECT_EQ(o.model.context, 99);
  EXPECT_EQ(o.kv, "q8_0");
  EXPECT_EQ(o.model.fuse_off, (std::set<std::string>{"a", "b"}));
  o = parse("--seqs 5 --max-waiting 6 --step-rows 7 --gap-ms 1.5 --kv-memory 2K --page-rows 32",
            {"--seqs", "--max-waiting", "--step-rows", "--gap-ms", "--kv-memory", "--page-rows"});
  EXPECT_EQ(o.engine.max_seqs, 5);
  EXPECT_EQ(o.engine.max_waiting, 6);
  EXPECT_EQ(o.engine.step_rows, 7);
  EXPECT_EQ(o.engine.gap_ms, 1.5);
  EXPECT_EQ(o.engine.kv_bytes, 2048);
  EXPECT_EQ(o.engine.page_rows, 32);
  o = parse("--parallel 8 --max-queue 0", {"--parallel", "--max-queue"});
  EXPECT_EQ(o.engine.max_seqs, 8);
  EXPECT_EQ(o.engine.max_waiting, 0);
}

TEST(EngineOptions, ChangeNothingThatWasNotGiven) {
  const OpenOptions o = parse("", {"--threads", "--device", "--kv", "--no-fuse", "--gap-ms", "--kv-memory"});
  EXPECT_EQ(o.engine.threads, 0);
  EXPECT_EQ(o.device, "");
  EXPECT_EQ(o.kv, "");
  EXPECT_TRUE(o.model.fuse_off.empty());
  EXPECT_EQ(o.engine.gap_ms, 0);
  EXPECT_EQ(o.engine.kv_bytes, 0);
}

}  // namespace
}  // namespace ingot
