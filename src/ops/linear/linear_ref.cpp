#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"

namespace ingot::ref {
namespace {

// Sixteen sums, so that the compiler may keep them in vectors, then one.
float dot(const float* a, const float* b, int64_t n) {
  float sums[16] = {};
  int64_t k = 0;
  for (; k + 16 <= n; k += 16)
    for (int64_t lane = 0; lane < 16; ++lane) sums[lane] += a[k + lane] * b[k + lane];
  double total = 0;
  for (float sum : sums) total += static_cast<double>(sum);
  for (; k < n; ++k) total += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return static_cast<float>(total);
}

double activated(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kSilu:
      return x / (1 + std::exp(-x));
    case ActivationKind::kGelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::kGeluTanh:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kRelu:
      return x > 0 ? x : 0;
    case ActivationKind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ActivationKind::kClampedSwiglu:
      break;
  }
  return x;
}

// f(gate) · up.
double gated(ActivationKind kind, double gate, double up) {
  if (kind != ActivationKind::kClampedSwiglu) return activated(kind, gate) * up;
  const double g = gate > 7 ? 7 : gate, u = up > 7 ? 7 : up < -7 ? -7 : up;
  return g / (1 + std::exp(-1.702 * g)) * (u + 1);
}

// Row n of every part, for all rows of x. `weights` and `sums` are this thread's.
void output_column(const Linear& op, const Tensor& x, int64_t rows, size_t p, int64_t n, std::vector<float>& weights) {
  const Linear::Part& part = op.parts[p];
  weights.resize(static_cast<size_t>(op.x.cols));
  part.weight.decode_row(n, weights.data());
  float bias = 0;
  if (part.bias) std::memcpy(&bias, part.bias.row(0) + n * 4, sizeof(bias));
  for (int64_t t = 0; t < rows; ++t) {
    const float sum = dot(x.f32(t), weights.data(), op.x.cols) + bias;
    float& out = op.parts[op.is_glu() ? 0 : p].out.f32(t)[n];
    if (op.is_glu() && p == 1) {
      out = static_cast<float>(gated(op.glu, static_cast<double>(out), static_cast<double>(sum)));
    } else if (op.residual) {
      out = op.residual.f32(t)[n] + sum;
    } else {
      out = sum;
    }
  }
}

// A [rows, cols] tensor over `memory`.
Tensor over(std::vector<float>& memory, const Tensor& like, int64_t rows) {
  memory.resize(static_cast<size_t>(rows * like.cols));
  Tensor t = like;
  t.data = reinterpret_cast<std::byte*>(memory.data());
  t.stride = like.cols;
  return t;
}

// The rows that the weights meet, by the ops that `input` stands for.
Tensor normed(const Linear& op, Ctx& ctx, std::vector<float>& memory, std::vector<float>& added) {
  const InputNorm& in = op.input;
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  const Tensor out = over(memory, op.x, rows);
  if (!in.add) {
    run(RmsNorm{.x = op.x, .weight = in.weight, .out = out, .width = cols, .eps = in.eps}, ctx);
    return out;
  }
  Tensor add = in.add;
  if (in.add_norm) {
    add = over(added, op.x, rows);
    run(RmsNorm{.x = in.add, .weight = in.add_norm, .out = add, .width = cols, .eps = in.add_eps}, ctx);
  }
  run(AddRmsNorm{.a = op.x, .b = add, .weight = in.weight, .sum = in.sum, .out = out, .eps = in.eps}, ctx);
  return out;
}

void finish_heads(const HeadsOutput& heads, Ctx& ctx) {
  const auto norm = [&](const HeadsOutput::Norm& n, const Tensor& x) {
    if (n.weight) run(RmsNorm{.x = x, .weight = n.weight, .out = x, .width = n.width, .eps = n.eps}, ctx);
  };
  norm(heads.q_norm, heads.rope.q);
  norm(heads.k_norm, heads.rope.k);
  run(heads.rope, ctx);
}

}  // namespace

void run(const Linear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  std::vector<float> memory, added;
  const Tensor x = op.input ? normed(op, ctx, memory, added) : op.x;
  std::vector<std::vector<float>> weights(static_cast<size_t>(ctx.pool.threads()));
  for (size_t p = 0; p < static_cast<size_t>(op.n_parts); ++p) {
    CHECK(op.parts[p].weight.cols == op.x.cols, "weight {}", op.parts[p].weight.name);
    ctx.pool.run(op.parts[p].weight.rows, [&](int64_t n, int thread) {
      output_column(op, x, rows, p, n, weights[static_cast<size_t>(thread)]);
    });
  }
  if (op.heads) finish_heads(op.heads, ctx);
}

}  // namespace ingot::ref
