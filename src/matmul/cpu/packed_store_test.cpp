#include "matmul/cpu/packed_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/mmap.h"
#include "matmul/cpu/tasks.h"
#include "matmul/matmul_test_support.h"

namespace ingot {
namespace {

using test::Random;
using test::TestWeight;

std::vector<std::byte> panels(const PackedWeight& packed) { return {packed.data, packed.data + packed.bytes()}; }

// As one thread packs it, panel by panel.
std::vector<std::byte> packed_plainly(const Weight& weight) {
  const PackedWeight packed = panels_of(weight);
  std::vector<std::byte> out(static_cast<size_t>(packed.bytes()));
  for (int64_t i = 0; i < packed.panels(); ++i) pack_panel(weight, packed, i, out.data() + i * packed.panel_bytes);
  return out;
}

// Bytes of weights that are not multiples of a page, one behind the other in a mapped file.
class Mapped {
 public:
  explicit Mapped(const std::vector<std::byte>& bytes) {
    std::string path = testing::TempDir() + "packed-XXXXXX";
    const int fd = mkstemp(path.data());
    EXPECT_GE(fd, 0);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file_ = MappedFile::open(path);
    close(fd);
    std::filesystem::remove(path);
  }
  const std::byte* data() const { return file_.bytes().data(); }

 private:
  MappedFile file_;
};

TEST(PackedStore, ManyThreadsPackAFileAsOneThreadPacksMemory) {
  Random random(1);
  const TestWeight q(random, Format::kQ4_0, 512, 1024), k(random, Format::kBF16, 200, 1024),
      v(random, Format::kQ6_K, 131, 1024);
  std::vector<Weight> weights = {q.weight(), k.weight(), v.weight()};
  weights[0].head_rows = 64;  // whole panels
  weights[1].head_rows = 40;
  std::vector<std::vector<std::byte>> want;
  std::vector<std::byte> bytes;
  for (const Weight& weight : weights) {
    want.push_back(packed_plainly(weight));
    bytes.insert(bytes.end(), weight.data, weight.data + weight.bytes());
  }
  const Mapped mapped(bytes);
  const std::byte* at = mapped.data();
  for (Weight& weight : weights) {
    weight.data = std::exchange(at, at + weight.bytes());
    weight.mapped = true;
    want_pages(weight.data, weight.bytes());
  }
  for (int threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads);
    PackedStore together, alone;
    const std::vector<const PackedWeight*> packed = together.pack(weights, pool);
    int64_t total = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      ASSERT_NE(packed[i], nullptr);
      EXPECT_EQ(panels(*packed[i]), want[i]) << "weight " << i << ", " << threads << " threads";
      EXPECT_EQ(panels(*alone.pack(weights[i], pool)), want[i]) << "weight " << i << ", " << threads << " threads";
      EXPECT_EQ(together.pack(weights[i], pool), packed[i]);  // once
      total += packed[i]->bytes();
    }
    EXPECT_EQ(together.bytes(), total);
  }
}

TEST(PackedStore, WhatHasNoPanelsStaysBesideWhatHas) {
  Random random(2);
  const TestWeight with(random, Format::kQ8_0, 48, 1024), without(random, Format::kF32, 48, 1024),
      narrow(random, Format::kQ8_0, 48, 256);
  const std::vector<Weight> weights = {without.weight(), with.weight(), narrow.weight()};
  ThreadPool pool(2);
  PackedStore store;
  const std::vector<const PackedWeight*> packed = store.pack(weights, pool);
  EXPECT_EQ(packed[0], nullptr);
  ASSERT_NE(packed[1], nullptr);
  EXPECT_EQ(panels(*packed[1]), packed_plainly(with.weight()));
  EXPECT_EQ(packed[2], nullptr);
}

// A product of such parts, packed; nothing of it is run.
struct Shape {
  std::vector<int64_t> rows;
  bool glu = false;
};

class SharesOfProduct {
 public:
  explicit SharesOfProduct(const Shape& shape) {
    Random random(3);
    for (const int64_t rows : shape.rows) weights_.emplace_back(random, Format::kQ4_0, rows, 1024);
    product_.n_parts = static_cast<int>(shape.rows.size());
    product_.input.x.cols = 1024;
    if (shape.glu) product_.glu = ActivationKind::kSilu;
    ThreadPool pool(1);
    for (size_t i = 0; i < weights_.size(); ++i) {
      product_.parts[i].weight = &weights_[i].weight();
      product_.parts[i].packed = store_.pack(weights_[i].weight(), pool);
      if (i == 0 || !shape.glu) {
        panels_ += product_.parts[i].packed->panels();
        bytes_ += product_.parts[i].packed->bytes();
      }
    }
  }
  // The first panel, counted through the parts, that a thread reads for one row, and that it packs.
  int64_t reads(int t, int threads) const {
    const cpu::ProductTasks tasks(product_, 1, threads);
    const cpu::TaskBlock block = tasks.block(product_, ThreadPool::share(tasks.total, t, threads).begin);
    int64_t first = block.first / kPanelRows;
    for (size_t p = 0; p < block.part; ++p) first += product_.parts[p].packed->panels();
    return first;
  }
  int64_t packs(int t, int threads) const {
    const PackCut cut(panels_, bytes_, threads);
    return cut.begin(ThreadPool::share(cut.tasks, t, threads).begin);
  }
  // Panels of the largest task.
  int64_t task_panels(int threads) const {
    const cpu::ProductTasks tasks(product_, 1, threads);
    return std::max({tasks.cuts[0].block, tasks.cuts[1].block, tasks.cuts[2].block}) / kPanelRows;
  }
  // Whether all tasks are alike, and each thread has as many.
  bool even(int threads) const {
    const cpu::ProductTasks tasks(product_, 1, threads);
    return panels_ == tasks.total * task_panels(threads) && tasks.total % threads == 0;
  }

 private:
  std::deque<TestWeight> weights_;
  PackedStore store_;
  Product product_;
  int64_t panels_ = 0, bytes_ = 0;
};

// So a page that a thread was the first to touch is read by the same thread. With even tasks they are the same panels,
// else the borders are less than a task of each part apart.
TEST(PackedStore, AThreadPacksThePanelsThatItReads) {
  const Shape shapes[] = {{{1024}}, {{576, 192, 192}}, {{1024, 512, 512}}, {{1536, 1536}, true},
                          {{1000}}, {{321}},           {{576, 191, 65}},   {{700, 700}, true}};
  int even = 0;
  for (const Shape& shape : shapes) {
    const SharesOfProduct shares(shape);
    for (const int threads : {2, 3, 4, 5, 16}) {
      even += shares.even(threads);
      const int64_t most =
          shares.even(threads) ? 0 : shares.task_panels(threads) * static_cast<int64_t>(shape.rows.size());
      for (int t = 0; t < threads; ++t) {
        EXPECT_LE(std::abs(shares.packs(t, threads) - shares.reads(t, threads)), most)
            << shape.rows[0] << " rows, thread " << t << " of " << threads;
      }
    }
  }
  EXPECT_GT(even, 4);
}

// AnonHugePages of the mapping with this address, in bytes; -1 where the system does not tell.
int64_t huge_bytes(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    long kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = wanted >= begin && wanted < end;
    if (inside && std::sscanf(line.c_str(), "AnonHugePages: %ld kB", &kilobytes) == 1) return int64_t{kilobytes} << 10;
  }
  return -1;
}

// What the system gives to whoever asks.
int64_t huge_bytes_of_plain_memory() {
  constexpr int64_t kBytes = int64_t{8} << 20;
  const Memory memory = Memory::huge(kBytes);
  std::memset(memory.data(), 1, static_cast<size_t>(kBytes));
  return huge_bytes(memory.data());
}

TEST(PackedStore, PanelsLieInHugePages) {
  Random random(4);
  const TestWeight weight(random, Format::kBF16, 64, 1024);
  // The same rows again and again, 8 MiB of them.
  Weight large = weight.weight();
  std::vector<std::byte> bytes;
  for (int i = 0; i < 64; ++i) bytes.insert(bytes.end(), large.data, large.data + large.bytes());
  large.data = bytes.data();
  large.rows *= 64;
  ThreadPool pool(2);
  // Memory may be in pieces at the moment: asked again, and only where plain memory does get huge pages.
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (huge_bytes_of_plain_memory() <= 0) GTEST_SKIP() << "the system gives no huge pages";
    PackedStore store;
    if (huge_bytes(store.pack(large, pool)->data) > 0) return;
  }
  FAIL() << "plain memory gets huge pages, and panels do not";
}

}  // namespace
}  // namespace ingot
