// The test of every step of an operator against its reference.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device_test_support.h"
#include "ladder/ladder.h"
#include "ladder/operators.inc"
#include "ops/cuda/ops.h"
#include "ops/row_op_test_support.h"

namespace ingot::test {

inline constexpr Rows kFixedRows{RowKind::kFixed, 1, 0};

// Values with ties, both infinities, NaN, zeros of both signs, the smallest and the largest.
inline float odd_value(Random& random) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float odd[] = {0.0f, -0.0f, kInf, -kInf, NAN, 1e-45f, -3.4e38f, 3.4e38f, 1.0f, 1.0f};
  return random.below(8) == 0 ? odd[random.below(10)] : random.outlier();
}

// The tensors of an op, for Op::each().
struct TensorLists {
  std::vector<Tensor*> ins, outs;
  std::vector<bool> kept;  // of each of outs: it is read too
  std::vector<Weight*> weights;

  void in(Tensor& t) { ins.push_back(&t); }
  void out(Tensor& t) {
    outs.push_back(&t);
    kept.push_back(false);
  }
  void inout(Tensor& t) {
    outs.push_back(&t);
    kept.push_back(true);
  }
  void weight(Weight& w) { weights.push_back(&w); }
  void alias(Tensor&, Tensor&) {}
};

// The rows of a tensor without what lies between them.
inline std::vector<std::byte> bytes_of(const Tensor& t) {
  const int64_t row = t.cols * dtype_bytes(t.dtype), stride = t.stride * dtype_bytes(t.dtype);
  std::vector<std::byte> all;
  for (int64_t r = 0; r < t.rows.b; ++r) all.insert(all.end(), t.data + r * stride, t.data + r * stride + row);
  return all;
}
inline void set_bytes(const Tensor& t, const std::vector<std::byte>& all) {
  const int64_t row = t.cols * dtype_bytes(t.dtype), stride = t.stride * dtype_bytes(t.dtype);
  for (int64_t r = 0; r < t.rows.b; ++r)
    if (row > 0) std::memcpy(t.data + r * stride, all.data() + r * row, static_cast<size_t>(row));
}
inline void poison(const Tensor& t) {
  set_bytes(t, std::vector<std::byte>(static_cast<size_t>(t.rows.b * t.cols * dtype_bytes(t.dtype)), std::byte{0x5c}));
}
inline float value_at(const std::vector<std::byte>& all, size_t i, DType dtype) {
  uint32_t word = 0;
  std::memcpy(&word, all.data() + i * static_cast<size_t>(dtype_bytes(dtype)), static_cast<size_t>(dtype_bytes(dtype)));
  if (dtype == DType::kF32) return std::bit_cast<float>(word);
  return dtype == DType::kBF16 ? bf16_to_f32(static_cast<uint16_t>(word)) : f16_to_f32(static_cast<uint16_t>(word));
}

struct StepChecks {
  Tolerance tolerance = exact();
  bool bits = false;  // every bit is the reference's: for what is moved, and for integers
  // Writes the outputs; without it the operator's ref::run() does, which knows f32 alone.
  std::function<void()> reference = {};
};

inline void expect_result(const Tensor& out, const std::vector<std::byte>& want, const StepChecks& checks,
                          const std::string& what) {
  const std::vector<std::byte> got = bytes_of(out);
  if (checks.bits) {
    EXPECT_TRUE(got == want) << what;
    return;
  }
  int bad = 0;
  for (size_t i = 0; i < got.size() / static_cast<size_t>(dtype_bytes(out.dtype)) && bad < 5; ++i) {
    const float a = value_at(got, i, out.dtype), b = value_at(want, i, out.dtype);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const int64_t r = static_cast<int64_t>(i) / out.cols, c = static_cast<int64_t>(i) % out.cols;
    const double allowed = checks.tolerance(r, c, b);
    if (std::fabs(static_cast<double>(a) - static_cast<double>(b)) <= allowed) continue;  // false for NaN
    ++bad;
    ADD_FAILURE() << what << ": (" << r << ", " << c << ") is " << a << ", want " << b << " ± " << allowed;
  }
}

// `run(op, what)` for each step; afterwards the op's outputs are compared with what the reference gave.
template <class Op>
class StepChecker {
 public:
  StepChecker(Op& op, StepChecks checks) : op_(op), checks_(std::move(checks)) {
    op.each(lists_);
    for (const Tensor* t : lists_.outs) before_.push_back(bytes_of(*t));
    prepare_outs();
    if (checks_.reference) {
      checks_.reference();
    } else {
      run_ref(op, batch_);
    }
    for (const Tensor* t : lists_.outs) want_.push_back(bytes_of(*t));
  }
  void check_cpu() {
    for_each_kernels([&] {
      for (const auto& step : ladder::cpu_steps<Op>()) {
        std::vector<std::vector<std::byte>> first;
        for (const int threads : {1, 3}) {
          prepare_outs();
          const int64_t bytes = (ladder::scratch_bytes(op_) + 63) / 64 * 64;
          std::vector<std::byte> room(static_cast<size_t>(bytes * (threads + 1) + 64), std::byte{0xff});
          Ctx ctx{.batch = batch_,
                  .pool = pool_of(threads),
                  .shape = {},
                  .scratch = aligned(room),
                  .scratch_bytes = bytes,
                  .shared = aligned(room) + bytes * threads};
          step.run(op_, ctx);
          const std::string what =
              "CPU step " + std::to_string(step.order) + ", " + std::to_string(threads) + " threads";
          compare(what);
          if (threads == 1) first = results();
          EXPECT_TRUE(results() == first) << what << ": other bits than with one";
        }
      }
    });
  }
  void check_cuda() {
    if (cuda::device_count() == 0) return;
    // A GPU takes blocks in an order of its own.
    for (const char* order : {"forward", "reverse", "shuffled"}) {
      setenv("INGOT_EMULATED_ORDER", order, 1);
      for (const auto& step : ladder::cuda_steps<Op>()) {
        prepare_outs();
        run_on_device(step);
        compare("CUDA step " + std::to_string(step.order) + ", blocks " + order);
      }
      if (!cuda::is_emulated()) break;
    }
    unsetenv("INGOT_EMULATED_ORDER");
  }

 private:
  static std::byte* aligned(std::vector<std::byte>& room) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64);
  }
  void prepare_outs() {
    for (size_t i = 0; i < lists_.outs.size(); ++i) {
      if (lists_.kept[i]) {
        set_bytes(*lists_.outs[i], before_[i]);
      } else {
        poison(*lists_.outs[i]);
      }
    }
  }
  std::vector<std::vector<std::byte>> results() const {
    std::vector<std::vector<std::byte>> all;
    for (const Tensor* t : lists_.outs) all.push_back(bytes_of(*t));
    return all;
  }
  void compare(const std::string& what) {
    for (size_t i = 0; i < lists_.outs.size(); ++i)
      expect_result(*lists_.outs[i], want_[i], checks_, what + ", output " + std::to_string(i));
  }
  static int64_t image_bytes(const Tensor& t) {
    return t.rows.b == 0 || t.cols == 0 ? 0 : ((t.rows.b - 1) * t.stride + t.cols) * dtype_bytes(t.dtype);
  }
  void run_on_device(const ladder::CudaStep<Op>& step) {
    TestDevice device({.overlap = false});
    Op twin = op_;
    TensorLists lists;
    twin.each(lists);
    std::vector<std::pair<std::byte*, std::byte*>> written;  // host, device
    for (auto* all : {&lists.ins, &lists.outs}) {
      for (Tensor* t : *all) {
        std::byte* host = t->data;
        if (image_bytes(*t) > 0) t->data = device.upload(host, image_bytes(*t));
        if (all == &lists.outs) written.emplace_back(host, t->data);
      }
    }
    for (Weight* w : lists.weights) w->data = device.upload(w->data, w->bytes());
    cuda::Ctx ctx;
    static_cast<cuda::DeviceCtx&>(ctx) = device.ctx();
    ctx.scratch_bytes = ladder::scratch_bytes(op_);
    ctx.scratch = device.allocate(std::max<int64_t>(ctx.scratch_bytes, 1));
    ladder::prepare(twin, ctx);
    step.run(twin, ctx);
    device.synchronize();
    for (size_t i = 0; i < written.size(); ++i) {
      const int64_t bytes = image_bytes(*lists.outs[i]);
      if (bytes > 0) device.download(written[i].first, written[i].second, bytes);
    }
    device.expect_nothing_left();
  }

  Op& op_;
  const StepChecks checks_;
  Batch batch_;
  TensorLists lists_;
  std::vector<std::vector<std::byte>> before_, want_;
};

// Every step of the operator on these operands (tensors with fixed rows) against the reference: those of the CPU for
// all instruction sets, with one thread and with three, which give the same bits; those of a CUDA device, real or
// emulated with its blocks in three orders. A NaN is like another.
template <class Op>
void check_steps(Op op, const StepChecks& checks) {
  StepChecker<Op> checker(op, checks);
  checker.check_cpu();
  checker.check_cuda();
}

}  // namespace ingot::test
