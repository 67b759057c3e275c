#include "cli/bench/old_spellings.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace ingot {
namespace {

using Args = std::vector<std::string>;

// What becomes of the arguments, and what is said on stderr.
std::pair<Args, std::string> modern(Args args) {
  CLI::App app;
  const CommandBody body = kBenchCommand.setup(app);
  testing::internal::CaptureStderr();
  modernize_bench(app, args);
  return {args, testing::internal::GetCapturedStderr()};
}

TEST(OldSpellings, ATraceIsASubcommand) {
  const auto [args, said] = modern({"--shape", "tiny", "--trace", "t.csv", "--threads", "1", "--json"});
  EXPECT_EQ(args, (Args{"trace", "t.csv", "--shape", "tiny", "--threads", "1", "--json"}));
  EXPECT_EQ(said, "ingot: bench --trace FILE is now bench trace FILE; the old form goes with the next release\n");
  EXPECT_EQ(modern({"--trace=t.csv", "m.gguf"}).first, (Args{"trace", "t.csv", "m.gguf"}));
  EXPECT_EQ(modern({"--gap-ms", "50", "--trace", "ops"}).first, (Args{"trace", "ops", "--gap-ms", "50"}));
}

TEST(OldSpellings, OptionsStandBehindOps) {
  const auto [args, said] = modern({"--threads", "1", "--json", "ops", "rope"});
  EXPECT_EQ(args, (Args{"ops", "--threads", "1", "--json", "rope"}));
  EXPECT_NE(said.find("bench ops OPTIONS"), std::string::npos);
}

TEST(OldSpellings, TodaysStayAsTheyAre) {
  for (const Args& args :
       {Args{}, Args{"--batch", "1,4"}, Args{"ops", "linear", "--json"}, Args{"trace", "t.csv", "--json"},
        Args{"serve", "http://x", "--trace", "t.csv"}, Args{"--trace"}, Args{"--save", "ops", "--shape", "tiny"}}) {
    const auto [now, said] = modern(args);
    EXPECT_EQ(now, args);
    EXPECT_EQ(said, "");
  }
}

}  // namespace
}  // namespace ingot
