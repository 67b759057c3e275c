// 4 x 4 values are turned in vector registers, 16 x 16 of them at a time: four values for each load and store.
#include "ladder/cpu_step.h"
#include "ladder/transpose/transpose.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

Vec4 load4(const float* p) {
  Vec4 v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
void store4(float* p, Vec4 v) {
#if defined(__ARM_NEON)
  vst1q_f32(p, (float32x4_t)v);
#else
  __builtin_memcpy(p, &v, sizeof(v));
#endif
}

void turn4(const float* x, int64_t x_stride, float* out, int64_t out_stride) {
  const Vec4 a = load4(x), b = load4(x + x_stride), c = load4(x + 2 * x_stride), d = load4(x + 3 * x_stride);
  const Vec4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vec4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store4(out, __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5));
  store4(out + out_stride, __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7));
  store4(out + 2 * out_stride, __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5));
  store4(out + 3 * out_stride, __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7));
}

constexpr int64_t kBlock = 16;

void turn_block(const Tensor& x, const Tensor& out, int64_t top, int64_t left) {
  for (int64_t c = left; c < left + kBlock; c += 4)
    for (int64_t r = top; r < top + kBlock; r += 4) turn4(x.f32(r) + c, x.stride, out.f32(c) + r, out.stride);
}

}  // namespace

void run(const Transpose& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  split_rows(ctx, (cols + kBlock - 1) / kBlock, 8 * kBlock * rows, [&](int64_t first, int64_t last) {
    for (int64_t left = first * kBlock; left < last * kBlock; left += kBlock) {
      int64_t top = 0;
      if (left + kBlock <= cols)
        for (; top + kBlock <= rows; top += kBlock) turn_block(op.x, op.out, top, left);
      for (int64_t c = left; c < left + kBlock && c < cols; ++c)
        for (int64_t r = top; r < rows; ++r) op.out.f32(c)[r] = op.x.f32(r)[c];
    }
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
