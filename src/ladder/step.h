// What an operator of the ladders is made of. src/ladder/<operator>/ holds its contract, its reference and its steps,
// each with one idea more:
//
//   <operator>.h         struct <Operator> with each() and cost() (ops/ctx.h), or the product's header where ops/ has
//   it;
//                        and ladder_cases<Operator>(), the sizes that are measured
//   <operator>_ref.cpp   ref::run()
//   <operator>_test.cpp  every step against it, by check_steps() of step_test_support.h
//   1_plain.cu …         steps on a CUDA device: void run(const <Operator>&, Ctx&) in namespace ingot::cuda::INGOT_STEP
//   c1_plain.cpp …       steps on the CPU: the same in namespace ingot::cpu::INGOT_ISA::INGOT_STEP
//
// The first line of a step is its reason. cmake/ladder.cmake takes order and name from the file's name and the reason
// from there: a new file is tested and measured with the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ops/ctx.h"
#include "quant/weight.h"
#include "tensor/tensor.h"

namespace ingot {
namespace cuda {
struct Ctx;
}

namespace ladder {

template <class Op>
struct CudaStep {
  int order;
  void (*run)(const Op& op, cuda::Ctx& ctx);
};
template <class Op>
struct CpuStep {
  int order;
  void (*run)(const Op& op, Ctx& ctx);
};

// The steps of an operator, in order; those of the CPU for the instruction set in use. Written by CMake for every one.
template <class Op>
std::span<const CudaStep<Op>> cuda_steps();
template <class Op>
std::span<const CpuStep<Op>> cpu_steps();

enum class Target : uint8_t { kCpu, kCuda, kEmulated };

// What a memory-bound operator can reach at most.
enum class Limit : uint8_t { kRead, kCopy };
enum class Multiplier : uint8_t { kF32, kBf16, kInt8, kFp8 };

// A matrix with so many rows in every step.
inline Tensor fixed_tensor(std::byte* data, int64_t rows, int64_t cols, DType dtype = DType::kF32) {
  Tensor t;
  t.data = data;
  t.dtype = dtype;
  t.rows = {RowKind::kFixed, 1, rows};
  t.cols = t.stride = cols;
  return t;
}

// Memory for the operands of a case, where its steps run. It lives as long as the Operands.
class Operands {
 public:
  virtual ~Operands() = default;
  virtual Target target() const = 0;
  // 256-byte aligned; all bytes are `value`.
  virtual std::byte* bytes(int64_t count, int value) = 0;
  // Random in [-1, 1).
  virtual Tensor tensor(int64_t rows, int64_t cols, DType dtype = DType::kF32) = 0;
  // n random uint32, all bits or smaller than `below`, as a row of n.
  virtual Tensor words(int64_t n, uint32_t below = 0) = 0;
  virtual Tensor ints(int64_t rows, int64_t cols, const std::vector<int32_t>& values) = 0;
  // [n] f32.
  Weight weight(int64_t n) {
    Weight w;
    w.name = "random";
    w.format = Format::kF32;
    w.rows = 1;
    w.cols = n;
    w.row_bytes = 4 * n;
    w.data = tensor(1, n).data;
    return w;
  }
};

// An operator at one size.
template <class Op>
struct LadderCase {
  std::vector<int64_t> size;  // {rows, cols}, {elements}, {M, N, K}: rivals are told it
  std::string dtype = "f32";
  std::string variant = {};  // where a size alone does not say it: "one bin"
  Limit limit = Limit::kCopy;
  Multiplier multiplies = Multiplier::kF32;
  std::string unit = "GB/s";  // or "TFLOP/s", "GFLOP/s", or "Gkey/s" of `items`
  double items = 0;
  std::function<Op(Operands&)> make = {};  // with operands of its own at each call
};

// What is measured: small sizes where the host plays the device.
template <class Op>
std::vector<LadderCase<Op>> ladder_cases(Target target);

// Bytes of ctx.scratch (on the CPU of each thread's, and of ctx.shared) that the hungriest step wants. Nobody has
// written there.
template <class Op>
int64_t scratch_bytes(const Op&) {
  return 0;
}

// What steps on a CUDA device want made of the operands once, and not measured: weights in another order.
template <class Op>
void prepare(const Op&, cuda::Ctx&) {}

}  // namespace ladder
}  // namespace ingot
