// Only add, subtract, multiply and divide of vectors: the root by Newton's steps from an integer guess, no comparison.
#include "ladder/cpu_step.h"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

// Half the exponent, and a constant that makes the largest error the least: within 3.5 % of the root. Each step of
// Newton's squares the error: 6e-4, 2e-7, then what rounding leaves.
float root_of(float v) {
  float root = __builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, v) >> 1) + 0x1fbb4f2eu);
  for (int i = 0; i < 4; ++i) root = 0.5f * (root + v / root);
  return root;
}

float sum_of(const Vec* lanes) {
  const Vec4 four = fold(lanes);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

void layer_norm_row(const float* x, const float* weight, const float* bias, float* out, int64_t n, float eps) {
  const int64_t whole = n / kLanes * kLanes;
  Vec lanes[kVecs] = {};
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int v = 0; v < kVecs; ++v) lanes[v] += load(x + i + v * kVecLanes);
  float sum = sum_of(lanes);
  for (int64_t i = whole; i < n; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(n);
  const Vec means = broadcast(mean);
  for (Vec& lane : lanes) lane = Vec{};
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int v = 0; v < kVecs; ++v) {
      const Vec off = load(x + i + v * kVecLanes) - means;
      lanes[v] += off * off;
    }
  }
  float squares = sum_of(lanes);
  for (int64_t i = whole; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = 1.0f / root_of(squares / static_cast<float>(n) + eps);
  const Vec scales = broadcast(scale);
  for (int64_t i = 0; i < whole; i += kVecLanes) {
    const Vec normal = (load(x + i) - means) * scales * load(weight + i);
    store(out + i, bias != nullptr ? normal + load(bias + i) : normal);
  }
  for (int64_t i = whole; i < n; ++i) {
    const float normal = (x[i] - mean) * scale * weight[i];
    out[i] = bias != nullptr ? normal + bias[i] : normal;
  }
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  const auto* weight = reinterpret_cast<const float*>(op.weight.data);
  const auto* bias = reinterpret_cast<const float*>(op.bias.data);
  split_rows(ctx, ctx.rows(op.x), 3 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) layer_norm_row(op.x.f32(r), weight, bias, op.out.f32(r), op.x.cols, op.eps);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
