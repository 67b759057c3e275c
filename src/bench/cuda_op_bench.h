// What the cases of operators on a CUDA device share: their sizes, and the memory, batch and preparation of one. The
// cases of an operator lie beside it: ops/<op>/cuda_<op>_bench.cpp defines `void bench_<op>(Blas*, const TellTime&)` in
// this namespace, and the list of all is written by CMake.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/cuda_op_times.h"
#include "graph/cuda/cuda_batch.h"
#include "graph/cuda/cuda_random.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {

inline constexpr int kBenchPageRows = 64;

// Of an 8B model; small ones where the host plays the device.
struct BenchSizes {
  int64_t cols = 4096, qkv = 6144, ffn = 14336;
  int heads = 32, kv_heads = 8, head_dim = 128;
  std::vector<int> rows = {1, 8, 16, 32, 64, 128, 512, 4096};
  int most_seqs = 256;
};
inline BenchSizes bench_sizes() {
  if (!is_emulated()) return {};
  return {.cols = 64, .qkv = 96, .ffn = 96, .heads = 4, .kv_heads = 2, .head_dim = 64, .rows = {1, 17}, .most_seqs = 2};
}

// Memory, batch and preparation of one case.
class DeviceBench {
 public:
  // `seqs` seqs of `rows` rows after `past` positions.
  DeviceBench(Blas* blas, int seqs, int rows, int past)
      : facts_(device_facts()),
        blas_(blas),
        limits_{.rows = seqs * rows, .seqs = seqs, .logits = 1, .context = past + rows, .page_rows = kBenchPageRows},
        bucket_{.rows = limits_.rows, .seqs = seqs, .q_rows = rows, .logits = 0},
        batch_(limits_, 1),
        tickets_(kTickets * static_cast<int64_t>(sizeof(uint32_t))),
        handed_(kHandedRoom * facts_.multiprocessors),
        prepare_{.limits = limits_,
                 .stream = stream_.ref(),
                 .multiprocessors = facts_.multiprocessors,
                 .arch = facts_.major * 10 + facts_.minor,
                 .blas = blas,
                 .allocate = [this](int64_t bytes) { return allocate(bytes); }} {
    fill_bytes(tickets_.data(), 0, tickets_.bytes(), stream_.ref());
    fill_bytes(handed_.data(), 0xff, handed_.bytes(), stream_.ref());  // kNothing
    upload_batch(seqs, rows, past);
  }

  // Bytes that are all the same.
  std::byte* bytes(int64_t count, int value) {
    std::byte* data = allocate(count);
    fill_bytes(data, value, count, stream_.ref());
    return data;
  }
  // Random values of bf16, or of f32.
  Weight weight(Format format, int64_t rows, int64_t cols) {
    Weight w;
    w.name = "random";
    w.format = format;
    w.rows = rows;
    w.cols = cols;
    w.row_bytes = format_row_bytes(format, cols);
    w.random = {.key = ++keys_, .range = 0.05f};
    std::byte* data = allocate(w.bytes());
    fill_random(w, data, stream_.ref());
    w.data = data;
    return w;
  }
  Tensor tokens(int64_t cols, DType dtype) {
    Tensor t;
    t.dtype = dtype;
    t.rows = kTokenRows;
    t.cols = t.stride = cols;
    const Format format = dtype == DType::kF32 ? Format::kF32 : Format::kBF16;
    t.data = const_cast<std::byte*>(weight(format, limits_.rows, cols).data);
    return t;
  }
  int64_t pages() const { return int64_t{limits_.seqs} * limits_.pages_per_seq(); }
  int rows() const { return limits_.rows; }

  // How often operands of `bytes` must be there.
  int copies(double bytes) const {
    const double all = is_emulated() ? 0 : 3.0 * static_cast<double>(facts_.l2_bytes);
    return static_cast<int>(std::clamp(all / bytes + 1, 2.0, 64.0));
  }

  // Median seconds of one of `ops`.
  template <class Op>
  double time(std::vector<Op> ops) {
    constexpr int kWarm = 3, kTimes = 15;
    for (Op& op : ops) prepare(op, prepare_);
    const DeviceMemory scratch(prepare_.scratch_bytes);
    Ctx c = ctx(scratch);
    const auto give = [&] {
      for (const Op& op : ops) run(op, c);
    };
    give();  // kernels are loaded
    stream_.synchronize();
    const RecordedGraph graph(stream_.ref(), give);
    for (int i = 0; i < (is_emulated() ? 0 : kWarm); ++i) graph.launch(stream_.ref());
    std::vector<double> seconds;
    for (int i = 0; i < (is_emulated() ? 1 : kTimes); ++i) {
      Event begin, end;
      begin.record(stream_.ref());
      graph.launch(stream_.ref());
      end.record(stream_.ref());
      end.synchronize();
      seconds.push_back(end.seconds_since(begin) / static_cast<double>(ops.size()));
    }
    std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
    return seconds[seconds.size() / 2];
  }

 private:
  std::byte* allocate(int64_t bytes) {
    kept_.emplace_back(bytes);
    return kept_.back().data();
  }
  void upload_batch(int seqs, int rows, int past) {
    Batch batch(limits_, 1);
    batch.n_rows = limits_.rows;
    batch.n_seqs = seqs;
    std::vector<int32_t>& table = batch.groups[0].page_table;
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
    for (int s = 0, row = 0; s < seqs; ++s) {
      for (int i = 0; i < rows; ++i, ++row) {
        const auto t = static_cast<size_t>(row);
        const int position = past + i;
        batch.position[t] = position;
        batch.seq[t] = s;
        batch.groups[0].slot[t] =
            batch.pages(0, s)[position / kBenchPageRows] * kBenchPageRows + position % kBenchPageRows;
      }
      batch.q_start[static_cast<size_t>(s) + 1] = row;
      batch.kv_len[static_cast<size_t>(s)] = past + rows;
    }
    batch_.upload(batch, bucket_, stream_.ref());
  }
  Ctx ctx(const DeviceMemory& scratch) const {
    Ctx c;
    c.stream = stream_.ref();
    c.batch = batch_.at(bucket_);
    c.shape = {.tokens = bucket_.rows, .logits = 0};
    c.seqs = bucket_.seqs;
    c.q_rows = bucket_.q_rows;
    c.multiprocessors = facts_.multiprocessors;
    c.arch = facts_.major * 10 + facts_.minor;
    c.scratch = scratch.data();
    c.scratch_bytes = scratch.bytes();
    c.tickets = reinterpret_cast<uint32_t*>(tickets_.data());
    c.handed = reinterpret_cast<float*>(handed_.data());
    c.blas = blas_;
    return c;
  }

  const DeviceFacts facts_;
  Blas* const blas_;
  const StepLimits limits_;
  const Bucket bucket_;
  Stream stream_;
  BatchUpload batch_;
  DeviceMemory tickets_, handed_;
  std::vector<DeviceMemory> kept_;
  uint64_t keys_ = 0;
  Prepare prepare_;
};

}  // namespace ingot::cuda
