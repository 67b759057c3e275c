// Small kernels whose results are known, for the tests of the device's wrappers and of their emulation.
#pragma once

#include <cstdint>

#include "cuda/device_ctx.h"

namespace ingot::cuda {

// c[16, 8] = a[16, 16] · b[16, 8], rounded to bf16 before.
void probe_product(const DeviceCtx& ctx, const float* a, const float* b, float* c);
// Running sums of n values, n a multiple of 64 up to 1024.
void probe_scan(const DeviceCtx& ctx, const float* x, int n, float* out);
// *out = 48 for each block, by way of *total; *ticket is zero before and after.
void probe_count(const DeviceCtx& ctx, int blocks, uint32_t* ticket, uint32_t* total, uint32_t* out);
// out[i] = 2 + 2 · ((i + 2) % blocks), handed from block to block while all of them run.
void probe_handing(const DeviceCtx& ctx, int blocks, float* out);
// c[64, n] = 2 a[64, 64] · b[64, n], rounded before, by a warpgroup: n of 8, 24, 48, 64, 128, 256. REQUIRES: ctx.arch
// is 90.
struct GroupProbe {
  int n = 64;
  bool bf16 = true, by_columns = false, registers = false;  // b by columns in shared memory; a in registers
};
void probe_group_product(const DeviceCtx& ctx, const GroupProbe& probe, const float* a, const float* b, float* c);
// c[64, n] = 2 a[64, 128] · b[n, 128]ᵀ of e4m3 (quant/formats/f8_e4m3.h), rows of codes; n of 32, 64, 128. REQUIRES:
// ctx.arch is 90.
void probe_group_product_fp8(const DeviceCtx& ctx, int n, const std::byte* a, const std::byte* b, float* c);
// out[i] = which of the 32 values at x + i / 32 * 32 are like x[i], as bits; n a multiple of 32.
void probe_match(const DeviceCtx& ctx, const uint32_t* x, int n, uint32_t* out);
// out[b] = 1 + … + (b + 1): each block waits for the one that began before it. words: 1 + blocks of them, zeros.
void probe_chain(const DeviceCtx& ctx, int blocks, uint64_t* words, uint64_t* out);
// out[i] = what thread i % 64 of the next block of its cluster was given: x[…], 64 values a block. REQUIRES: arch
// is 90.
void probe_clusters(const DeviceCtx& ctx, int clusters, int size, const uint32_t* x, uint32_t* out);
// A cluster of `size` blocks with tensor copies of x[rows, cols]: block b writes to out[b] the rectangles of
// kTensorProbeRows rows and 64 columns at (row + i · kTensorProbeRows, col) that each block i copied for all, then the
// one at (row + b, col) of its own. cols is a multiple of 8. REQUIRES: arch is 90.
inline constexpr int kTensorProbeRows = 16;
struct TensorProbe {
  int size = 1, rows = 0, cols = 0, row = 0, col = 0;
};
void probe_tensor_copies(const DeviceCtx& ctx, const TensorProbe& probe, const uint16_t* x, uint16_t* out);
// Lets the next kernel begin, waits 100 us and copies then; a multiple of 16 bytes. REQUIRES: the next work of the
// stream is such a copy or a kernel.
void probe_late(const DeviceCtx& ctx, std::byte* to, const std::byte* from, int64_t bytes);

}  // namespace ingot::cuda
