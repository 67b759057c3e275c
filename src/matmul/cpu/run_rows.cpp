// Weights without panels: a block's are decoded to f32 in this thread's scratch, or read in place when they are f32,
// and stay in its L2 cache while the rows of x pass in groups that fit beside them. For many rows they are
// transposed there.
#include <algorithm>

#include "matmul/cpu/kernels.h"
#include "matmul/cpu/tasks.h"

namespace ingot::cpu {
namespace {

// Bytes of decoded weights of a task and of the rows of x that pass at once: a quarter each of a second
// level cache of 1 MiB, the rest being what the hardware and the other hyperthread want.
constexpr int64_t kPanelBytes = 256 << 10;
constexpr int64_t kPassBytes = 256 << 10;
constexpr int64_t kMaxPanel = 64;  // weight rows of a task
constexpr int64_t kMaxPass = 96;   // rows of x at once
constexpr int64_t kRowStep = 12;   // a multiple of every kernel's tile of rows

// Floats of a decoded row, not a multiple of 4096 bytes: those would share cache sets.
int64_t stride_of(const Product& product) { return (product.cols() + 15) / 16 * 16 + 16; }

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

// Outputs of a task's panels: of gate, then of up.
int64_t outer_outputs(const Product& product, int64_t n) {
  return round_up(n, kernels().outer.cols) * (product.is_glu() ? 2 : 1);
}

// The parts of a thread's scratch, in floats: panels, rows to be transposed, sums and those on their way.
struct OuterScratch {
  OuterScratch(const Product& product, const TaskCut& cut, int64_t n)
      : rows_at(n / kernels().outer.cols * kernels().outer.panel(product.cols())),
        sums_at(rows_at + kOuterGroup * stride_of(product)),
        room_at(sums_at + n * cut.pass),
        all(room_at + kernels().outer.room(cut.pass, n)) {}
  int64_t rows_at, sums_at, room_at, all;
};

// `outputs` of the product. A pass of x meets some lanes of K of all panels before it meets the next (outer_dots.h), so
// that neither has to fit a cache whole.
TaskCut outer_cut(const Product& product, TaskCut cut, int64_t outputs, int threads) {
  const int64_t cols = kernels().outer.cols, parts = product.is_glu() ? 2 : 1;
  cut.block = round_up(std::clamp(outputs / (4 * threads), cols, kMaxPanel / parts), cols);
  cut.pass = kMaxPass;
  cut.scratch = OuterScratch(product, cut, outer_outputs(product, cut.block)).all * static_cast<int64_t>(sizeof(float));
  return cut;
}

// The rows of a block as panels, from place `at` on.
void pack_rows(const Weight& w, const TaskBlock& block, int64_t at, float* panels, float* opened, int64_t stride) {
  const float* rows[kOuterGroup];
  for (int64_t i = 0; i < block.n; i += kOuterGroup) {
    const int64_t n = std::min(kOuterGroup, block.n - i);
    open_rows(w, block.first + i, n, opened, stride, rows);
    kernels().outer.pack(rows, at + i, n, w.cols, panels);
  }
}

void run_outer(const Product& product, const TaskBlock& block, const TaskCut& cut, const XRow* x, int64_t rows,
               std::byte* scratch) {
  const OuterDots& outer = kernels().outer;
  const int64_t n = outer_outputs(product, block.n), up = n / 2, stride = stride_of(product);
  const OuterScratch at(product, cut, n);
  float* panels = reinterpret_cast<float*>(scratch);
  float *opened = panels + at.rows_at, *sums = panels + at.sums_at;
  pack_rows(*product.parts[block.part].weight, block, 0, panels, opened, stride);
  if (product.is_glu()) pack_rows(*product.parts[1].weight, block, up, panels, opened, stride);
  for (int64_t t = 0; t < rows; t += cut.pass) {
    const int64_t pass = std::min(cut.pass, rows - t);
    outer.dots(x[t].outer, pass, panels, n, product.cols(), sums, n, panels + at.room_at);
    for (int64_t i = 0; i < pass; ++i) finish_row(product, block, t + i, sums + i * n, sums + i * n + up);
  }
}

}  // namespace

TaskCut rows_cut(const Product& product, int64_t rows, int threads) {
  const int64_t cols = product.cols(), stride = stride_of(product);
  const int64_t parts = product.is_glu() ? 2 : 1;
  TaskCut cut{};
  cut.block = std::clamp(kPanelBytes / (stride * 4) / parts, int64_t{8}, kMaxPanel / parts);
  int64_t outputs = 0;
  for (size_t p = 0; p < static_cast<size_t>(product.is_glu() ? 1 : product.n_parts); ++p)
    outputs += product.parts[p].weight->rows;
  // Four tasks or more for each thread, so that none waits long for the last one.
  cut.block = std::min(cut.block, std::max<int64_t>(outputs / (4 * threads), 8));
  cut.block = cut.block / 8 * 8;
  cut.pass = std::clamp(kPassBytes / (cols * 4) / kRowStep * kRowStep, kRowStep, kMaxPass);
  cut.scratch = parts * cut.block * (stride + cut.pass) * static_cast<int64_t>(sizeof(float));
  return rows >= kOuterFrom ? outer_cut(product, cut, outputs, threads) : cut;
}

void run_rows(const Product& product, const TaskBlock& block, const TaskCut& cut, const XRow* x, int64_t rows,
              std::byte* scratch) {
  if (rows >= kOuterFrom) return run_outer(product, block, cut, x, rows, scratch);
  const Kernels& k = kernels();
  const int64_t stride = stride_of(product);
  const int64_t panel_rows = product.is_glu() ? 2 * cut.block : cut.block;
  float* panel = reinterpret_cast<float*>(scratch);
  float* sums = panel + panel_rows * stride;  // [rows of the pass, panel_rows]
  const float* weights[kMaxPanel];
  const float* values[kMaxPass];
  int64_t n = block.n;
  open_rows(*product.parts[block.part].weight, block.first, block.n, panel, stride, weights);
  if (product.is_glu()) {
    open_rows(*product.parts[1].weight, block.first, block.n, panel + n * stride, stride, weights + n);
    n *= 2;
  }
  for (int64_t t = 0; t < rows; t += cut.pass) {
    const int64_t pass = std::min(cut.pass, rows - t);
    for (int64_t i = 0; i < pass; ++i) values[i] = x[t + i].values;
    k.dots(values, pass, weights, n, product.cols(), sums, panel_rows);
    for (int64_t i = 0; i < pass; ++i)
      finish_row(product, block, t + i, sums + i * panel_rows, sums + i * panel_rows + block.n);
  }
}

}  // namespace ingot::cpu
