// Columns of several ranks on devices that meet: by their own memory and by the host's, small and large.
#include <atomic>
#include <memory>
#include <thread>

#include "ops/all_gather/all_gather.h"
#include "ops/cuda/peers_test_support.h"

namespace ingot {
namespace {

struct Case {
  int64_t rows, width, blocks = 1;
  DType type = DType::kF32;
  bool first_only = false;
  int64_t unit = 1;  // shares are multiples
};

// One rank's end: a device with an op on it, given again and again as a recorded graph is.
class Rank {
 public:
  Rank(Comm& comm, const Case& size, const cuda::PeerMemory& memory) : comm_(comm), size_(size), memory_(memory) {
    const int64_t ranks = comm.ranks(), units = size.width / size.unit;
    for (int64_t r = 0; r < ranks; ++r) {  // uneven
      const int64_t begin = units * r * r / (ranks * ranks), end = units * (r + 1) * (r + 1) / (ranks * ranks);
      op_.begins.push_back(begin * size.unit);
      op_.counts.push_back((end - begin) * size.unit);
    }
    const int64_t gap = size.blocks == 1 ? 3 * size.unit : 0, element = dtype_bytes(size.type);
    const auto matrix = [&](cuda::DeviceMemory& data, int64_t cols) {
      Tensor t;
      t.rows = kTokenRows;
      t.cols = cols;
      t.stride = cols + gap;
      t.dtype = size.type;
      data = cuda::DeviceMemory(size.rows * t.stride * element);
      t.data = data.data();
      return t;
    };
    op_.x = matrix(x_, size.blocks * own_count());
    op_.out = matrix(out_, size.blocks * size.width);
    op_.blocks = size.blocks;
    op_.first_only = size.first_only;
    cuda::Prepare prepare{.limits = {}, .comm = &comm, .peers = &memory.peers(), .allocate = {}};
    cuda::prepare(op_, prepare);
  }

  // What it gives this time, and all that it got is what the others gave.
  void run(int turn) {
    std::vector<std::byte> image(static_cast<size_t>(x_.bytes()));
    const auto own = static_cast<size_t>(comm_.rank());
    for (int64_t t = 0; t < size_.rows; ++t)
      for (int64_t b = 0; b < size_.blocks; ++b)
        for (int64_t c = 0; c < own_count(); ++c)
          put(image.data(), t * op_.x.stride + b * own_count() + c,
              value(turn, t, b * size_.width + op_.begins[own] + c));
    cuda::copy_to_device(x_.data(), image.data(), x_.bytes(), stream_.ref());
    cuda::Ctx ctx;
    ctx.stream = stream_.ref();
    ctx.shape = {.tokens = size_.rows};
    ctx.peers = &memory_.peers();
    cuda::run(op_, ctx);
    stream_.synchronize();
    memory_.check();
    if (size_.first_only && own != 0) return;
    std::vector<std::byte> got(static_cast<size_t>(out_.bytes()));
    cuda::copy_to_host(got.data(), out_.data(), out_.bytes(), stream_.ref());
    stream_.synchronize();
    for (int64_t t = 0; t < size_.rows; ++t)
      for (int64_t c = 0; c < size_.blocks * size_.width; ++c)
        ASSERT_EQ(get(got.data(), t * op_.out.stride + c), value(turn, t, c))
            << "rank " << own << ": " << t << ", " << c;
  }

 private:
  int64_t own_count() const { return op_.counts[static_cast<size_t>(comm_.rank())]; }
  static uint32_t value(int turn, int64_t t, int64_t c) {
    return static_cast<uint32_t>(turn * 7919 + t * 131 + c * 3) & 0xffff;
  }
  void put(std::byte* to, int64_t i, uint32_t value) const {
    if (size_.type == DType::kF32) {
      reinterpret_cast<uint32_t*>(to)[i] = value;
    } else {
      reinterpret_cast<uint16_t*>(to)[i] = static_cast<uint16_t>(value);
    }
  }
  uint32_t get(const std::byte* from, int64_t i) const {
    return size_.type == DType::kF32 ? reinterpret_cast<const uint32_t*>(from)[i]
                                     : reinterpret_cast<const uint16_t*>(from)[i];
  }

  Comm& comm_;
  const Case size_;
  const cuda::PeerMemory& memory_;
  const cuda::Stream stream_;
  cuda::DeviceMemory x_, out_;
  AllGather op_;
};

TEST(CudaAllGather, EveryRankHasAllColumns) {
  INGOT_NEEDS_DEVICE();
  const Case cases[] = {
      {.rows = 1, .width = 48},
      {.rows = 5, .width = 33},
      {.rows = 5, .width = 48, .blocks = 4},
      {.rows = 2, .width = 4096, .unit = 16},
      {.rows = 7, .width = 99, .type = DType::kBF16},
      {.rows = 3, .width = 640, .type = DType::kBF16, .unit = 16},
      {.rows = 3, .width = 501, .first_only = true},
      {.rows = 19, .width = 4096, .first_only = true, .unit = 16},  // beyond what is staged
      {.rows = 70, .width = 4096, .unit = 16},                      // beyond what a half of the stage holds
  };
  for (const bool apart : {false, true}) {
    if (apart && !cuda::is_emulated()) continue;
    const Apart setting(apart);
    for (const int ranks : {2, 3, 4}) {
      on_ranks(ranks, {}, [&](Comm& comm, const cuda::PeerMemory& memory) {
        EXPECT_EQ(memory.peers().direct, !apart);
        std::vector<std::unique_ptr<Rank>> ops;
        for (const Case& size : cases) ops.push_back(std::make_unique<Rank>(comm, size, memory));
        for (int turn = 0; turn < 3; ++turn)
          for (const auto& op : ops) op->run(turn);
        meet(comm);  // before any of them goes
      });
    }
  }
}

// One that does not come: who waits is told which, once the deadline has passed, and waits for nobody any more.
TEST(CudaAllGather, ARankThatDoesNotCome) {
  INGOT_NEEDS_DEVICE();
  on_ranks(3, std::chrono::milliseconds(50), [](Comm& comm, const cuda::PeerMemory& memory) {
    Rank op(comm, {.rows = 2, .width = 64}, memory);
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

// A rank that gives up ends the waits of all at once, with its reason.
TEST(CudaAllGather, ARankThatGivesUp) {
  INGOT_NEEDS_DEVICE();
  std::atomic<bool> waits{false};
  on_ranks(2, {}, [&](Comm& comm, cuda::PeerMemory& memory) {
    Rank op(comm, {.rows = 2, .width = 64}, memory);
    if (comm.rank() == 1) {
      while (!waits.load()) std::this_thread::yield();
      comm.abort("no memory");
      return memory.give_up();
    }
    waits.store(true);
    EXPECT_THROW(op.run(0), CommError);
    try {
      memory.check();
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1: no memory"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace ingot
