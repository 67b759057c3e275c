// The product's inner loops, compiled once for each instruction set (kernels_<set>.cpp, all from kernels_table.h) and
// chosen by it (cpu/isa.h).
//
// Every result depends on its own operands alone, never on how many others are computed beside it. Sums
// over K have 16 lanes, lane k mod 16, each in order of k, added by a fixed tree; sets with fma agree bit
// for bit with each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu/isa.h"
#include "tensor/activation_kind.h"

namespace ingot::cpu {

// n values of a weight's row, as format_decode() gives them. REQUIRES: n is a multiple of the block.
using DecodeFn = void (*)(const std::byte* in, float* out, int64_t n);

struct PanelKernels;

// Weight rows that are transposed at once: a line of a panel is written whole.
constexpr int64_t kOuterGroup = 16;

// dots() for many rows of x, the same bits, over rows and weights that were transposed once (outer_dots.h).
struct OuterDots {
  int64_t rows, cols;           // of a tile of x, outputs of a panel
  int64_t (*tile)(int64_t k);   // floats of a tile
  int64_t (*panel)(int64_t k);  //   and of a panel
  // Up to `rows` rows of x as a tile.
  void (*pack_x)(const float* const* x, int64_t n, int64_t k, float* tile);
  // Up to kOuterGroup weight rows into places [first, first + n) of the panels. REQUIRES: first is a multiple of that.
  void (*pack)(const float* const* w, int64_t first, int64_t n, int64_t k, float* panels);
  int64_t (*room)(int64_t nx, int64_t nw);  // floats of sums on their way
  // As dots(), x being tiles one behind the other. Writes whole panels: out_stride is at least nw up to the next
  // multiple of `cols`.
  void (*dots)(const float* x, int64_t nx, const float* panels, int64_t nw, int64_t k, float* out, int64_t out_stride,
               float* room);
};

struct Kernels {
  const char* name;  // of the set

  // out[i * out_stride + j] = x[i] · w[j] over k values, for nx × nw pairs.
  void (*dots)(const float* const* x, int64_t nx, const float* const* w, int64_t nw, int64_t k, float* out,
               int64_t out_stride);
  OuterDots outer;

  // out[i] = f(gate[i]) · up[i]; out may be gate.
  void (*glu)(ActivationKind f, const float* gate, const float* up, float* out, int64_t n);

  // Read `bytes` (a multiple of 512), with prefetch and by plain loads: the result depends on all of
  // them and is the same.
  uint64_t (*read_ahead)(const std::byte* from, int64_t bytes);
  uint64_t (*read_plain)(const std::byte* from, int64_t bytes);

  const DecodeFn* decoders;  // one for each Format, in its order

  const PanelKernels* panels = nullptr;  // of packed weights, see panel_kernels.h
  Isa isa = Isa::kBaseline;
};

// Of the set in use. Throws Error at the first call when INGOT_ISA names one that this CPU does not run.
const Kernels& kernels();

// Those that this CPU runs, best first. Tests go through all of them.
std::span<const Kernels* const> available_kernels();

// For tests: uses `set` from now on, or the chosen one again (null). Not while an op runs.
void use_kernels(const Kernels* set);

}  // namespace ingot::cpu
