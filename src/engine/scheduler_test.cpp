#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ingot {
namespace {

std::unique_ptr<Sequence> make_seq(SeqId id, int prompt) {
  auto seq = std::make_unique<Sequence>();
  seq->id = id;
  seq->request.prompt.assign(static_cast<size_t>(prompt), 1);
  seq->tokens = seq->request.prompt;
  return seq;
}

// Does what the engine does with a step: rows go into the cache, and a seq whose rows are all there gets a token.
void run(const std::vector<Scheduler::Item>& items) {
  for (const Scheduler::Item& item : items) {
    item.seq->kv_len += item.rows;
    if (item.seq->pending() == 0) item.seq->tokens.push_back(1);
  }
}

TEST(Scheduler, DecodingComesBeforePromptsUnderTheBudget) {
  KvPages pages({100}, 16);
  StateSlots slots(4);
  Scheduler scheduler({.rows = 10, .seqs = 4, .chunk = 8}, pages, slots);
  scheduler.add(make_seq(1, 3));
  auto items = scheduler.next();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].rows, 3);
  run(items);
  scheduler.add(make_seq(2, 100));
  items = scheduler.next();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].seq->id, 1);
  EXPECT_EQ(items[0].rows, 1);
  EXPECT_EQ(items[1].rows, 8);  // the chunk's limit
}

TEST(Scheduler, RemoveGivesEverythingBack) {
  KvPages pages({10}, 4);
  StateSlots slots(2);
  Scheduler scheduler({.rows = 64, .seqs = 2, .chunk = 64}, pages, slots);
  for (SeqId id = 1; id <= 3; ++id) scheduler.add(make_seq(id, 9));
  run(scheduler.next());
  EXPECT_EQ(scheduler.n_running(), 2);
  EXPECT_EQ(scheduler.n_waiting(), 1);
  for (SeqId id = 1; id <= 3; ++id) EXPECT_TRUE(scheduler.remove(id));
  EXPECT_FALSE(scheduler.remove(1));
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(pages.free_pages(0), 10);
  EXPECT_EQ(slots.n_free(), 2);
}

// Random arrivals, lengths, cancellations and far too few pages: the budget holds, pages are conserved and every seq
// ends within a bounded number of steps.
TEST(Scheduler, PropertyEverySeqEnds) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const int total = 4 + static_cast<int>(random() % 12);
    const SchedulerLimits limits{.rows = 4 + static_cast<int>(random() % 20),
                                 .seqs = 1 + static_cast<int>(random() % 6),
                                 .chunk = 1 + static_cast<int>(random() % 10)};
    KvPages pages({total}, 4);
    StateSlots slots(limits.seqs);
    Scheduler scheduler(limits, pages, slots);
    std::map<SeqId, int> target;  // tokens at which the seq ends
    for (SeqId id = 1; id <= 20; ++id) {
      const int prompt = 1 + static_cast<int>(random() % static_cast<unsigned>(total * 2));
      target[id] = std::min(total * 4, prompt + 1 + static_cast<int>(random() % 20));
      scheduler.add(make_seq(id, prompt));
    }
    int steps = 0;
    while (!scheduler.idle()) {
      ASSERT_LT(++steps, 20000) << "seed " << seed;
      const auto items = scheduler.next();
      int rows = 0;
      for (const Scheduler::Item& item : items) {
        rows += item.rows;
        ASSERT_LE(item.rows, limits.chunk);
        ASSERT_GE(static_cast<int>(item.seq->pages.groups[0].size()) * 4, item.seq->kv_len + item.rows);
      }
      ASSERT_LE(rows, limits.rows);
      ASSERT_LE(static_cast<int>(items.size()), limits.seqs);
      run(items);
      std::vector<SeqId> ended;
      for (const Scheduler::Item& item : items) {
        if (item.seq->n_tokens() >= target[item.seq->id]) ended.push_back(item.seq->id);
      }
      if (random() % 50 == 0) ended.push_back(static_cast<SeqId>(1 + random() % 20));
      for (const SeqId id : ended) scheduler.remove(id);
    }
    ASSERT_EQ(pages.free_pages(0), total);
    ASSERT_EQ(slots.n_free(), limits.seqs);
  }
}

}  // namespace
}  // namespace ingot
