#include "ladder/ladder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "bench/machine.h"
#include "bench/op_operands.h"
#include "ladder/measure.h"
#include "ladder/operators.inc"
#include "ladder/step_list.inc"
#include "quant/formats/f8_e4m3.h"
#include "tensor/memory.h"

namespace ingot::ladder {
namespace {

constexpr StepInfo kSteps[] = {
#define X(OP, CUDA, ORDER, NAME, REASON, SOURCE, HASH) {OP, CUDA, ORDER, NAME, REASON, SOURCE, HASH},
    INGOT_LADDER_STEPS(X)
#undef X
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Operands in the host's memory, in huge pages.
class HostOperands : public Operands {
 public:
  Target target() const override { return Target::kCpu; }
  std::byte* bytes(int64_t count, int value) override {
    constexpr int64_t kHuge = 2 << 20;
    kept_.push_back(Memory::huge((count + kHuge - 1) / kHuge * kHuge + kHuge));
    std::memset(kept_.back().data(), value, static_cast<size_t>(count));
    return kept_.back().data();
  }
  Tensor tensor(int64_t rows, int64_t cols, DType dtype) override {
    const Tensor t = fixed_tensor(bytes(rows * cols * dtype_bytes(dtype), 0), rows, cols, dtype);
    for (int64_t i = 0; i < rows * cols; ++i) {
      const float value = numbers_.next();
      if (dtype == DType::kF32) {
        reinterpret_cast<float*>(t.data)[i] = value;
      } else if (dtype == DType::kFp8) {
        F8_E4M3::encode(&value, reinterpret_cast<uint8_t*>(t.data) + i);
      } else {
        reinterpret_cast<uint16_t*>(t.data)[i] = dtype == DType::kBF16 ? f32_to_bf16(value) : f32_to_f16(value);
      }
    }
    return t;
  }
  Tensor words(int64_t n, uint32_t below) override {
    const Tensor t = fixed_tensor(bytes(4 * n, 0), 1, n);
    for (int64_t i = 0; i < n; ++i)
      reinterpret_cast<uint32_t*>(t.data)[i] = random_word(static_cast<uint64_t>(i), below);
    return t;
  }
  Tensor ints(int64_t rows, int64_t cols, const std::vector<int32_t>& values) override {
    const Tensor t = fixed_tensor(bytes(4 * rows * cols, 0), rows, cols, DType::kI32);
    std::ranges::copy(values, reinterpret_cast<int32_t*>(t.data));
    return t;
  }

 private:
  std::vector<Memory> kept_;
  op_bench::Numbers numbers_;
};

// GB/s read and written, the best of five copies of 128 MiB by all threads.
double measure_copies(ThreadPool& pool) {
  constexpr int64_t kBytes = 128 << 20, kPart = 1 << 20;
  const Memory from = Memory::huge(kBytes), to = Memory::huge(kBytes);
  std::memset(from.data(), 1, kBytes);
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    const auto start = Clock::now();
    pool.run(kBytes / kPart,
             [&](int64_t i, int) { std::memcpy(to.data() + i * kPart, from.data() + i * kPart, kPart); });
    if (pass > 0) best = std::max(best, 2e-9 * static_cast<double>(kBytes) / seconds_since(start));
  }
  return best;
}

template <class Op>
void bench_operator(const char* name, ThreadPool& pool, Rivals* rivals, const Listener& listener) {
  for (const LadderCase<Op>& c : ladder_cases<Op>(Target::kCpu)) {
    HostOperands operands;
    std::vector<Op> ops{c.make(operands)};
    LadderTimes times = times_of(name, c, ops[0]);
    const auto copies = std::clamp<double>(static_cast<double>(op_bench::rotation_bytes()) / times.bytes + 1, 1, 64);
    while (static_cast<double>(ops.size()) + 1 <= copies) ops.push_back(c.make(operands));
    const int64_t scratch = (scratch_bytes(ops[0]) + 63) / 64 * 64;
    const Batch batch;
    Ctx ctx{.batch = batch,
            .pool = pool,
            .shape = {},
            .scratch = operands.bytes(scratch * pool.threads() + 64, 0),
            .scratch_bytes = scratch,
            .shared = operands.bytes(scratch + 64, 0)};
    std::vector<Runner> runners;
    for (const CpuStep<Op>& step : cpu_steps<Op>()) {
      times.steps.push_back({.step = find_step(name, false, step.order)});
      runners.push_back([&ops, &ctx, run = step.run] {
        const auto start = Clock::now();
        for (const Op& op : ops) run(op, ctx);
        return seconds_since(start) / static_cast<double>(ops.size());
      });
    }
    measure(times, runners, rivals, "cpu");
    listener.each(times);
  }
}

}  // namespace

std::span<const StepInfo> steps() { return kSteps; }

void bench_ladders(ThreadPool& pool, const std::vector<std::string>& names, Rivals* rivals, const Listener& listener) {
  check_names(names, false);
  if (rivals != nullptr) rivals->use_threads(pool.threads());
  const Ceilings most = measure_ceilings(pool);
  listener.begin(cpu_name(), {.read_gbs = most.reads.most_gbs(),
                              .copy_gbs = measure_copies(pool),
                              .f32_gflops = most.f32_gflops,
                              .bf16_gflops = most.bf16_gflops,
                              .int8_gops = most.int8_gops});
#define X(TYPE, NAME) \
  if (is_wanted(names, #NAME)) bench_operator<TYPE>(#NAME, pool, rivals, listener);
  INGOT_CPU_LADDERS(X)
#undef X
}

}  // namespace ingot::ladder
