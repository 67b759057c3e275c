// How long the collectives of devices take, as recorded steps have them.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/error.h"
#include "comm/from_all.h"
#include "devices/comm_times.h"
#include "devices/gpu_work.h"
#include "ops/cuda/ops.h"
#include "ops/cuda/peer_memory.h"

namespace ingot {
namespace {

using cuda::DeviceMemory;

constexpr int64_t kCols = 4096;  // of a model of 8B
constexpr int kTimes = 5;
// Of all ranks. Kernels begin before those in front of them have ended, and a GPU has room for 128 that have begun:
// where one rank's took all of it, another's that it waits for would never begin.
constexpr int kMostKernels = 96;

// One rank's device, with the values of the largest size.
struct Rank {
  Rank(Comm& c, const cuda::DevicePlace& place, int64_t most)
      : comm(c),
        stream((cuda::use_device(place), cuda::require_kernels(), std::make_unique<cuda::Stream>())),
        memory(c, place.index),
        weight(kCols * 4) {
    for (DeviceMemory* one : {&x, &out, &residual, &sum}) *one = DeviceMemory(most);
    const std::vector<float> ones(kCols, 1.0f);
    cuda::copy_to_device(weight.data(), ones.data(), weight.bytes(), stream->ref());
    stream->synchronize();
    const cuda::DeviceFacts facts = cuda::device_facts();
    ctx.stream = stream->ref();
    ctx.multiprocessors = facts.multiprocessors;
    ctx.arch = facts.major * 10 + facts.minor;
    ctx.peers = &memory.peers();
    from_all<char>(comm, 0);
  }

  // To `n` bytes or some less: whole rows of fours of floats. REQUIRES: n >= 16.
  void resize(int64_t n) {
    cols = std::min(kCols, n / 16 * 4);
    const int64_t rows = n / 4 / cols;
    bytes = rows * cols * 4;
    ctx.shape = {.tokens = rows};
  }
  Tensor tensor(const DeviceMemory& from, int64_t width) const {
    Tensor t;
    t.rows = kTokenRows;
    t.cols = t.stride = width;
    t.data = from.data();
    return t;
  }
  Tensor tensor(const DeviceMemory& from) const { return tensor(from, cols); }
  Weight norm() const {
    Weight w{.name = "norm", .rows = 1, .cols = cols, .row_bytes = cols * 4};
    w.data = weight.data();
    return w;
  }
  AllReduce reduce() const { return {.x = tensor(x), .out = tensor(out)}; }
  void wait() const {
    stream->synchronize();
    memory.check();
  }

  Comm& comm;
  const std::unique_ptr<cuda::Stream> stream;
  const cuda::PeerMemory memory;
  DeviceMemory x, out, residual, sum, weight;
  int64_t bytes = 0, cols = 0;
  AllGather gather;
  cuda::Ctx ctx;
};

void prepare_gather(Rank& rank) {
  AllGather& op = rank.gather;
  op.begins.clear();
  op.counts.clear();
  const int64_t ranks = rank.comm.ranks(), fours = rank.cols / 4;
  for (int64_t r = 0; r < ranks; ++r) {
    op.begins.push_back(fours * r / ranks * 4);
    op.counts.push_back(fours * (r + 1) / ranks * 4 - op.begins.back());
  }
  op.x = rank.tensor(rank.x, op.counts[static_cast<size_t>(rank.comm.rank())]);
  op.out = rank.tensor(rank.sum);
  cuda::Prepare p{.limits = {}, .comm = &rank.comm, .peers = &rank.memory.peers(), .allocate = {}};
  cuda::prepare(op, p);
}

struct Operation {
  const char* name;
  void (*give)(Rank&);
  bool reduces;  // into Rank::sum, which else has what was gathered
  int kernels;
};

constexpr Operation kOperations[] = {
    {"all_gather", [](Rank& r) { cuda::run(r.gather, r.ctx); }, false, 1},
    {"all_reduce",
     [](Rank& r) {
       AllReduce op = r.reduce();
       op.out = r.tensor(r.sum);
       cuda::run(op, r.ctx);
     },
     true, 1},
    {"all_reduce, add, rms_norm",
     [](Rank& r) {
       cuda::run(r.reduce(), r.ctx);
       const Tensor sum = r.tensor(r.sum);
       cuda::run(Add{.a = r.tensor(r.residual), .b = r.tensor(r.out), .out = sum}, r.ctx);
       cuda::run(RmsNorm{.x = sum, .weight = r.norm(), .out = r.tensor(r.out), .width = r.cols, .eps = 1e-5f}, r.ctx);
     },
     true, 3},
    {"all_reduce, add_rms_norm",
     [](Rank& r) {
       cuda::run(r.reduce(), r.ctx);
       cuda::run(AddRmsNorm{.a = r.tensor(r.residual),
                            .b = r.tensor(r.out),
                            .weight = r.norm(),
                            .sum = r.tensor(r.sum),
                            .out = r.tensor(r.out),
                            .eps = 1e-5f},
                 r.ctx);
     },
     true, 2},
    {"all_reduce_add_norm",
     [](Rank& r) {
       cuda::run(AllReduceAddNorm{.x = r.tensor(r.x),
                                  .residual = r.tensor(r.residual),
                                  .weight = r.norm(),
                                  .sum = r.tensor(r.sum),
                                  .out = r.tensor(r.out),
                                  .eps = 1e-5f},
                 r.ctx);
     },
     true, 1},
};

// Small whole numbers: sums of them are exact.
float value(int64_t rank, int64_t i) { return static_cast<float>((i * 7 + rank * 3) % 32); }

void check(Rank& rank, const Operation& op) {
  const int64_t n = rank.bytes / 4, ranks = rank.comm.ranks();
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = value(rank.comm.rank(), i);
  const cuda::StreamRef stream = rank.ctx.stream;
  cuda::copy_to_device(rank.x.data(), values.data(), rank.bytes, stream);
  cuda::fill_bytes(rank.residual.data(), 0, rank.bytes, stream);
  cuda::fill_bytes(rank.sum.data(), 0xff, rank.bytes, stream);
  rank.wait();
  from_all<char>(rank.comm, 0);
  op.give(rank);
  rank.wait();
  cuda::copy_to_host(values.data(), rank.sum.data(), rank.bytes, stream);
  rank.stream->synchronize();
  const std::vector<int64_t>& begins = rank.gather.begins;
  for (int64_t i = 0; i < n; ++i) {
    float want = 0;
    if (op.reduces) {
      for (int64_t r = 0; r < ranks; ++r) want += value(r, i);
    } else {
      const int64_t row = i / rank.cols, col = i % rank.cols;
      const auto r = std::ranges::upper_bound(begins, col) - begins.begin() - 1;
      const auto at = static_cast<size_t>(r);
      want = value(r, row * rank.gather.counts[at] + col - begins[at]);
    }
    if (values[static_cast<size_t>(i)] != want)
      throw Error("[comm] {} of {} bytes: float {} of rank {} is {}, not {}", op.name, rank.bytes, i, rank.comm.rank(),
                  values[static_cast<size_t>(i)], want);
  }
}

// Zeros: sums of sums grow.
GpuCommTime measure(Rank& rank, const Operation& op) {
  const int most = kMostKernels / rank.comm.ranks() / op.kernels;
  const int calls = cuda::is_emulated() ? 2 : rank.bytes <= 1 << 20 ? most : 5;
  const cuda::StreamRef stream = rank.ctx.stream;
  cuda::fill_bytes(rank.x.data(), 0, rank.bytes, stream);
  rank.wait();
  from_all<char>(rank.comm, 0);
  const cuda::RecordedGraph graph(stream, [&] {
    for (int i = 0; i < calls; ++i) op.give(rank);
  });
  rank.stream->synchronize();
  std::array<double, kTimes> seconds;
  for (int i = -1; i < kTimes; ++i) {  // the first is not counted
    from_all<char>(rank.comm, 0);
    cuda::Event begin, end;
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    rank.wait();
    if (i >= 0) seconds[static_cast<size_t>(i)] = end.seconds_since(begin) / calls;
  }
  from_all<char>(rank.comm, 0);
  std::ranges::sort(seconds);
  const auto ranks = static_cast<double>(rank.comm.ranks());
  const double crossing = static_cast<double>(rank.bytes) * (ranks - 1) / ranks * (op.reduces ? 2 : 1);
  const double median = seconds[kTimes / 2];
  return {.op = op.name, .bytes = rank.bytes, .us = median * 1e6, .bus_gbs = crossing / median / 1e9};
}

}  // namespace

void time_gpu_comm(const std::vector<cuda::DevicePlace>& places, int64_t least_bytes, int64_t most_bytes,
                   const std::function<void(const GpuCommTime&)>& tell) {
  comm_carriers().front().run(static_cast<int>(places.size()), [&](Comm& comm) {
    comm.deadline = Comm::kForever;  // contexts and kernels are loaded
    Rank rank(comm, places[static_cast<size_t>(comm.rank())], most_bytes);
    for (int64_t bytes = std::max<int64_t>(least_bytes, 1024); bytes <= most_bytes; bytes *= 4) {
      rank.resize(bytes);
      prepare_gather(rank);
      for (const Operation& op : kOperations) {
        check(rank, op);
        const GpuCommTime time = measure(rank, op);
        if (comm.rank() == 0) tell(time);
      }
    }
    from_all<char>(comm, 0);  // nobody takes memory away that others may read
  });
}

}  // namespace ingot
