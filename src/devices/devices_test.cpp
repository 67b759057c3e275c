#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/thread_pool.h"
#include "devices/comm_times.h"
#include "devices/device_list.h"
#include "devices/matmul_part.h"
#include "devices/product_queue.h"

namespace ingot {
namespace {

std::vector<Gpu> three_gpus() {
  std::vector<Gpu> gpus(3);
  gpus[0] = {.nvml = 0, .name = "b", .uuid = "GPU-20", .bus_id = "0000:20:00.0"};
  gpus[1] = {.nvml = 1, .name = "a", .uuid = "GPU-10", .bus_id = "0000:10:00.0"};
  gpus[2] = {.nvml = 2, .name = "c", .uuid = "GPU-30", .bus_id = "0001:01:00.0"};
  return gpus;
}

std::vector<int> numbers(const CudaNumbering& numbering) {
  std::vector<Gpu> gpus = three_gpus();
  number_gpus(gpus, numbering);
  return {gpus[0].cuda, gpus[1].cuda, gpus[2].cuda};
}

TEST(Gpus, NumbersAreCudas) {
  EXPECT_EQ(numbers({}), (std::vector{1, 0, 2}));  // by bus ids
  EXPECT_EQ(numbers({.visible = "2, 1"}), (std::vector{1, -1, 0}));
  EXPECT_EQ(numbers({.visible = "GPU-30,0"}), (std::vector{-1, 1, 0}));
  EXPECT_EQ(numbers({.visible = "MIG-1,0"}), (std::vector{-1, -1, -1}));
  EXPECT_EQ(numbers({.visible = "0,-1,2"}), (std::vector{-1, 0, -1}));
  // What CUDA itself says counts more than its rules.
  EXPECT_EQ(numbers({.bus_ids = {"0001:01:00.0", "0000:20:00.0"}, .visible = "0"}), (std::vector{1, -1, 0}));
  EXPECT_THROW(numbers({.visible = "1,GPU-20"}), Error);
}

TEST(DeviceList, PartsShareTheCores) {
  Machine machine;
  machine.nodes = {{.id = 3, .cores = {0, 1, 2, 3, 4}, .total_bytes = 100, .free_bytes = 60}};
  const std::vector<Device> parts = list_devices(machine, "cpu:3/2");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name, "cpu:3/2.0");
  EXPECT_EQ(parts[0].cores, (std::vector{0, 1}));
  EXPECT_EQ(parts[1].cores, (std::vector{2, 3, 4}));
  EXPECT_EQ(parts[1].free_bytes, 30);
  EXPECT_EQ(list_devices(machine, "")[0].name, "cpu:3");
  for (const char* bad :
       {"cpu:0", "cpu:3/6", "cpu:3/0", "cpu:3,cpu:3", "cpu", "cpu:", "cpu:3/", "cpu:-3", "cuda:0", ","})
    EXPECT_THROW(list_devices(machine, bad), Error) << bad;
}

// Takes `ms`, and gives another value in one of `every` runs.
struct Fake final : EqualProduct {
  Fake(int takes, int wrong_every) : ms(takes), every(wrong_every) {}
  void run() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ++runs;
  }
  std::vector<float> result() override { return {1.0f, every > 0 && runs % every == 0 ? 2.0f : 3.0f}; }
  int ms, every, runs = 0;
};

QueueWorker fake(const char* name, int ms, int every = 0) {
  return {.name = name, .kind = "fake", .make = [=] { return std::make_unique<Fake>(ms, every); }};
}

TEST(ProductQueue, NamesTheSlowAndTheFaulty) {
  const std::vector<QueueResult> results =
      run_queue({fake("good", 40), fake("faulty", 40, 3), fake("slow", 120), fake("fine", 40)}, 24, [] {});
  int products = 0;
  for (const QueueResult& r : results) products += r.products;
  EXPECT_EQ(products, 24);
  const std::vector<std::string> verdicts = queue_verdicts(results);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_TRUE(verdicts[0].starts_with("faulty is faulty: ")) << verdicts[0];
  EXPECT_TRUE(verdicts[1].starts_with("slow is slow: ")) << verdicts[1];
  EXPECT_LT(results[2].products, results[0].products);  // the queue gave its share to others
}

TEST(ProductQueue, OneThatFailsLeavesItsWorkToOthers) {
  const QueueWorker broken{.name = "broken", .kind = "fake", .make = []() -> std::unique_ptr<EqualProduct> {
                             throw Error("[cuda] no memory");
                           }};
  const std::vector<QueueResult> results = run_queue({broken, fake("good", 0)}, 5, [] {});
  EXPECT_EQ(results[0].failed, "[cuda] no memory");
  EXPECT_EQ(results[1].products, 5);
  EXPECT_EQ(queue_verdicts(results), std::vector<std::string>{"broken failed: [cuda] no memory"});
  EXPECT_THROW(run_queue({fake("good", 0)}, 5, [] { throw Error("stop"); }), Error);
}

TEST(MatmulPart, PartsAreOfTheSameProduct) {
  ThreadPool pool(2, Pinning::kOff);
  const MatmulSize size{.m = 5, .n = 192, .k = 64};
  const auto run = [&](const MatmulPart& part) {
    std::vector<float> out(static_cast<size_t>(part.m.count() * part.n.count()));
    CpuMatmul(pool, Format::kF32, part).run(0, part.n.count(), out.data(), part.n.count());
    return out;
  };
  const std::vector<float> whole = run(whole_part(size));
  const std::vector<float> some = run({size, {2, 4}, {64, 192}, {0, 64}});
  const std::vector<float> left = run({size, {0, 5}, {0, 192}, {0, 32}}),
                           right = run({size, {0, 5}, {0, 192}, {32, 64}});
  for (size_t m = 0; m < 5; ++m) {
    for (size_t n = 0; n < 192; ++n) {
      const float want = whole[m * 192 + n];
      if (m >= 2 && m < 4 && n >= 64) {
        EXPECT_EQ(some[(m - 2) * 128 + n - 64], want);
      }
      EXPECT_NEAR(left[m * 192 + n] + right[m * 192 + n], want, 1e-5);
    }
  }
  EXPECT_NE(whole[0], 0);
}

// Gives wrong data in one op.
struct Broken final : Comm {
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  void all_gather(std::span<const CommBlock>) override {}
  void all_reduce(std::span<float> x) override { x[0] += x.size() > 1 ? 1.0f : 0.0f; }
  void reduce_scatter(std::span<const float>, std::span<const int64_t>, float*) override {}
  void all_to_all(std::span<const std::span<const std::byte>>, std::span<const std::span<std::byte>>) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void send(std::span<const std::byte>, int) override {}
  int64_t recv(std::span<std::byte>, int, std::chrono::milliseconds) override { return 0; }
  void abort(const std::string&) override {}
};

TEST(CommTimes, WrongDataIsNoticed) {
  Broken broken;
  EXPECT_THROW(time_comm(broken, {.least_bytes = 64, .most_bytes = 64, .seconds = 0}, [](const CommTime&) {}), Error);
}

TEST(CommTimes, EveryOpInEverySize) {
  int told = 0;
  comm_carriers().front().run(2, [&](Comm& comm) {
    time_comm(comm, {.least_bytes = 64, .most_bytes = 4096, .seconds = 0}, [&](const CommTime& t) {
      ++told;
      EXPECT_GT(t.us, 0) << t.op;
    });
  });
  EXPECT_EQ(told, 6 * 4);
}

}  // namespace
}  // namespace ingot
