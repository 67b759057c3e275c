#include "engine/model/step_message.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "engine/model/step_message_test_support.h"

namespace ingot {
namespace {

constexpr StepLimits kLimits{.rows = 16, .seqs = 3, .logits = 4, .context = 100, .page_rows = 16};
const std::vector<PageGroup> kGroups{{.pages = 9}, {.pages = 5, .window = 2}};

// Three rows at the end of a seq of 20, and two at the start of another.
StepWork some_work() {
  StepWork work;
  work.batch = Batch(kLimits, 2);
  Batch& batch = work.batch;
  batch.n_rows = 5;
  batch.n_seqs = 2;
  const std::vector<int32_t> token{7, 8, 9, 1, 2}, position{17, 18, 19, 0, 1}, seq{0, 0, 0, 1, 1};
  std::ranges::copy(token, batch.token.begin());
  std::ranges::copy(position, batch.position.begin());
  std::ranges::copy(seq, batch.seq.begin());
  batch.q_start = {0, 3, 5, 0};
  batch.kv_len = {20, 2, 0};
  for (size_t g = 0; g < 2; ++g) {
    batch.groups[g].page_table[0] = g == 0 ? 3 : -1;  // a window has left it behind
    batch.groups[g].page_table[1] = 4;
    batch.groups[g].page_table[static_cast<size_t>(batch.pages_per_seq)] = 2;
    batch.groups[g].slot = {65, 66, 67, 32, 33};
    batch.groups[g].slot.resize(16);
  }
  work.copies = {{.group = 1, .from = 0, .to = 4}};
  return work;
}

TEST(StepMessage, WhatWasWrittenIsRead) {
  const StepWork work = some_work();
  StepMessage message;
  const std::vector<int32_t> logits{2, 4}, more{0};
  const int64_t step = (int64_t{5} << 31) + 77;
  message.write_step(work, kLimits, step, logits);
  EXPECT_LE(static_cast<int64_t>(message.bytes().size()), StepMessage::most_bytes(kLimits, 2));
  Batch got(kLimits, 2);
  const ReadStep read = read_step_message(message.bytes(), kLimits, kGroups, got);
  EXPECT_TRUE(read.body);
  EXPECT_FALSE(read.report);
  EXPECT_EQ(read.step, step);
  EXPECT_EQ(got.n_rows, 5);
  EXPECT_EQ(got.n_seqs, 2);
  EXPECT_EQ(got.n_logits, 2);
  EXPECT_EQ(got.token, work.batch.token);
  EXPECT_EQ(got.position, work.batch.position);
  EXPECT_EQ(got.seq, work.batch.seq);
  EXPECT_EQ(got.q_start, work.batch.q_start);
  EXPECT_EQ(got.kv_len, work.batch.kv_len);
  EXPECT_EQ(got.logit_row, (std::vector<int32_t>{2, 4, 0, 0}));
  for (size_t g = 0; g < 2; ++g) {
    EXPECT_EQ(got.groups[g].slot, work.batch.groups[g].slot);
    EXPECT_EQ(got.groups[g].page_table, work.batch.groups[g].page_table);
  }
  ASSERT_EQ(read.copies.size(), 1u);
  EXPECT_EQ(read.copies[0].group, 1);
  EXPECT_EQ(read.copies[0].to, 4);
  message.write_step(work, kLimits, step, logits, true);
  EXPECT_TRUE(read_step_message(message.bytes(), kLimits, kGroups, got).report);
  message.write_head(step, more);
  EXPECT_FALSE(read_step_message(message.bytes(), kLimits, kGroups, got).body);
  EXPECT_EQ(got.n_logits, 1);
  EXPECT_EQ(got.logit_row[0], 0);
}

// Of some_work() as `change` makes it; empty where it is read.
std::string refusal(const std::function<void(StepWork& work)>& change) {
  StepWork work = some_work();
  change(work);
  StepMessage message;
  message.write_step(work, kLimits, 1, {});
  Batch batch(kLimits, 2);
  try {
    read_step_message(message.bytes(), kLimits, kGroups, batch);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Each would make a kernel read or write where nothing is, though every word is within its range.
TEST(StepMessage, WhatCannotRunIsRefused) {
  EXPECT_EQ(refusal([](StepWork&) {}), "");
  const auto refused = [](const std::string& why, const std::function<void(StepWork & work)>& change) {
    EXPECT_NE(refusal(change).find(why), std::string::npos) << why << " is not why: " << refusal(change);
  };
  refused("row 2 of seq 1", [](StepWork& work) { work.batch.seq[2] = 1; });
  refused("row 3 of seq 0", [](StepWork& work) { work.batch.seq[3] = 0; });
  refused("row 1 of seq 0 at 17", [](StepWork& work) { work.batch.position[1] = 17; });
  refused("row 0 of seq 0 at 17, and its seq is 0, with 21 positions",
          [](StepWork& work) { work.batch.kv_len[0] = 21; });
  refused("no row of seq 0", [](StepWork& work) { work.batch.q_start = {0, 0, 5, 0}; });
  const auto all_of_one = [](StepWork& work) {
    for (size_t t = 0; t < 5; ++t) work.batch.position[t] = 15 + static_cast<int>(t), work.batch.seq[t] = 0;
  };
  refused("no row of seq 1", [&](StepWork& work) {
    all_of_one(work);
    work.batch.q_start = {0, 5, 5, 0};
  });
  refused("no row of seq 1", [&](StepWork& work) {
    all_of_one(work);
    work.batch.n_seqs = 3;
    work.batch.kv_len[2] = 1;
    work.batch.q_start = {0, 5, 3, 5};
  });
  refused("seqs that are not its rows", [](StepWork& work) { work.batch.q_start = {0, 3, 4, 0}; });
  refused("seqs that are not its rows", [](StepWork& work) { work.batch.q_start = {1, 3, 5, 0}; });
  // A page is missing: where nothing leaves it behind, and where a window still sees it.
  refused("pages -1", [](StepWork& work) { work.batch.groups[0].page_table[0] = -1; });
  refused("pages -1", [](StepWork& work) { work.batch.groups[1].page_table[1] = -1; });
  refused("pages -1", [](StepWork& work) {
    work.batch.position = {16, 17, 18, 0, 1};
    work.batch.position.resize(16);
    work.batch.kv_len[0] = 19;
    for (Batch::Group& group : work.batch.groups)
      for (int t = 0; t < 3; ++t) --group.slot[static_cast<size_t>(t)];
  });
  refused("slot 49 for row 0", [](StepWork& work) { work.batch.groups[0].slot[0] = 49; });
  refused("slot 66 for row 0", [](StepWork& work) { work.batch.groups[1].slot[0] = 66; });
  refused("page 3 copied to itself", [](StepWork& work) { work.copies = {{.group = 1, .from = 3, .to = 3}}; });
}

// Chunks of prompts, ends of seqs, windows of many lengths.
TEST(StepMessage, WhatAnEngineMightLaunchIsRead) {
  constexpr StepLimits kSmall{.rows = 24, .seqs = 3, .logits = 4, .context = 50, .page_rows = 4};
  test::Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::vector<PageGroup> groups{{.pages = 40}, {.pages = 50, .window = 1 + static_cast<int>(random.below(60))}};
    const std::vector<std::byte> message = test::random_message(random, kSmall, groups);
    EXPECT_LE(static_cast<int64_t>(message.size()), StepMessage::most_bytes(kSmall, 2));
    Batch batch(kSmall, 2);
    EXPECT_NO_THROW(read_step_message(message, kSmall, groups, batch));
  }
}

// Any word changed and any end cut off: refused, or within the limits.
TEST(StepMessage, DamagedOnesAreRefused) {
  StepMessage message;
  const std::vector<int32_t> logits{2, 4};
  message.write_step(some_work(), kLimits, 1, logits);
  const std::vector<std::byte> good(message.bytes().begin(), message.bytes().end());
  Batch batch(kLimits, 2);
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_THROW(read_step_message(std::span(good).first(n), kLimits, kGroups, batch), Error) << n;
  test::Random random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bad = good;
    for (int64_t n = 1 + random.below(3); n > 0; --n)
      bad[static_cast<size_t>(random.below(static_cast<int64_t>(bad.size())))] = static_cast<std::byte>(random.bits());
    Batch into(kLimits, 2);
    try {
      read_step_message(bad, kLimits, kGroups, into);
      ASSERT_TRUE(into.n_rows <= kLimits.rows && into.n_seqs <= kLimits.seqs && into.n_logits <= kLimits.logits);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace ingot
