// The core with a scripted model: what it reports of a request beside the tokens, and the end of single choices.
#include "sim/core_fixture.h"

namespace ingot::sim {
namespace {

// A step takes a millisecond of this clock.
TEST(Core, TheFirstEventSaysHowLongItWaited) {
  Fixture f([](Fixture& x) { x.config.max_seqs = 1; });
  const SeqId first = f.submit(f.request(tokens_of(0, 4), 10)), second = f.submit(f.request(tokens_of(1, 4), 3));
  f.run();
  EXPECT_EQ(f.queued[first], 0);
  EXPECT_NEAR(f.queued[second], 0.010, 1e-9);
  f.now_ns = 5'000'000'000;
  const SeqId late = f.core->submit(f.request(tokens_of(2, 4), 1), -1, 2'000'000'000).id;  // it came 3 s ago
  f.run();
  EXPECT_NEAR(f.queued[late], 3, 1e-9);
}

TEST(Core, OneChoiceEndsAndTheOthersGoOn) {
  for (const int gone : {0, 1, 2}) {
    for (const int steps : {0, 1, 6}) {
      Fixture f;
      Request r = f.request(tokens_of(5, 9), 12);
      r.choices = 3;
      const SeqId id = f.submit(r);
      for (int i = 0; i < steps; ++i) f.step();
      EXPECT_TRUE(f.core->cancel(id, gone));
      EXPECT_FALSE(f.core->cancel(id, gone));
      EXPECT_FALSE(f.core->cancel(id, 3));
      f.run();
      for (const int c : {0, 1, 2}) {
        if (c == gone) continue;
        EXPECT_EQ(f.made[id][c], f.expected(r, c)) << gone << " after " << steps;
      }
      EXPECT_LE(f.made[id][gone].size(), static_cast<size_t>(steps));
      EXPECT_EQ(f.core->stats().stopped, 1);
    }
  }
}

// Every row is reported once and in order, though chunks, the cache and preemption compute some twice or never.
TEST(Core, HiddenStatesAreReportedOnceForEachPosition) {
  Fixture f([](Fixture& x) {
    x.options.has_hidden = true;
    x.config.chunk_rows = 7;
    x.shape.groups[0].pages = 24;
  });
  std::map<int, std::vector<int>> seen;
  for (int i = 0; i < 6; ++i) {
    Request r = f.request(tokens_of(3, 30), i % 2 ? 0 : 40);
    r.on_hidden = [&seen, i](int position, std::span<const float>) { seen[i].push_back(position); };
    r.hidden_from = i < 4 ? 0 : 21;
    f.submit(r);
  }
  f.run();
  for (int i = 0; i < 6; ++i) {
    std::vector<int> all;
    // The last token that is made has no row.
    for (int p = i < 4 ? 0 : 21; p < 30 + (i % 2 ? 0 : 39); ++p) all.push_back(p);
    EXPECT_EQ(seen[i], all) << i;
  }
  EXPECT_GT(f.core->stats().preempted, 0);
}

}  // namespace
}  // namespace ingot::sim
