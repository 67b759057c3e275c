// The body of panel_kernels_<set>.cpp, which defines INGOT_KERNELS, the name of the table made here, and
// INGOT_ISA_NAME, the set's. All else has internal linkage.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "matmul/cpu/panel_kernels.h"
#include "matmul/cpu/panel_simd.h"

namespace ingot::cpu {
namespace {

// AArch64's products take signed bytes: the zero point is taken off when a panel is expanded.
#if defined(__ARM_NEON)
template <class L>
inline Weights centered(Weights w, int zero) {
  for (Bytes& pair : w.pair) {
    if (L::kFlip == 0x88) {
      pair = (Bytes)vshrq_n_s8((int8x16_t)pair, 4);
    } else if (!L::kMin) {  // with mins the zero point is 0
      pair -= static_cast<uint8_t>(L::kFlip == 0x80 ? zero - 128 : zero);
    }
  }
  return w;
}
#if defined(INGOT_I8MM)
constexpr int64_t kManyRows = 6;
#else
constexpr int64_t kManyRows = kTileXRows;
#endif
#else
template <class L>
inline Weights centered(Weights w, int) {
  return w;
}
#if defined(INGOT_AMX)
constexpr int64_t kManyRows = 16;
#else
constexpr int64_t kManyRows = kTileXRows;
#endif
#endif

// Whether the zero point is taken off an expanded panel's bytes.
#if defined(__ARM_NEON)
constexpr bool kCentered = true;
#else
constexpr bool kCentered = false;
#endif

// Up to so many rows read the packed weights. Where a product of bytes is two instructions, tiles of 4 rows that unpack
// nibbles themselves beat 12 expanded ones at every number of rows (two Skylake cores, Q4_1 1536 x 576, 32 rows: 139
// against 108 GOP/s, Q8_0 80 against 59). One Neoverse-V1, packed against expanded by one or two panels, weights from
// memory: Q4_1 of 576 columns, 8 rows 184 against 131 GOP/s, 16 rows 181 against 160, 24 rows 186 against 199; Q4_0 of
// 2048, 24 rows 218 both; Q8_0 of 576, 16 rows 222 against 188, 24 rows 237 against 227; Q4_K of 2048, 16 rows 117
// against 162.
int64_t direct_rows(PanelKind kind) {
#if defined(INGOT_I8MM)
  switch (kind) {
    case PanelKind::kQ4:
    case PanelKind::kQ8:
      return 24;
    case PanelKind::kQ4Min:
      return 16;
    case PanelKind::kInt8:
      return 18;
    default:
      return 6;
  }
#else
  (void)kind;
  return Dot<8>::kWide ? int64_t{1} << 40 : kDirectRows;
#endif
}

#include "matmul/cpu/panel_sources.h"

// acc and the integer sum of a group of 128, of weights to which `start` has to be added.
template <class Source>
inline Floats add_group(const Source& w, int64_t g, int at, Ints sum, int32_t start, const XBlock& x, Floats acc) {
  constexpr ScaleKind kScale = Source::Layout::kScale;
  sum = add_ints(sum, all_ints(start * x.total));
  if constexpr (kScale == ScaleKind::kF16Zero) sum = minus_product(sum, w.zeros(g, at), x.total);
  if constexpr (kScale == ScaleKind::kRow) return multiply_add(Source::floats(sum), all(x.scale), acc);
  return multiply_add(Source::floats(sum), times(all(x.scale), w.scale(g, at)), acc);
}
template <class Source>
inline Floats scale_row(const Source& w, int at, Floats acc) {
  return Source::Layout::kScale == ScaleKind::kRow ? times(acc, w.scale(0, at)) : acc;
}

// R rows of x against V vectors of rows of the panel from `at` on.
template <class Source, int R, int V>
inline void tile(const Source& w, int64_t cols, int zero, const XRow* x, int at, float* out, int64_t stride) {
  using L = typename Source::Layout;
  using D = Dot<L::kBits>;
  constexpr int kPairs = L::kGroup / (2 * kRun);  // of runs, in a group
  Floats acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = zero_floats();
  const int32_t start = Source::start(zero);
  for (int64_t b = 0; b < cols / kPanelBlock; ++b) {
#pragma GCC unroll 2
    for (int g = 0; g < L::kGroups; ++g) {
      D dot[R][V] = {};
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const XBlock& block = x[r].blocks[b];
        const int32_t from = start * (L::kGroups == 1 ? block.total : block.half_total[g]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) dot[r][v].begin(from);
      }
#pragma GCC unroll 4
      for (int p = 0; p < kPairs; ++p) {
        Weights even[V], odd[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) w.runs(b, g * kPairs + p, at + v * kVecRows, even[v], odd[v]);
        const int64_t k = b * kPanelBlock + 2 * kRun * (g * kPairs + p);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) dot[r][v].add(even[v], x[r].q + k, x[r].wide + k);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) {
            dot[r][v].add(odd[v], x[r].q + k + kRun, x[r].wide + k + kRun);
            dot[r][v].end_pair(p);
          }
      }
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const int64_t group = b * L::kGroups + g;
        const Floats scale = w.scale(group, at + v * kVecRows);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
          acc[r][v] =
              multiply_add(Source::floats(dot[r][v].result()), times(all(x[r].blocks[b].scale), scale), acc[r][v]);
        if constexpr (L::kMin) {
          const Floats min = w.min(group, at + v * kVecRows);
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) {
            const XBlock& block = x[r].blocks[b];
            acc[r][v] = multiply_add(min, all(L::kGroups == 1 ? block.sum : block.half_sum[g]), acc[r][v]);
          }
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store_floats(out + r * stride + at + v * kVecRows, acc[r][v]);
}

#include "matmul/cpu/panel_coarse.h"
#if defined(INGOT_AMX)
#include "matmul/cpu/x86/panel_super.h"
#endif

// All rows, R at a time while so many are left, then half as many.
template <class Source, int R>
void tiles(const Source& w, int64_t cols, int zero, const XRow* x, int64_t rows, float* out, int64_t stride) {
  constexpr int kVecs = R <= kSoloRows ? kSoloVecs : kTileVecs;
  for (; rows >= R; rows -= R, x += R, out += R * stride)
    for (int at = 0; at < kPanelRows; at += kVecRows * kVecs) {
      if constexpr (Source::Layout::kCoarse) {
        coarse_tile<Source, R, kVecs>(w, cols, zero, x, at, out, stride);
      } else {
        tile<Source, R, kVecs>(w, cols, zero, x, at, out, stride);
      }
    }
  if constexpr (R > 1) {
    if (rows > 0) tiles<Source, R / 2>(w, cols, zero, x, rows, out, stride);
  }
}

// Expanded, kinds that differ in nothing but their scales are one.
template <class L>
using Expanded = ExpandedSource<PanelLayout<L::kBits, L::kGroup, L::kCoarse ? L::kScale : ScaleKind::kF32, L::kMin>>;

template <class L>
void run_packed(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& w = *span.weight;
  for (int64_t i = 0; i < span.n; ++i) {
    const PackedSource<L> source(w, span.first + i);
    tiles<PackedSource<L>, kDirectRows>(source, w.cols, w.zero, x, rows, out + i * kPanelRows, stride);
  }
}

template <class L>
void expand_panels(const PanelSpan& span, std::byte* memory) {
  const PackedWeight& w = *span.weight;
  const int64_t bytes = ExpandedLayout<L>::bytes(w.cols);
  for (int64_t i = 0; i < span.n; ++i)
    Expanded<L>::fill(PackedSource<L>(w, span.first + i), w.cols, w.zero, memory + i * bytes);
}

// Some rows of x stay in the first-level cache while all panels pass, which stay in the second.
template <class L>
void run_many(const PanelSpan& span, const std::byte* memory, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& w = *span.weight;
  const int64_t bytes = ExpandedLayout<L>::bytes(w.cols);
  for (int64_t r = 0; r < rows; r += kTileXRows) {
    const int64_t n = rows - r < kTileXRows ? rows - r : kTileXRows;
    for (int64_t i = 0; i < span.n; ++i) {
      const Expanded<L> source(memory + i * bytes, w.cols);
      tiles<Expanded<L>, kTileXRows>(source, w.cols, w.zero, x + r, n, out + r * stride + i * kPanelRows, stride);
    }
  }
}

// The columns from `first` on that share a scale beside the data end there; all do where there are none.
inline int64_t end_of_scale(const PackedWeight& w, int64_t first) {
  return w.scale_cols == 0 || w.cols - first < w.scale_cols ? w.cols : first + w.scale_cols;
}
// Their scales, of 16 rows.
inline const float* scales_of(const PackedWeight& w, const uint8_t* panel, int64_t first) {
  return reinterpret_cast<const float*>(panel + w.scales_at) + first / w.scale_cols * kPanelRows;
}

#if defined(__ARM_FEATURE_DOTPROD)
#include "matmul/cpu/arm/panel_sdot.h"
#endif
#if defined(INGOT_AMX)
#include "matmul/cpu/x86/panel_amx.h"
#elif defined(INGOT_I8MM)
#include "matmul/cpu/arm/panel_bfmmla.h"
#include "matmul/cpu/arm/panel_fmlal.h"
#include "matmul/cpu/arm/panel_i8mm.h"
#endif

#include "matmul/cpu/panel_floats.h"

// Calls f with the layout of a quantized kind; false for 16-bit floats.
template <class F>
bool with_layout(PanelKind kind, F&& f) {
  switch (kind) {
#define X(NAME, ...)                        \
  case PanelKind::k##NAME:                  \
    f(PanelLayoutOf<PanelKind::k##NAME>{}); \
    return true;
    INGOT_PANELS(X)
#undef X
    default:
      return false;
  }
}

void run_float_kind(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
#if defined(INGOT_AMX)
  if (span.weight->kind == PanelKind::kBF16 && span.weight->cols % 32 == 0)
    return run_bf16_amx(span, x, rows, out, stride);
#elif defined(INGOT_I8MM)
  if (span.weight->kind == PanelKind::kBF16) return run_bf16_i8mm(span, x, rows, out, stride);
  return run_f16_fmlal(span, x, rows, out, stride);
#endif
  if (span.weight->kind == PanelKind::kBF16) {
    run_floats<true>(span, x, rows, out, stride);
  } else {
    run_floats<false>(span, x, rows, out, stride);
  }
}

void run(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const auto packed = [&](auto layout) {
#if defined(__ARM_FEATURE_DOTPROD)
    const bool doubled = (decltype(layout)::kCoarse ? x->coarse.wide : x->wide) != nullptr;
    if (rows == 1 && doubled) return run_solo<decltype(layout)>(span, *x, out);
#endif
#if defined(INGOT_I8MM)
    run_some_i8mm<decltype(layout)>(span, x, rows, out, stride);
#else
#if defined(INGOT_AMX)
    if constexpr (kSuperSums<decltype(layout)>) return run_supers<decltype(layout)>(span, x, rows, out, stride);
#endif
    run_packed<decltype(layout)>(span, x, rows, out, stride);
#endif
  };
  if (!with_layout(span.weight->kind, packed)) run_float_kind(span, x, rows, out, stride);
}

void expand(const PanelSpan& span, std::byte* memory) {
  with_layout(span.weight->kind, [&](auto layout) { expand_panels<decltype(layout)>(span, memory); });
}

void run_expanded(const PanelSpan& span, const std::byte* memory, const XRow* x, int64_t rows, float* out,
                  int64_t stride) {
#if defined(INGOT_I8MM)
  const auto many = [&](auto layout) { run_many_i8mm<decltype(layout)>(span, memory, x, rows, out, stride); };
#else
  const auto many = [&](auto layout) {
#if defined(INGOT_AMX)
    // Beside a part of floats alone: all others go in pieces.
    if constexpr (kSuperSums<decltype(layout)>) return run_supers<decltype(layout)>(span, x, rows, out, stride);
#endif
    run_many<decltype(layout)>(span, memory, x, rows, out, stride);
  };
#endif
  if (!with_layout(span.weight->kind, many)) run_float_kind(span, x, rows, out, stride);
}

#if defined(INGOT_AMX)
int64_t piece_bytes(PanelKind kind, int64_t panels) {
  int64_t bytes = 0;
  with_layout(kind, [&](auto layout) {
    using L = decltype(layout);
    bytes = panels * (kSuperSums<L> ? SuperShape::kPieceBytes : AmxShape<L>::kPieceBytes);
  });
  return bytes;
}

void run_pieces(const PanelSpan& span, std::byte* memory, const XRow* x, int64_t rows, float* out, int64_t stride) {
  with_layout(span.weight->kind, [&](auto layout) {
    using L = decltype(layout);
    if constexpr (kSuperSums<L>) {
      run_supers_amx<L>(span, memory, x, rows, out, stride);
    } else {
      run_pieces_amx<L>(span, memory, x, rows, out, stride);
    }
  });
}
#endif

#include "matmul/cpu/panel_quantize.h"

}  // namespace

#if defined(__ARM_FEATURE_DOTPROD)
constexpr bool kNeedsWide = true;
#else
constexpr bool kNeedsWide = Dot<8>::kWide;
#endif

#if defined(INGOT_AMX) || defined(INGOT_I8MM)
constexpr auto kToBf16 = to_bf16;
#else
constexpr void (*kToBf16)(const float*, int64_t, uint16_t*) = nullptr;
#endif

#if defined(INGOT_I8MM)
constexpr auto kToF16 = to_f16;
#else
constexpr float (*kToF16)(const float*, int64_t, uint16_t*) = nullptr;
#endif

#if defined(INGOT_I8MM) || defined(INGOT_AMX)
constexpr auto kTileBytes = tile_bytes;
constexpr auto kPackTile = pack_tile;
#else
constexpr int64_t (*kTileBytes)(int64_t) = nullptr;
constexpr void (*kPackTile)(const XRow*, int64_t, int64_t, bool, std::byte*) = nullptr;
#endif

extern const PanelKernels INGOT_KERNELS;
const PanelKernels INGOT_KERNELS = {INGOT_ISA_NAME,
                                    kNeedsWide,
                                    quantize,
                                    quantize_coarse,
                                    kToBf16,
                                    kToF16,
                                    run,
                                    expand,
                                    run_expanded,
                                    direct_rows,
                                    kManyRows,
                                    kTileBytes,
                                    kPackTile,
#if defined(INGOT_AMX)
                                    kDirectRows,
                                    piece_bytes,
                                    run_pieces,
                                    true
#elif defined(INGOT_I8MM)
                                    1,
                                    nullptr,
                                    nullptr,
                                    false,
                                    piece_blocks,
                                    tile_piece_bytes,
                                    true
#endif
};

}  // namespace ingot::cpu
