// The pieces of the product on the CPU: what a task computes, and the two ways to compute it. Inside this folder only.
#pragma once

#include "matmul/cpu/panel_kernels.h"
#include "matmul/product.h"

namespace ingot::cpu {

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
inline int64_t whole_lines(int64_t bytes) { return round_up(bytes, 64); }

// Output rows [first, first + n) of one part; for glu, of gate and up.
struct TaskBlock {
  size_t part;
  int64_t first, n;
};

// How the outputs of a part are cut into tasks. No value depends on it.
struct TaskCut {
  int64_t block;         // output rows of a task, a multiple of 16 for packed parts
  int64_t pass;          // rows of x at once
  int64_t scratch;       // bytes of a thread
  int64_t expanded = 0;  // of them for a piece of K; 0: not in pieces
};

// The tasks of a run over so many rows of x: of all parts, one behind the other. A pool's threads have equal shares.
struct ProductTasks {
  ProductTasks(const Product& product, int64_t rows, int threads);
  TaskBlock block(const Product& product, int64_t task) const;

  TaskCut cuts[3] = {};
  int64_t tasks[3] = {};
  int64_t total = 0;
};

// What follows the sums of row t of x: bias, glu with the sums of `up`, residual; then out.
void finish_row(const Product& product, const TaskBlock& block, int64_t t, float* sums, float* up);

// Weights as they are published, decoded to f32 row by row (run_rows.cpp).
TaskCut rows_cut(const Product& product, int64_t rows, int threads);
void run_rows(const Product& product, const TaskBlock& block, const TaskCut& cut, const XRow* x, int64_t rows,
              std::byte* scratch);

// Packed weights (run_panels.cpp). Up to direct_rows() they are read as they are, beyond it expanded: up to kFewRows
// by as much as the L1 cache holds.
constexpr int64_t kFewRows = 24;
int64_t direct_rows(const Product& product, const ProductPart& part);
TaskCut panels_cut(const Product& product, const ProductPart& part, int64_t rows, int threads);
void run_panels(const Product& product, const TaskBlock& block, const TaskCut& cut, const XRow* x, int64_t rows,
                std::byte* scratch);
// Asks for the first lines of what a task will read.
void fetch_panels(const Product& product, const TaskBlock& block);

// Rows of x from which on weights without panels are transposed, at 0.5 ns a value: at 32 it is worth it.
constexpr int64_t kOuterFrom = 32;

// Which of a row's encodings some part reads.
struct XKinds {
  bool outer = false;      // tiles of OuterDots
  bool quantized = false;  // int8 with a scale for each 32 values
  bool coarse = false;     //   for each 128
  bool bf16 = false, f16 = false;
  int fields = 0;       // of XBlock, for the first: what all kernels read
  int many_fields = 0;  //   and those for more than kFewRows
};

XKinds kinds_of(const Product& product);

// Computes a task in this thread's scratch. `x` are the rows as XRows made them.
void run_task(const Product& product, const TaskBlock& block, const TaskCut& cut, const XRow* x, int64_t rows,
              std::byte* scratch);

// The rows of x as the weights meet them, gathered and normed where the product says so, in memory of bytes()
// (x_rows.cpp).
class XRows {
 public:
  XRows(const Product& product, XKinds kinds, int64_t rows, std::byte* memory);
  static int64_t bytes(const Product& product, XKinds kinds, int64_t rows);

  // Makes rows [t, t + n) of all; t is a multiple of at_once(). Such groups are independent of each other.
  void make(int64_t t, int64_t n) const;
  int64_t at_once() const;
  const XRow* rows() const { return reinterpret_cast<const XRow*>(memory_); }

 private:
  struct Layout {
    Layout(const Product& product, XKinds kinds, int64_t rows);
    int64_t blocks = 0, q = 0, wide = 0, bf16 = 0, f16 = 0, values = 0;  // bytes of each of a row
    int64_t coarse = 0, quarters_at = 0;                                 // where the second encoding lies
    int64_t bf16_at = 0, f16_at = 0, values_at = 0;                      //   and the floats
    int64_t rows, pair = 0, first_pair = 0;                              // of bf16, where rows lie in pairs
    int64_t row = 0;                                                     // bytes of all
    // Of each encoding's tiles: their number, from one to the next, from a piece of K to the next (0: all of K in one),
    // bytes of all.
    struct Tiles {
      int64_t n = 0, step = 0, gap = 0, bytes = 0;
    };
    Tiles fine_tiles, coarse_tiles, outer_tiles;
    int fields = 0;                         // of XBlock
    int64_t first_row = 0, first_tile = 0;  // behind the XRows

    Tiles tiles_of(int64_t cols, bool coarse_x) const;
  };
  void make_row(int64_t t) const;
  void pack_outer(int64_t t, int64_t n) const;
  // The row as floats: in place, or normed into `room`.
  const float* open(int64_t t, float* room) const;

  const Product& product_;
  const XKinds kinds_;
  const Layout layout_;
  std::byte* memory_;
};

}  // namespace ingot::cpu
