// The linear kernels over packed panels (quant/panel_layout.h), compiled once for each instruction set
// (panel_kernels_<set>.cpp, all from panel_table.h). Chosen together with matmul/cpu/kernels.h.
#pragma once

#include <cstdint>

#include "quant/panel_layout.h"

namespace ingot::cpu {

// What kernels ask about 32 values of a row of x.
struct XBlock {
  float scale;        // a: x is nearly a · q
  float sum;          // a · Σq
  float half_sum[2];  // the same of the first and second 16
  int32_t total;      // Σq
  int32_t half_total[2];
  int32_t unused;
};
static_assert(sizeof(XBlock) == 32);

// How many of its fields weights of a kind ask for, in this order: a; a · Σq; that of halves; Σq, and of halves.
constexpr int kScaleField = 1, kSumFields = 2, kHalfFields = 4, kAllFields = 7;

// A row of x as int8 with a scale for each 128 values, the last block perhaps shorter: for is_coarse() weights, and for
// is_super() ones where the set has `supers`.
struct XCoarse {
  const int8_t* q = nullptr;
  const int16_t* wide = nullptr;
  const XBlock* blocks = nullptr;  // [(K + 127) / 128]; the fields of halves are not used
  // [K / 32] only where the set has `supers`: the sums of each 32 values, with the scale of the 128 they are in.
  const XBlock* quarters = nullptr;
};

// A row of x quantized to int8, or as it is for 16-bit weights. Rows of one product lie at equal distances, but for
// `values`: those may be gathered.
struct XRow {
  const int8_t* q;  // [K]
  // [K] q again; only where the set wants it. x86-64: as 16 bits, each quad in the order 0 2 1 3. AArch64: each run of
  // 8 bytes twice, for a row alone; may be null.
  const int16_t* wide;
  const XBlock* blocks;  // [K / 32]
  const uint16_t* bf16;  // [K] only where the set wants it, see bf16_pairs
  const uint16_t* f16;   // [K] the same, to be multiplied with f16_scale
  const float* values;   // [K]
  // The tile of OuterDots that begins with this row; only for weights without panels, and many rows.
  const float* outer = nullptr;
  XCoarse coarse = {};
  // The tile of packed rows that this one is in, see pack_tile; only where the set wants it.
  const std::byte* tile = nullptr;
  const std::byte* coarse_tile = nullptr;
  int tile_fields = kAllFields;  // of XBlock that `tile` holds, the first so many
  float f16_scale = 1;
  // Bytes from a piece of K of a tile to the next, see piece_blocks; 0: all of K in one.
  int64_t tile_gap = 0, coarse_gap = 0;
};

// Panels [first, first + n) of a weight.
struct PanelSpan {
  const PackedWeight* weight;
  int64_t first, n;
};

struct PanelKernels {
  const char* name;
  bool wide;  // needs XRow::wide

  // Quantizes n values (a multiple of 32): a = max|x| / 127, q = x / a rounded to nearest even. A block with NaN or
  // infinity has a scale that is not finite, and so have all outputs. `wide` may be null.
  void (*quantize)(const float* x, int64_t n, int8_t* q, int16_t* wide, XBlock* blocks);

  // The same with one scale for each 128 values. `quarters` may be null.
  void (*quantize_coarse)(const float* x, int64_t n, int8_t* q, int16_t* wide, XBlock* blocks, XBlock* quarters);

  // x as bf16, for weights of bf16; null: the set reads XRow::values.
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out);

  // x divided by a power of two, which it gives, as f16, for weights of f16; null: the set reads XRow::values.
  float (*to_f16)(const float* x, int64_t n, uint16_t* out);

  // out[r · stride + i] = row r of x · row i of the span, for the 16 · span.n outputs of its panels, rows past the
  // weight's last included.
  void (*run)(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride);

  // The same for many rows, in two steps: expand() once into `memory` of expanded_bytes(), then any number of times
  // run_expanded(). Kinds of 16-bit floats need no memory.
  void (*expand)(const PanelSpan& span, std::byte* memory);
  void (*run_expanded)(const PanelSpan& span, const std::byte* memory, const XRow* x, int64_t rows, float* out,
                       int64_t stride);
  int64_t (*direct_rows)(PanelKind kind);  // up to so many, run() is faster
  int64_t tile_rows;                       // run_expanded() is best at multiples of it

  // Sets whose products take several rows of x at once read more than one row of x packed: each `tile_rows` rows, the
  // last tile perhaps fewer, go to memory of tile_bytes(), 64-byte aligned, which XRow::tile of each of them names; the
  // rows that run() and run_expanded() get begin with the first of a tile.
  // Null: the set reads rows alone.
  int64_t (*tile_bytes)(int64_t cols) = nullptr;
  void (*pack_tile)(const XRow* x, int64_t rows, int64_t cols, bool coarse, std::byte* to) = nullptr;
  int64_t tiles_above = 1;  // up to so many rows nobody reads tiles

  // Sets that expand panels a piece of K at a time for many rows: run_pieces() takes the place of expand() and
  // run_expanded() for kinds of integers, in `memory` of piece_bytes(). `out` has room for `rows` rounded up to
  // tile_rows. Null: the set has none.
  int64_t (*piece_bytes)(PanelKind kind, int64_t panels) = nullptr;
  void (*run_pieces)(const PanelSpan& span, std::byte* memory, const XRow* x, int64_t rows, float* out,
                     int64_t stride) = nullptr;

  bool supers = false;  // is_super() weights read x as is_coarse() ones do
  bool coarse(PanelKind kind) const { return is_coarse(kind) || (supers && is_super(kind)); }

  // Sets whose run_expanded() takes a piece of K of all rows after the other: how many blocks of 32 a piece has, and
  // what it takes of a tile. Tiles that only run_expanded() reads may then lie piece by piece, XRow::tile_gap apart, so
  // that what it reads is one stream. Null: the set has no pieces.
  int64_t (*piece_blocks)(int64_t cols, bool coarse) = nullptr;
  int64_t (*tile_piece_bytes)(int64_t cols, int fields, bool coarse) = nullptr;

  // Rows 2i and 2i + 1 of x as bf16 lie in one array, 4 values of the one and 4 of the other in turn, which XRow::bf16
  // of both names; a last row without a neighbour is its own. to_bf16() leaves out 4 values behind each 4.
  bool bf16_pairs = false;
};

// A panel expanded to bytes and floats: the runs of all K, K rounded up to 64 for groups of 128, then for each scale
// f32 scale[16] and f32 min[16] or int32 zero[16]; where runs are of 8 values there is room for each of them twice,
// which sums of 2 × 2 want.
template <class L>
struct ExpandedLayout {
  static constexpr bool kZeros = L::kScale == ScaleKind::kF16Zero;
  static constexpr int64_t kField = kPanelRows * (kRun == 8 ? 2 : 1);
  static constexpr int64_t kFloats = kField * (L::kMin || kZeros ? 2 : 1);  // of a group
  static constexpr int64_t run_bytes(int64_t cols) { return (L::kCoarse ? L::round_up(cols) : cols) * kPanelRows; }
  static constexpr int64_t bytes(int64_t cols) { return run_bytes(cols) + L::groups(cols) * kFloats * 4; }
};

int64_t expanded_bytes(const PackedWeight& weight, int64_t panels);

// The fields of XBlock that run_expanded() reads for this weight, or all kernels.
int fields_of(const PackedWeight& weight, bool only_expanded);

}  // namespace ingot::cpu
