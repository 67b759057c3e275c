// Tensors of more than 2^31 elements, for the tests of what kernels do with such indices. A few rows on the host lie on
// the device again and again, so that every row's answer is known; the number of them divides no power of two, so that
// an index that has lost its upper bits finds another row. The same checks run small where the host plays the device.
#pragma once

#include "matmul/cuda/cuda_blas.h"
#include "ops/cuda/cuda_test_support.h"

// At the begin of a test that needs `bytes` of a real device's memory.
#define INGOT_NEEDS_ROOM(bytes)                                                                             \
  INGOT_NEEDS_DEVICE();                                                                                     \
  if (::ingot::cuda::is_emulated()) GTEST_SKIP() << "the host plays the device, and this needs a real one"; \
  if (const std::string why = ::ingot::test::no_room(bytes); !why.empty()) GTEST_SKIP() << why

namespace ingot::test {

inline constexpr int64_t kTooMany = int64_t{1} << 31;  // elements
inline constexpr int64_t kGib = int64_t{1} << 30;

// Empty where the device has so much free.
inline std::string no_room(int64_t bytes) {
  cuda::use_device(0);
  const int64_t free = cuda::device_facts().free_bytes;
  if (free >= bytes) return {};
  return "the device has " + std::to_string(free >> 20) + " MiB free, and this needs " + std::to_string(bytes >> 20);
}

// `bytes` of the device, filled with what the host has at `from`, again and again.
inline std::byte* repeat_on_device(DeviceRig& rig, const void* from, int64_t n, int64_t bytes) {
  std::byte* to = rig.allocate(bytes);
  cuda::copy_to_device(to, from, std::min(n, bytes), rig.stream());
  for (int64_t filled = n; filled < bytes; filled *= 2)
    cuda::copy_on_device(to + filled, to, std::min(filled, bytes - filled), rig.stream());
  rig.synchronize();
  return to;
}

// Rows to look at of `rows` rows that are `stride` elements apart: the first and the last `few`, and those around the
// elements 2^31 and 2^32 bytes from the first.
inline std::vector<int64_t> looked_at(int64_t rows, int64_t stride, int64_t few) {
  std::vector<int64_t> result;
  for (const int64_t middle :
       {few / 2, kTooMany / 4 / stride, kTooMany / 2 / stride, kTooMany / stride, rows - few / 2})
    for (int64_t r = middle - few / 2 - 1; r <= middle + few / 2 + 1; ++r)
      if (r >= 0 && r < rows) result.push_back(r);
  return result;
}

// Runs an op on the device with each row of its tensors as often as makes `rows` of them, and by the reference with
// those that the host has.
class Repeated {
 public:
  // `few`: the rows of the host's tensors.
  Repeated(int few, int64_t rows)
      : few_(few), rows_(rows), few_batch_(rows_batch(few)), batch_(rows_batch(static_cast<int>(rows))) {}

  // `outs` are within the tolerance of the reference's. `blas`: null for products of our own.
  template <class Op>
  void check(const Op& op, std::initializer_list<Buffer*> outs, const Tolerance& tolerance,
             std::initializer_list<Buffer*> inouts = {}, cuda::Blas* blas = nullptr) {
    std::vector<std::vector<std::byte>> saved;
    for (Buffer* b : inouts) saved.push_back(b->save());
    run_ref(op, few_batch_);
    std::vector<std::pair<Buffer*, std::vector<float>>> want;
    for (auto list : {outs, inouts})
      for (Buffer* b : list) want.emplace_back(b, b->values());
    size_t i = 0;
    for (Buffer* b : inouts) b->restore(saved[i++]);

    DeviceRig rig(batch_);
    const std::map<const void*, Tensor> placed = run(op, rig, blas);
    for (const auto& [buffer, values] : want)
      compare(rig, placed.at(buffer->tensor().data), values, buffer->cols(), tolerance);
  }

 private:
  struct Placer {
    Repeated& all;
    DeviceRig& rig;
    std::map<const void*, Tensor>& placed;
    void place(Tensor& t, bool filled) {
      const void* host = t.data;
      const int64_t row_bytes = t.stride * dtype_bytes(t.dtype), bytes = all.rows_ * row_bytes;
      if (const auto known = placed.find(host); known != placed.end()) {
        t.data = known->second.data;
      } else {
        t.data = filled ? repeat_on_device(rig, host, all.few_ * row_bytes, bytes) : rig.allocate(bytes);
        placed[host] = t;
      }
    }
    void in(Tensor& t) { place(t, true); }
    void out(Tensor& t) { place(t, false); }
    void inout(Tensor& t) { place(t, true); }
    void weight(Weight& w) { w = rig.to_device(w); }
    void alias(Tensor&, Tensor&) {}
  };

  // Where the op's tensors are on the device, by their places on the host.
  template <class Op>
  std::map<const void*, Tensor> run(Op op, DeviceRig& rig, cuda::Blas* blas) {
    std::map<const void*, Tensor> placed;
    op.each(Placer{*this, rig, placed});
    cuda::Prepare prepare = rig.preparation();
    prepare.blas = blas;
    cuda::prepare(op, prepare);
    const cuda::DeviceMemory scratch(prepare.scratch_bytes);
    cuda::Ctx c = rig.ctx();
    c.scratch = scratch.data();
    c.scratch_bytes = scratch.bytes();
    c.blas = blas;
    cuda::run(op, c);
    rig.synchronize();
    rig.expect_nothing_left();
    return placed;
  }
  void compare(DeviceRig& rig, const Tensor& t, const std::vector<float>& want, int64_t cols,
               const Tolerance& tolerance) const {
    std::vector<float> got(static_cast<size_t>(cols));
    for (const int64_t r : looked_at(rows_, t.stride, few_)) {
      rig.download(got.data(), reinterpret_cast<const std::byte*>(t.f32(r)), cols * 4);
      const auto begin = want.begin() + static_cast<ptrdiff_t>(r % few_ * cols);
      const std::vector<float> expected(begin, begin + static_cast<ptrdiff_t>(cols));
      const auto of_row = [&](int64_t, int64_t c, double x) { return tolerance(r % few_, c, x); };
      expect_near(got, expected, cols, of_row, "row " + std::to_string(r));
      if (testing::Test::HasFailure()) return;
    }
  }

  const int few_;
  const int64_t rows_;
  const Batch few_batch_, batch_;
};

}  // namespace ingot::test
