// One row of x and blocks of 4 bits with a scale for each 32: the products of a block and, between them, what is left
// to do for the block before.
//
// A Neoverse-V1 begins four vector operations in a cycle where they are ready, and a block's last ones, which wait for
// each other, would keep the next block's products from getting in: woven by hand Q4_1 takes 29.7 cycles in place of
// 32, Q4_0 26.9 and Q4_K 33.6 in place of 42; in orders that were searched for from there
// (tools/search_orders.py) 26.1, 23.8 and 30.7, in the L1 cache. Conversions take the place of two operations
// each, so bytes become floats without: with 0x87 above it and shifted by 15 bits, byte b is the float 256 + b, and
// factor · (256 + b) − 256 · factor is exact.
//
// Registers: v0 to v7 the products, of two rows each; v16 and v17 x, v18 the mask, v19 x's scale and sum, v20 to v25
// weights, v26 to v31 scales and mins; where the compiler wants them, the integer sums of the block before (d) and the
// sums of all blocks (a).
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/panel_sdot.h"
#include "matmul/cpu/arm/panel_solo_orders.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// For each four rows d and −256 · d, then the same of −dmin.
struct alignas(64) SuperFields {
  float32x4_t pair[8][2];

  void open(const uint8_t* super) {
    for (int v = 0; v < 8; ++v) {
      pair[v][0] = (float32x4_t)load_halves(super + 8 * v);
      if (v >= 4) pair[v][0] = vnegq_f32(pair[v][0]);
      pair[v][1] = vmulq_n_f32(pair[v][0], -256.0f);
    }
  }
};

// What a block takes: its runs and scales, the doubled runs of x and x's fields.
struct SoloBlock {
  const uint8_t *runs, *scales;
  const int8_t* x;
  const XBlock* fields;
};

#define INGOT_WOVEN(ORDER)                                                                                             \
  asm(ORDER                                                                                                            \
      : [d0] "+w"(dot[0]), [d1] "+w"(dot[1]), [d2] "+w"(dot[2]), [d3] "+w"(dot[3]), [a0] "+w"(acc[0]),                 \
        [a1] "+w"(acc[1]), [a2] "+w"(acc[2]), [a3] "+w"(acc[3])                                                        \
      : [q] "r"(now.runs), [x] "r"(now.x), [before] "r"(before.fields), [f] "r"(before.scales), [super] "r"(super),    \
        [masks] "r"(masks), "m"(*reinterpret_cast<const uint8_t(*)[256]>(now.runs)),                                   \
        "m"(*reinterpret_cast<const int8_t(*)[64]>(now.x)), "m"(*before.fields),                                       \
        "m"(*reinterpret_cast<const uint8_t(*)[L::kScaleBytes]>(before.scales)), "m"(*super), "m"(kSoloMasks)          \
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", \
        "v25", "v26", "v27", "v28", "v29", "v30", "v31")

// The last is kPanelTable.
alignas(16) inline const uint8_t kSoloMasks[4][16] = {
    {0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f},
    {0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0},
    {0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87},
    {0, 1, 2, 3, 4, 6, 8, 12, 0, 0xff, 0xfe, 0xfd, 0xfc, 0xfa, 0xf8, 0xf4}};

// The products of block `now` into dot, once those of `before` have gone from there to acc.
template <class L>
inline void weave(const SoloBlock& now, const SoloBlock& before, const SuperFields* super, int32x4_t (&dot)[4],
                  float32x4_t (&acc)[4]) {
  const uint8_t* masks = kSoloMasks[L::kFlip == 0x88];
  if constexpr (L::kScale == ScaleKind::kSuper) {
    INGOT_WOVEN(INGOT_ORDER_SOLO_Q4_SUPER);
  } else if constexpr (L::kTable) {
    INGOT_WOVEN(INGOT_ORDER_SOLO_Q4_TABLE);
  } else if constexpr (L::kMin) {
    INGOT_WOVEN(INGOT_ORDER_SOLO_Q4_MIN);
  } else {
    INGOT_WOVEN(INGOT_ORDER_SOLO_Q4);
  }
}

#undef INGOT_ORDER_SOLO_Q4
#undef INGOT_ORDER_SOLO_Q4_MIN
#undef INGOT_ORDER_SOLO_Q4_SUPER
#undef INGOT_ORDER_SOLO_Q4_TABLE
#undef INGOT_WOVEN

// The kinds that have it.
template <class L>
constexpr bool kWoven = L::kBits == 4 && L::kGroup == 32 && (L::kMin || L::kTable || L::kFlip == 0x88);

template <class L>
inline void solo_woven(const PackedSource<L>& w, int64_t blocks, const XRow& x, uint8x16_t mask, Floats (&sums)[4]) {
  constexpr int64_t kOfSuper = kPanelSuper / kPanelBlock;
  constexpr bool kSupers = L::kScale == ScaleKind::kSuper;
  const auto* runs = reinterpret_cast<const int8_t*>(x.wide);
  SuperFields super;
  float32x4_t acc[4] = {};
  int32x4_t pairs[8], dot[4];
  fetch_block<L>(w.runs_of(0));
  solo_products<L, 4>(w, 0, 0, runs, mask, pairs);
  for (int v = 0; v < 4; ++v) dot[v] = vpaddq_s32(pairs[2 * v], pairs[2 * v + 1]);
  SoloBlock now{w.runs_of(0), w.scales_of(0), runs, x.blocks};
  for (int64_t b = 1; b < blocks; ++b) {
    const SoloBlock before = now;
    if (kSupers && (b - 1) % kOfSuper == 0) super.open(w.super_of(b - 1));
    const int64_t step = L::kPart + (kSupers && b % kOfSuper == 0 ? L::kSuperBytes : 0);
    now = {before.runs + step, before.scales + step, before.x + 2 * kPanelBlock, before.fields + 1};
    if (kSupers && b % kOfSuper == 0) fetch_block<L, 1>(now.runs - L::kHead);
    weave<L>(now, before, &super, dot, acc);
  }
  for (int v = 0; v < 4; ++v) {
    const Floats scale = times(all(now.fields->scale), w.scale(blocks - 1, 4 * v));
    sums[v] = multiply_add(PackedSource<L>::floats((Ints)dot[v]), scale, (Floats)acc[v]);
    if constexpr (L::kMin) sums[v] = multiply_add(w.min(blocks - 1, 4 * v), all(now.fields->sum), sums[v]);
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
