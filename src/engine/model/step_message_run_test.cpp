// Whatever is read of a step message can be run: damaged ones that pass are, by models of each kind of cache.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

#include "base/checked_size.h"
#include "base/data_test_support.h"
#include "base/error.h"
#include "engine/model/page_groups.h"
#include "engine/model/step_message_test_support.h"
#include "graph/run.h"
#include "models/model.h"
#include "quant/format_test_support.h"

namespace ingot {
namespace {

constexpr StepLimits kLimits{.rows = 24, .seqs = 3, .logits = 4, .context = 64, .page_rows = 16};
constexpr int kPages = 14;

// Memory of a cache between memory that nobody may touch.
class Fenced {
 public:
  explicit Fenced(int64_t bytes) : bytes_((static_cast<size_t>(bytes) + kFence - 1) / kFence * kFence + 2 * kFence) {
    all_ = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all_, MAP_FAILED);
    EXPECT_EQ(::mprotect(data(), bytes_ - 2 * kFence, PROT_READ | PROT_WRITE), 0);
  }
  ~Fenced() { ::munmap(all_, bytes_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(all_) + kFence; }

 private:
  static constexpr size_t kFence = 1 << 20;  // more than a page of any such model
  size_t bytes_;
  void* all_ = nullptr;
};

class Follower {
 public:
  Follower(const Model& model, Kernels kernels)
      : runner_(model.graph, {.limits = kLimits, .threads = 1, .kernels = kernels, .short_cols = 0}),
        pages_(model.graph.kv_groups.size(), kPages),
        memory_(kv_store_bytes(runner_.program(), pages_, kLimits.page_rows)),
        kv_(runner_.program(), pages_, kLimits.page_rows, memory_.data()),
        groups_(page_groups(runner_.program(), pages_)),
        batch_(kLimits, static_cast<int>(pages_.size())) {
    runner_.bind(kv_);
  }
  const std::vector<PageGroup>& groups() const { return groups_; }

  // False where the message is refused.
  bool follow(std::span<const std::byte> message) {
    ReadStep read;
    try {
      read = read_step_message(message, kLimits, groups_, batch_);
    } catch (const Error&) {
      batch_ = Batch(kLimits, static_cast<int>(groups_.size()));
      return false;
    }
    for (const PageCopy& copy : read.copies) kv_.copy_page(copy.group, copy.from, copy.to);
    if (read.body) runner_.run_body(batch_);
    if (batch_.n_logits > 0) runner_.run_head(batch_);
    return true;
  }
  std::vector<float> logits() const {
    const Tensor& all = runner_.output("logits");
    return {all.f32(0), all.f32(0) + all.cols};
  }

 private:
  Runner runner_;
  const std::vector<int> pages_;
  const Fenced memory_;
  const KvStore kv_;
  const std::vector<PageGroup> groups_;
  Batch batch_;
};

// A prompt of 20 rows: its logits depend on nothing that was in the cache before.
std::vector<std::byte> prompt(const std::vector<PageGroup>& groups) {
  StepWork work;
  work.batch = Batch(kLimits, static_cast<int>(groups.size()));
  Batch& batch = work.batch;
  batch.n_rows = batch.q_start[1] = batch.kv_len[0] = 20;
  batch.n_seqs = 1;
  for (int t = 0; t < batch.n_rows; ++t) {
    batch.token[static_cast<size_t>(t)] = 7 * t;
    batch.position[static_cast<size_t>(t)] = t;
    for (Batch::Group& group : batch.groups) group.slot[static_cast<size_t>(t)] = t;
  }
  for (Batch::Group& group : batch.groups) group.page_table[0] = 0, group.page_table[1] = 1;
  StepMessage message;
  const int32_t last = batch.n_rows - 1;
  message.write_step(work, kLimits, 1, {&last, 1});
  return {message.bytes().begin(), message.bytes().end()};
}

// Runs `most` damaged messages, and a true one before and after.
void run_damaged(const Model& model, Kernels kernels, int most) {
  Follower follower(model, kernels);
  const std::vector<std::byte> true_one = prompt(follower.groups());
  ASSERT_TRUE(follower.follow(true_one));
  const std::vector<float> want = follower.logits();
  test::Random random(1);
  int ran = 0, refused = 0;
  std::vector<std::byte> message;
  while (ran < most && refused < 100 * most) {
    if (ran % 10 == 0) {
      message = test::random_message(random, kLimits, follower.groups());
      ASSERT_TRUE(follower.follow(message));
    }
    follower.follow(test::damaged(random, message)) ? ++ran : ++refused;
  }
  EXPECT_EQ(ran, most);
  EXPECT_GT(refused, most);
  ASSERT_TRUE(follower.follow(true_one));
  EXPECT_EQ(follower.logits(), want);
}

class StepMessageRuns : public testing::TestWithParam<std::string> {};

TEST_P(StepMessageRuns, WhatIsReadOfADamagedOne) {
  const Model model = Model::load(committed_data("arch/" + GetParam()), {.context = kLimits.context});
  run_damaged(model, Kernels::kFast, 400);
  run_damaged(model, Kernels::kRef, 200);
}

// One cache, a window beside all, a latent, learned positions, experts, chunks.
INSTANTIATE_TEST_SUITE_P(Some, StepMessageRuns,
                         testing::Values("llama", "gemma2", "deepseek-v2", "gpt2", "qwen3-moe", "llama4"),
                         [](const auto& given) { return test_name(given.param); });

}  // namespace
}  // namespace ingot
