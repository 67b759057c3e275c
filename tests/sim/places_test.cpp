// What a tenant that has all the places it may have keeps from the others while more of its requests wait: nothing.
#include <gtest/gtest.h>

#include "sim/scarce_load.h"

namespace ingot::sim {
namespace {

constexpr int kManyPages = 4000;

// Eight long answers of a tenant that has more to send, and after a second of them another with four places to take.
struct EightAnswers {
  FairLoad load{kScarceConfig, kManyPages, 1};
  const FairTenant other = one_size("other", 1000, 10);

  EightAnswers() {
    load.tenants = {one_size("many", 400, 12'000, 9)};
    load.run(1);
  }
};

// Rows of prompts are dealt to who can begin: not to one that has all places for a prompt that gets none.
TEST(Places, WhoGetsNoPlaceKeepsNoRowsFromOthers) {
  EightAnswers run;
  double longest = 0;
  for (int i = 0; i < 6; ++i) {
    longest = std::max(longest, first_token(run.load, run.other));
    for (int step = 0; step < 11; ++step) run.load.step();
  }
  std::printf("six requests beside eight answers: at most %.3f s, alone %.3f s\n", longest, alone(run.other));
  // Before it takes a place again it waits for four times the rows that the last has cost.
  EXPECT_LE(longest, 2 * 1.2 * alone(run.other) / 0.5);
}

// Nor does a tenant that decodes take each place that another leaves which has none of its own.
TEST(Places, WhoHasFewPlacesReadsAtOnce) {
  EightAnswers run;
  run.load.tenants.push_back(run.other);
  run.load.run(3);
  const int64_t read = run.load.tokens["other"] / 1000;
  std::printf("one request after another: %ld in three seconds\n", static_cast<long>(read));
  EXPECT_GE(static_cast<double>(read), 0.8 * 3 / (alone(run.other) + 10 * run.load.model.step_seconds));
}

// Nor is it owed rows for the time in which only places kept it out.
TEST(Places, WhoWaitsForAPlaceSavesNothingUp) {
  FairLoad load(kScarceConfig, kManyPages, 1);
  load.tenants = {one_size("answers", 5, 16'000, 12), one_size("prompts", 1000, 5, 6)};
  load.run(20);
  FairTenant large = one_size("answers", 3000, 5);
  large.priority = 100;
  for (int i = 0; i < 40; ++i) load.submit(large);
  const int64_t rows = load.model.rows, tokens = load.tokens["prompts"];
  load.run(2);
  const double part =
      static_cast<double>(load.tokens["prompts"] - tokens) / static_cast<double>(load.model.rows - rows);
  std::printf("of the rows of two seconds %.2f\n", part);
  EXPECT_GE(part, 0.45);
}

// Nor for the time in which its own answer kept its next prompt out.
TEST(Places, WhoIsInItsOwnWaySavesNothingUp) {
  EngineConfig config = kScarceConfig;
  config.max_seqs = 16;
  FairLoad load(config, kScarcePages, 1);
  const FairTenant other = one_size("other", 900, 5);
  for (int i = 0; i < 7; ++i) load.submit(one_size("other", 5, 3000));
  load.submit(one_size("own", 20, 1000));
  load.run(0.1);
  const SeqId large = load.submit(one_size("own", 15'900, 5));
  while (load.tokens["own"] < 1020) load.step();
  load.cancel(large);
  for (int i = 0; i < 2; ++i) load.submit(one_size("own", 3'000, 5));
  const double waited = first_token(load, other);
  std::printf("behind what was saved up %.3f s, alone %.3f s\n", waited, alone(other));
  EXPECT_LE(waited, 2 * 1.2 * alone(other) / 0.5);
}

}  // namespace
}  // namespace ingot::sim
