// A task is a block of output rows of one part (of gate and up together for glu): their weights are
// decoded to f32 in this thread's scratch, or read in place when they are f32, and stay in its second
// level cache while the rows of x pass in groups that fit beside them.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu_math.h"
#include "ops/kernels.h"
#include "ops/linear/linear.h"

namespace ingot::cpu {
namespace {

// Bytes of decoded weights of a task and of the rows of x that pass at once: a quarter each of a second
// level cache of 1 MiB, the rest being what the hardware and the other hyperthread want.
constexpr int64_t kPanelBytes = 256 << 10;
constexpr int64_t kPassBytes = 256 << 10;
constexpr int64_t kMaxPanel = 64;  // weight rows of a task
constexpr int64_t kMaxPass = 96;   // rows of x at once
constexpr int64_t kRowStep = 12;   // a multiple of every kernel's tile of rows

// How an op is cut. No value depends on it.
struct Cut {
  int64_t stride;  // floats of a decoded row, not a multiple of 4096 bytes: those would share cache sets
  int64_t block;   // output rows of a task
  int64_t pass;    // rows of x at once
  int64_t panel_rows(const Linear& op) const { return op.is_glu() ? 2 * block : block; }
  int64_t scratch_floats(const Linear& op) const { return panel_rows(op) * (stride + pass); }
};

Cut cut_of(const Linear& op, int threads) {
  const int64_t cols = op.x.cols;
  Cut cut{};
  cut.stride = (cols + 15) / 16 * 16 + 16;
  const int64_t parts = op.is_glu() ? 2 : 1;
  cut.block = std::clamp(kPanelBytes / (cut.stride * 4) / parts, int64_t{8}, kMaxPanel / parts);
  int64_t outputs = 0;
  for (size_t p = 0; p < static_cast<size_t>(op.is_glu() ? 1 : op.n_parts); ++p) outputs += op.parts[p].weight.rows;
  // Four tasks or more for each thread, so that none waits long for the last one.
  cut.block = std::min(cut.block, std::max<int64_t>(outputs / (4 * threads), 8));
  cut.block = cut.block / 8 * 8;
  cut.pass = std::clamp(kPassBytes / (cols * 4) / kRowStep * kRowStep, kRowStep, kMaxPass);
  return cut;
}

bool in_place(const Weight& w) {
  return w.format == Format::kF32 && w.scale == nullptr && reinterpret_cast<uintptr_t>(w.data) % alignof(float) == 0 &&
         w.row_bytes % static_cast<int64_t>(sizeof(float)) == 0;
}

// Row n of w as floats.
void decode_row(const Weight& w, int64_t n, float* out) {
  kernels().decoders[static_cast<size_t>(w.format)](w.row(n), out, w.cols);
  if (w.scale == nullptr) return;
  const float* scale = w.scale + n / w.scale_rows * w.scale_stride;
  for (int64_t first = 0; first < w.cols; first += w.scale_cols, ++scale) {
    const int64_t end = std::min(w.cols, first + w.scale_cols);
    for (int64_t k = first; k < end; ++k) out[k] *= *scale;
  }
}

// Pointers to the f32 rows [first, first + n) of w, decoded into `panel` where they must be.
void open_rows(const Weight& w, int64_t first, int64_t n, float* panel, int64_t stride, const float** rows) {
  const bool direct = in_place(w);
  for (int64_t i = 0; i < n; ++i) {
    if (direct) {
      rows[i] = reinterpret_cast<const float*>(w.row(first + i));
    } else {
      decode_row(w, first + i, panel + i * stride);
      rows[i] = panel + i * stride;
    }
  }
}

void add_bias(const Weight& bias, int64_t first, int64_t n, float* sums) {
  if (!bias) return;
  const float* b = reinterpret_cast<const float*>(bias.data) + first;
  for (int64_t i = 0; i < n; ++i) sums[i] += b[i];
}

struct Block {
  size_t part;
  int64_t first, n;  // output rows
};

// What follows the sums of one row of x: `sums` of the block, then of the same rows of `up` for glu.
void finish_row(const Linear& op, const Block& block, int64_t t, float* sums, float* up) {
  const Linear::Part& part = op.parts[block.part];
  float* out = part.out.f32(t) + block.first;
  add_bias(part.bias, block.first, block.n, sums);
  if (op.is_glu()) {
    add_bias(op.parts[1].bias, block.first, block.n, up);
    with_activation(op.glu, [&](auto f) {
      for (int64_t i = 0; i < block.n; ++i) out[i] = f(sums[i]) * up[i];
    });
  } else if (op.residual) {
    const float* residual = op.residual.f32(t) + block.first;
    for (int64_t i = 0; i < block.n; ++i) out[i] = residual[i] + sums[i];
  } else {
    std::memcpy(out, sums, static_cast<size_t>(block.n) * sizeof(float));
  }
}

void run_block(const Linear& op, const Block& block, const Cut& cut, int64_t rows, float* scratch) {
  const Kernels& k = kernels();
  const int64_t panel_rows = cut.panel_rows(op);
  float* panel = scratch;
  float* sums = scratch + panel_rows * cut.stride;  // [rows of the pass, panel_rows]
  const float* weights[kMaxPanel];
  const float* x[kMaxPass];
  int64_t n = block.n;
  open_rows(op.parts[block.part].weight, block.first, block.n, panel, cut.stride, weights);
  if (op.is_glu()) {
    open_rows(op.parts[1].weight, block.first, block.n, panel + n * cut.stride, cut.stride, weights + n);
    n *= 2;
  }
  for (int64_t t = 0; t < rows; t += cut.pass) {
    const int64_t pass = std::min(cut.pass, rows - t);
    for (int64_t i = 0; i < pass; ++i) x[i] = op.x.f32(t + i);
    k.dots(x, pass, weights, n, op.x.cols, sums, panel_rows);
    for (int64_t i = 0; i < pass; ++i)
      finish_row(op, block, t + i, sums + i * panel_rows, sums + i * panel_rows + block.n);
  }
}

}  // namespace

void prepare(Linear& op, Prepare& p) {
  kernels();  // a wrong INGOT_ISA is told at load
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    const Weight& w = op.parts[i].weight;
    CHECK(w.cols == op.x.cols, "weight {} has {} columns, x {}", w.name, w.cols, op.x.cols);
    CHECK(i == 0 || !op.is_glu() || w.rows == op.parts[0].weight.rows, "weight {} has {} rows", w.name, w.rows);
  }
  const int64_t bytes = cut_of(op, p.threads).scratch_floats(op) * static_cast<int64_t>(sizeof(float));
  p.need_scratch(bytes);
}

void run(const Linear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  const Cut cut = cut_of(op, ctx.pool.threads());
  const size_t parts = op.is_glu() ? 1 : static_cast<size_t>(op.n_parts);
  int64_t tasks = 0;
  for (size_t p = 0; p < parts; ++p) tasks += (op.parts[p].weight.rows + cut.block - 1) / cut.block;
  ctx.pool.run(tasks, [&](int64_t task, int thread) {
    Block block{0, 0, 0};
    while (true) {
      const int64_t blocks = (op.parts[block.part].weight.rows + cut.block - 1) / cut.block;
      if (task < blocks) break;
      task -= blocks;
      ++block.part;
    }
    block.first = task * cut.block;
    block.n = std::min(cut.block, op.parts[block.part].weight.rows - block.first);
    run_block(op, block, cut, rows, ctx.scratch_of<float>(thread));
  });
}

}  // namespace ingot::cpu
