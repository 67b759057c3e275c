// The inner loops of the CPU versions, compiled once for each instruction set (kernels_<set>.cpp, all
// from kernels.inc) and chosen once at start: the best that this CPU runs, or the one named by the
// environment variable INGOT_ISA (baseline, avx2, avx512, avx512vnni, amx; neon, dotprod, i8mm).
//
// Every result depends on its own operands alone, never on how many others are computed beside it. Sums
// over K have 16 lanes, lane k mod 16, each in order of k, added by a fixed tree; sets with fma agree bit
// for bit with each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/activation_kind.h"

namespace ingot::cpu {

// The largest score of a block of keys and the sum of exp(score - max).
struct SoftmaxPart {
  float max = 0;
  float sum = 0;
};

// n values of a weight's row, as format_decode() gives them. REQUIRES: n is a multiple of the block.
using DecodeFn = void (*)(const std::byte* in, float* out, int64_t n);

struct PanelKernels;

struct Kernels {
  const char* name;

  // out[i * out_stride + j] = x[i] · w[j] over k values, for nx × nw pairs.
  void (*dots)(const float* const* x, int64_t nx, const float* const* w, int64_t nw, int64_t k, float* out,
               int64_t out_stride);

  // Scales the n scores, caps them (softcap > 0), and replaces each by exp(score - max). n is a multiple
  // of 16; a score of -inf becomes exactly 0.
  SoftmaxPart (*softmax_part)(float* scores, int64_t n, float scale, float softcap);

  // acc[i] = keep[i] · acc[i] + add[i] · sum over j of p[i · p_stride + j] · v[j], in order of j, for nq
  // rows i of `dim` values that lie acc_stride apart.
  void (*mix)(const float* p, int64_t p_stride, int64_t nq, const float* const* v, int64_t n, int64_t dim,
              const float* keep, const float* add, float* acc, int64_t acc_stride);

  // out[i] = f(gate[i]) · up[i]; out may be gate.
  void (*glu)(ActivationKind f, const float* gate, const float* up, float* out, int64_t n);

  // Reads `bytes` (a multiple of 512) as fast as this set can; the result depends on all of them.
  uint64_t (*read)(const std::byte* from, int64_t bytes);

  // n values of the KV cache's 16-bit types.
  void (*widen_f16)(const uint16_t* in, float* out, int64_t n);
  void (*widen_bf16)(const uint16_t* in, float* out, int64_t n);

  const DecodeFn* decoders;  // one for each Format, in its order

  const PanelKernels* panels;  // of packed weights, see ops/linear/panel_kernels.h
};

// The chosen set. Throws Error at the first call when INGOT_ISA names one that this CPU does not run.
const Kernels& kernels();

// Those that this CPU runs, best first. Tests go through all of them.
std::span<const Kernels* const> available_kernels();

// For tests: uses `set` from now on, or the chosen one again (null). Not while an op runs.
void use_kernels(const Kernels* set);

}  // namespace ingot::cpu
