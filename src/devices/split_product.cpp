#include "devices/split_product.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "base/error.h"
#include "devices/comm_times.h"
#include "graph/shard.h"
#include "tensor/memory.h"

namespace ingot {
namespace {

constexpr int kPieces = 4;  // of a rank's outputs, where products and carrying overlap

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Shares of one axis; all of the others.
std::vector<MatmulPart> cut(const SplitWork& work, SplitBy by, int ranks) {
  const MatmulSize& size = work.size;
  const int64_t whole = by == SplitBy::kM ? size.m : by == SplitBy::kK ? size.k : size.n;
  const int64_t unit = by == SplitBy::kM   ? 1
                       : by == SplitBy::kK ? std::max<int64_t>(32, format_block(work.format))
                                           : CpuMatmul::kUnit;
  const std::vector<ShardRange> shares = share_evenly(whole, unit, ranks);
  if (shares.empty())
    throw Error("[matmul] {} devices cannot share {} {}: shares are multiples of {}", ranks, whole, split_name(by),
                unit);
  std::vector<MatmulPart> parts;
  for (const ShardRange& share : shares) {
    MatmulPart part = whole_part(size);
    const MatmulRange range{share.begin, share.end};
    (by == SplitBy::kM ? part.m : by == SplitBy::kK ? part.k : part.n) = range;
    parts.push_back(part);
  }
  return parts;
}

// One rank of a cut.
class Rank {
 public:
  Rank(ThreadPool& pool, const SplitWork& work, SplitBy by, const std::vector<MatmulPart>& parts, Comm& comm)
      : work_(work),
        by_(by),
        parts_(parts),
        comm_(comm),
        own_(parts[static_cast<size_t>(comm.rank())]),
        matmul_(pool, work.format, own_),
        out_(Memory::huge(work.size.m * work.size.n * 4)) {}

  float* out() const { return reinterpret_cast<float*>(out_.data()); }
  // Once; the seconds of its product alone.
  double run() {
    if (by_ == SplitBy::kNOverlapped) return overlapped();
    const auto start = std::chrono::steady_clock::now();
    matmul_.run(0, own_.n.count(), out() + own_.m.begin * work_.size.n + own_.n.begin, work_.size.n);
    const double seconds = seconds_since(start);
    if (by_ == SplitBy::kK) {
      comm_.all_reduce({out(), static_cast<size_t>(work_.size.m * work_.size.n)});
    } else if (parts_.size() > 1) {
      gather(0, 1);
    }
    return seconds;
  }

 private:
  // Piece p of the outputs of a part: multiples of the unit.
  MatmulRange piece(const MatmulPart& part, int p, int pieces) const {
    const int64_t units = part.n.count() / CpuMatmul::kUnit;
    return {part.n.begin + units * p / pieces * CpuMatmul::kUnit,
            p + 1 == pieces ? part.n.end : part.n.begin + units * (p + 1) / pieces * CpuMatmul::kUnit};
  }
  // Everyone gets piece p of everyone.
  void gather(int p, int pieces) {
    std::vector<CommBlock> blocks;
    for (const MatmulPart& part : parts_) {
      const MatmulRange n = piece(part, p, pieces);
      blocks.push_back({.data = reinterpret_cast<std::byte*>(out() + part.m.begin * work_.size.n + n.begin),
                        .rows = part.m.count(),
                        .bytes = n.count() * 4,
                        .pitch = work_.size.n * 4});
    }
    comm_.all_gather(blocks);
  }
  // While a piece is carried by another thread, the next is computed.
  double overlapped() {
    std::atomic<int> made = 0;
    std::exception_ptr threw;
    std::thread carrier([&] {
      try {
        for (int p = 0; p < kPieces; ++p) {
          for (int now = made; now <= p; now = made) made.wait(now);
          gather(p, kPieces);
        }
      } catch (...) {
        threw = std::current_exception();
      }
    });
    for (int p = 0; p < kPieces; ++p) {
      const MatmulRange n = piece(own_, p, kPieces);
      if (n.count() > 0) matmul_.run(n.begin - own_.n.begin, n.count(), out() + n.begin, work_.size.n);
      ++made;
      made.notify_one();
    }
    carrier.join();
    if (threw) std::rethrow_exception(threw);
    return 0;
  }

  const SplitWork& work_;
  const SplitBy by_;
  const std::vector<MatmulPart>& parts_;
  Comm& comm_;
  const MatmulPart own_;
  CpuMatmul matmul_;
  Memory out_;
};

void meet(Comm& comm) {
  float one = 1;
  comm.all_reduce({&one, 1});
}

// What all ranks of one cut share.
struct Run {
  const SplitWork& work;
  SplitBy by;
  std::vector<MatmulPart> parts;
  std::vector<std::vector<double>> product_s;  // [rank][repeat]
  std::vector<double> seconds;                 // [repeat], rank 0's
  std::vector<float> out;                      // rank 0's
};

void run_rank(Run& run, const std::vector<int>& cores, Comm& comm) {
  stay_on(cores);
  ThreadPool pool(static_cast<int>(cores.size()), Pinning::kOff);
  Rank rank(pool, run.work, run.by, run.parts, comm);
  rank.run();
  for (int i = 0; i < run.work.repeat; ++i) {
    meet(comm);
    const auto start = std::chrono::steady_clock::now();
    run.product_s[static_cast<size_t>(comm.rank())].push_back(rank.run());
    meet(comm);
    if (comm.rank() == 0) run.seconds.push_back(seconds_since(start));
  }
  if (comm.rank() == 0) run.out.assign(rank.out(), rank.out() + run.work.size.m * run.work.size.n);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void run_cut(const std::vector<Device>& devices, Run& run) {
  run.product_s.resize(run.parts.size());
  comm_carriers().front().run(static_cast<int>(run.parts.size()), [&](Comm& comm) {
    run_rank(run, devices[static_cast<size_t>(comm.rank())].cores, comm);
  });
}

SplitTime compare(const Run& run, const std::vector<float>& want) {
  SplitTime time{.by = run.by, .seconds = median(run.seconds)};
  for (const std::vector<double>& rank : run.product_s) time.product_s = std::max(time.product_s, median(rank));
  time.same_bits = std::memcmp(run.out.data(), want.data(), want.size() * sizeof(float)) == 0;
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(run.out[i]) - want[i];
    error += d * d;
    norm += static_cast<double>(want[i]) * want[i];
  }
  time.nmse = error / norm;
  return time;
}

}  // namespace

const char* split_name(SplitBy by) {
  static constexpr const char* kNames[] = {"one", "m", "n", "k", "n overlapped"};
  return kNames[static_cast<size_t>(by)];
}
const char* split_text(SplitBy by) {
  static constexpr const char* kTexts[] = {"the first device alone", "rows of x, gathered", "outputs, gathered",
                                           "inputs, summed",
                                           "outputs in four pieces, gathered while the next is computed"};
  return kTexts[static_cast<size_t>(by)];
}

void check_splits(const std::vector<Device>& devices, const SplitWork& work) {
  for (const SplitBy by : {SplitBy::kM, SplitBy::kN, SplitBy::kK}) cut(work, by, static_cast<int>(devices.size()));
}

std::vector<SplitTime> time_splits(const std::vector<Device>& devices, const SplitWork& work,
                                   const std::function<void(const SplitTime&)>& tell) {
  std::vector<SplitTime> times;
  std::vector<float> want;
  for (const SplitBy by : {SplitBy::kOne, SplitBy::kM, SplitBy::kN, SplitBy::kK, SplitBy::kNOverlapped}) {
    const bool one = by == SplitBy::kOne;
    if (!one && devices.size() == 1) break;
    Run run{.work = work,
            .by = by,
            .parts = one ? std::vector{whole_part(work.size)} : cut(work, by, static_cast<int>(devices.size())),
            .product_s = {},
            .seconds = {},
            .out = {}};
    run_cut(devices, run);
    if (one) want = run.out;
    times.push_back(compare(run, want));
    tell(times.back());
  }
  return times;
}

}  // namespace ingot
