// The kernels of each kind of weights (PanelKind): which of the set's tiles take it, packed and expanded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa_source.h"
#include "matmul/cpu/panel_floats.h"
#include "matmul/cpu/panel_kernels.h"
#include "matmul/cpu/panel_tiles.h"

#if defined(__AMX_INT8__)
#include "matmul/cpu/x86/panel_amx_bf16.h"
#include "matmul/cpu/x86/panel_amx_int8.h"
#include "matmul/cpu/x86/panel_amx_super.h"
#endif
#if defined(__ARM_FEATURE_DOTPROD)
#include "matmul/cpu/arm/panel_solo.h"
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
#include "matmul/cpu/arm/panel_bfmmla.h"
#include "matmul/cpu/arm/panel_fmlal.h"
#include "matmul/cpu/arm/panel_i8mm.h"
#endif

namespace ingot::cpu::INGOT_ISA {
namespace {

// Up to so many rows read the packed weights. Where a product of bytes is two instructions, tiles of 4 rows that unpack
// nibbles themselves beat 12 expanded ones at every number of rows (two Skylake cores, Q4_1 1536 x 576, 32 rows: 139
// against 108 GOP/s, Q8_0 80 against 59). One Neoverse-V1, packed against expanded by one or two panels, weights from
// memory: Q4_1 of 576 columns, 8 rows 184 against 131 GOP/s, 16 rows 181 against 160, 24 rows 186 against 199; Q4_0 of
// 2048, 24 rows 218 both; Q8_0 of 576, 16 rows 222 against 188, 24 rows 237 against 227; Q4_K of 2048, 16 rows 117
// against 162.
int64_t direct_rows(PanelKind kind) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  switch (kind) {
    case PanelKind::kQ4:
    case PanelKind::kQ4Table:
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

void run_float_kind(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
#if defined(__AMX_INT8__)
  if (span.weight->kind == PanelKind::kBF16 && span.weight->cols % 32 == 0)
    return run_bf16_amx(span, x, rows, out, stride);
#elif defined(__ARM_FEATURE_MATMUL_INT8)
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
#if defined(__ARM_FEATURE_MATMUL_INT8)
    run_some_i8mm<decltype(layout)>(span, x, rows, out, stride);
#else
#if defined(__AMX_INT8__)
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
#if defined(__ARM_FEATURE_MATMUL_INT8)
  const auto many = [&](auto layout) { run_many_i8mm<decltype(layout)>(span, memory, x, rows, out, stride); };
#else
  const auto many = [&](auto layout) {
#if defined(__AMX_INT8__)
    // Beside a part of floats alone: all others go in pieces.
    if constexpr (kSuperSums<decltype(layout)>) return run_supers<decltype(layout)>(span, x, rows, out, stride);
#endif
    run_many<decltype(layout)>(span, memory, x, rows, out, stride);
  };
#endif
  if (!with_layout(span.weight->kind, many)) run_float_kind(span, x, rows, out, stride);
}

#if defined(__AMX_INT8__)
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

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
