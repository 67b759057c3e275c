// All panel kernels of the instruction set INGOT_ISA (cpu/isa_source.h): the table of them.
#pragma once

#include "cpu/isa_source.h"
#include "matmul/cpu/panel_kernels.h"
#include "matmul/cpu/panel_kinds.h"
#include "matmul/cpu/panel_quantize.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#if defined(__ARM_FEATURE_DOTPROD)
constexpr bool kNeedsWide = true;
#else
constexpr bool kNeedsWide = Dot<8>::kWide;
#endif

constexpr PanelKernels kPanelTable = {
    .name = INGOT_ISA_NAME,
    .wide = kNeedsWide,
    .quantize = quantize,
    .quantize_coarse = quantize_coarse,
#if defined(__AMX_INT8__)
    .to_bf16 = to_bf16,
    .to_f16 = nullptr,
#elif defined(__ARM_FEATURE_MATMUL_INT8)
    .to_bf16 = to_bf16,
    .to_f16 = to_f16,
#else
    .to_bf16 = nullptr,
    .to_f16 = nullptr,
#endif
    .run = run,
    .expand = expand,
    .run_expanded = run_expanded,
    .direct_rows = direct_rows,
#if defined(__AMX_INT8__)
    .tile_rows = kXTile,
    .tile_bytes = tile_bytes,
    .pack_tile = pack_tile,
    .tiles_above = kDirectRows,
    .piece_bytes = piece_bytes,
    .run_pieces = run_pieces,
    .supers = true,
#elif defined(__ARM_FEATURE_MATMUL_INT8)
    .tile_rows = kXRows,
    .tile_bytes = tile_bytes,
    .pack_tile = pack_tile,
    .piece_blocks = piece_blocks,
    .tile_piece_bytes = tile_piece_bytes,
    .bf16_pairs = true,
#else
    .tile_rows = kTileXRows,
#endif
};

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
