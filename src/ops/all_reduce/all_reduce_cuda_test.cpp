// Sums over ranks on devices that meet, and the norm behind them: handed over value by value, read in place, and by the
// host's memory.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ops/all_reduce/all_reduce.h"
#include "ops/all_reduce_add_norm/all_reduce_add_norm.h"
#include "ops/cuda/peers_test_support.h"

namespace ingot {
namespace {

constexpr float kEps = 1e-5f;

struct Case {
  int64_t rows, cols;
  bool in_place = false, norm = false;
};

// Sums of such values depend on their order.
float value_at(int rank, int turn, int64_t t, int64_t c) {
  return std::ldexp(static_cast<float>(1 + rank + turn), static_cast<int>((t * 5 + c + rank * 7) % 23)) / 3;
}
float sum_at(int ranks, int turn, int64_t t, int64_t c) {
  float sum = value_at(0, turn, t, c);
  for (int r = 1; r < ranks; ++r) sum += value_at(r, turn, t, c);
  return sum;
}
float residual_at(int64_t t, int64_t c) { return static_cast<float>((t * 3 + c * 7) % 11) - 5; }
float weight_at(int64_t c) { return static_cast<float>(c % 7) / 4 + 0.5f; }

Tensor tensor_on(cuda::DeviceMemory& memory, int64_t rows, int64_t cols, int64_t stride) {
  memory = cuda::DeviceMemory(rows * stride * 4);
  Tensor t;
  t.rows = kTokenRows;
  t.cols = cols;
  t.stride = stride;
  t.data = memory.data();
  return t;
}

// One rank's end: a device with an op on it, given again and again as a recorded graph is.
class Rank {
 public:
  Rank(Comm& comm, const Case& size, const cuda::PeerMemory& memory) : comm_(comm), size_(size), memory_(memory) {
    const int64_t gap = size.norm ? 4 : 0;
    x_tensor_ = tensor_on(x_, size.rows, size.cols, size.cols);
    out_tensor_ = tensor_on(out_, size.rows, size.cols, size.cols + gap);
    sum_tensor_ = tensor_on(sum_, size.rows, size.cols, size.cols + gap);
    weight_ = cuda::DeviceMemory(size.cols * 4);
    std::vector<float> weight(static_cast<size_t>(size.cols));
    for (int64_t c = 0; c < size.cols; ++c) weight[static_cast<size_t>(c)] = weight_at(c);
    cuda::copy_to_device(weight_.data(), weight.data(), weight_.bytes(), stream_.ref());
    stream_.synchronize();
  }

  void run(int turn) {
    put(x_tensor_, [&](int64_t t, int64_t c) { return value_at(comm_.rank(), turn, t, c); });
    put(out_tensor_, [](int64_t, int64_t) { return std::nanf(""); });
    put(sum_tensor_, residual_at);
    cuda::Ctx ctx;
    ctx.stream = stream_.ref();
    ctx.arch = cuda::device_facts().major * 10;
    ctx.shape = {.tokens = size_.rows};
    ctx.peers = &memory_.peers();
    if (size_.norm) {
      Weight weight{.name = "norm", .rows = 1, .cols = size_.cols, .row_bytes = size_.cols * 4};
      weight.data = weight_.data();
      cuda::run(AllReduceAddNorm{.x = x_tensor_,
                                 .residual = sum_tensor_,
                                 .weight = weight,
                                 .sum = sum_tensor_,
                                 .out = out_tensor_,
                                 .eps = kEps},
                ctx);
    } else {
      cuda::run(AllReduce{.x = x_tensor_, .out = size_.in_place ? x_tensor_ : out_tensor_}, ctx);
    }
    stream_.synchronize();
    memory_.check();
  }

  void expect(int turn) {
    const std::string name = std::to_string(size_.rows) + " x " + std::to_string(size_.cols) + ", rank " +
                             std::to_string(comm_.rank()) + " of " + std::to_string(comm_.ranks());
    const std::vector<float> out = get(size_.in_place ? x_tensor_ : out_tensor_);
    if (!size_.norm) {
      for (int64_t t = 0; t < size_.rows; ++t)
        for (int64_t c = 0; c < size_.cols; ++c)
          ASSERT_EQ(out[at(out_tensor_, t, c)], sum_at(comm_.ranks(), turn, t, c)) << name << ": " << t << ", " << c;
      return;
    }
    const std::vector<float> sum = get(sum_tensor_);
    for (int64_t t = 0; t < size_.rows; ++t) {
      double squares = 0;
      for (int64_t c = 0; c < size_.cols; ++c) {
        const float want = residual_at(t, c) + sum_at(comm_.ranks(), turn, t, c);
        ASSERT_EQ(sum[at(sum_tensor_, t, c)], want) << name << ": " << t << ", " << c;
        squares += static_cast<double>(want) * want;
      }
      const double root = std::sqrt(squares / static_cast<double>(size_.cols) + kEps);
      for (int64_t c = 0; c < size_.cols; ++c) {
        const double want = sum[at(sum_tensor_, t, c)] / root * weight_at(c);
        ASSERT_NEAR(out[at(out_tensor_, t, c)], want, 1e-5 * (1 + std::abs(want))) << name << ": " << t << ", " << c;
      }
    }
  }

 private:
  static size_t at(const Tensor& t, int64_t row, int64_t col) { return static_cast<size_t>(row * t.stride + col); }
  template <class F>
  void put(const Tensor& t, F&& value) {
    std::vector<float> all(static_cast<size_t>(size_.rows * t.stride));
    for (int64_t r = 0; r < size_.rows; ++r)
      for (int64_t c = 0; c < t.cols; ++c) all[at(t, r, c)] = value(r, c);
    cuda::copy_to_device(t.data, all.data(), static_cast<int64_t>(all.size()) * 4, stream_.ref());
    stream_.synchronize();
  }
  std::vector<float> get(const Tensor& t) const {
    std::vector<float> all(static_cast<size_t>(size_.rows * t.stride));
    cuda::copy_to_host(all.data(), t.data, static_cast<int64_t>(all.size()) * 4, stream_.ref());
    stream_.synchronize();
    return all;
  }

  Comm& comm_;
  const Case size_;
  const cuda::PeerMemory& memory_;
  const cuda::Stream stream_;
  cuda::DeviceMemory x_, out_, sum_, weight_;
  Tensor x_tensor_, out_tensor_, sum_tensor_;
};

void run_all(const std::vector<Case>& cases, const std::vector<int>& ranks, int turns) {
  for (const int n : ranks) {
    on_ranks(n, {}, [&](Comm& comm, const cuda::PeerMemory& memory) {
      std::vector<std::unique_ptr<Rank>> ops;
      for (const Case& size : cases) ops.push_back(std::make_unique<Rank>(comm, size, memory));
      meet(comm);
      for (int turn = 0; turn < turns; ++turn)
        for (const auto& op : ops) op->run(turn), op->expect(turn);
      meet(comm);  // before any of them goes
    });
  }
}

const std::vector<Case> kCases = {
    {.rows = 1, .cols = 48},
    {.rows = 5, .cols = 33, .in_place = true},
    {.rows = 3, .cols = 4096, .in_place = true},
    {.rows = 70, .cols = 2048},  // beyond what is handed over at once, of three ranks
    {.rows = 1, .cols = 64, .norm = true},
    {.rows = 3, .cols = 2052, .norm = true},
    {.rows = 2, .cols = 8192, .norm = true},
    {.rows = 34, .cols = 576, .norm = true},   // more than there are blocks
    {.rows = 2, .cols = 45, .norm = true},     // by its parts
    {.rows = 50, .cols = 4096, .norm = true},  // these too
};

TEST(CudaAllReduce, SumsInTheOrderOfRanksAndNorms) {
  INGOT_NEEDS_DEVICE();
  run_all(kCases, {2, 4}, 2);
}

TEST(CudaAllReduce, OfManyRanks) {
  INGOT_NEEDS_DEVICE();
  if (!cuda::is_emulated()) GTEST_SKIP() << "a GPU that is cut in eight";
  run_all({kCases[0], kCases[4], kCases[5]}, {8}, 3);
}

TEST(CudaAllReduce, ByTheHostsMemory) {
  INGOT_NEEDS_DEVICE();
  if (!cuda::is_emulated()) GTEST_SKIP() << "parts of one GPU reach its memory";
  const Apart apart(true);
  run_all(kCases, {3}, 2);
}

// One that does not come: who waits is told which, once the deadline has passed, and waits for nobody any more.
TEST(CudaAllReduce, ARankThatDoesNotCome) {
  INGOT_NEEDS_DEVICE();
  for (const bool norm : {false, true}) {
    on_ranks(3, std::chrono::milliseconds(50), [norm](Comm& comm, const cuda::PeerMemory& memory) {
      Rank op(comm, {.rows = 2, .cols = 64, .norm = norm}, memory);
      meet(comm);
      op.run(0);
      if (comm.rank() == 1) return meet(comm);
      comm.step = 7;
      for (int again = 0; again < 2; ++again) {
        std::string told;
        try {
          op.run(1);
        } catch (const CommError& error) {
          told = error.what();
        }
        EXPECT_NE(told.find("step 7"), std::string::npos) << told;
        EXPECT_NE(told.find("for rank 1: it did not come in 50 ms"), std::string::npos) << told;
      }
      meet(comm);
    });
  }
}

}  // namespace
}  // namespace ingot
