// Kernels for the tests of wgmma.cuh: one warpgroup, one product of each kind.
#include "cuda/probe.h"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_fp8.cuh"

namespace ingot::cuda {
namespace {

constexpr int kDepth = 64;  // of K: four products

template <bool kBf16>
__device__ void put(std::byte* panel, int row, int column, float x) {
  const int at = row * 128 + kv_piece(row, column / 8) * 16 + column % 8 * 2;
  *reinterpret_cast<uint16_t*>(panel + at) = kBf16 ? bf16_bits(x) : f16_bits(x);
}

// c[64, N] = twice a[64, 64] · b[64, N]; the first time it writes, the second it adds.
template <bool kBf16, bool kByColumns, bool kRegisters, int kN>
__global__ void group_product(const float* a, const float* b, float* c) {
#if INGOT_HAS_WGMMA
  constexpr int kPanel = kDepth * 128;
  std::byte* as = shared_memory<std::byte>();
  std::byte* bs = as + 64 * 128;
  const int thread = threadIdx.x, lane = thread % 32, row = thread / 32 * 16 + lane / 4, t = lane % 4;
  for (int i = thread; i < 64 * kDepth; i += 128) put<kBf16>(as, i / kDepth, i % kDepth, a[i]);
  for (int i = thread; i < kDepth * kN; i += 128) {
    const int k = i / kN, n = i % kN;
    if (kByColumns) {
      put<kBf16>(bs + n / 64 * kPanel, k, n % 64, b[i]);
    } else {
      put<kBf16>(bs, n, k, b[i]);
    }
  }
  shared_writes_done();
  __syncthreads();
  float d[kN / 2];
  for (float& x : d) x = 1000;
  uint32_t fragments[kDepth / 16][4];
#pragma unroll
  for (int kk = 0; kk < kDepth / 16; ++kk) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* from = a + (row + i % 2 * 8) * kDepth + 16 * kk + i / 2 * 8 + 2 * t;
      fragments[kk][i] = kBf16 ? pack_bf16(from[0], from[1]) : pack_f16(from[0], from[1]);
    }
  }
  const MatrixPlace a_place = matrix_by_rows(as);
  const MatrixPlace b_place = kByColumns ? matrix_by_columns(bs, kPanel) : matrix_by_rows(bs);
  products_begin();
#pragma unroll
  for (int turn = 0; turn < 2; ++turn) {
#pragma unroll
    for (int kk = 0; kk < kDepth / 16; ++kk) {
      const MatrixPlace from = further(b_place, kByColumns ? 2048 * kk : 32 * kk);
      if constexpr (kRegisters) {
        multiply_group<kBf16, kByColumns>(d, fragments[kk], from, turn + kk > 0);
      } else {
        multiply_group<kBf16, kByColumns>(d, further(a_place, 32 * kk), from, turn + kk > 0);
      }
    }
    products_commit();
  }
  products_done<0>(d);
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) c[(row + i / 2 % 2 * 8) * kN + i / 4 * 8 + 2 * t + i % 2] = d[i];
#endif
}

// c[64, N] = twice a[64, 128] · b[N, 128]ᵀ of e4m3; the first time it writes, the second it adds.
template <int kN>
__global__ void group_product_fp8(const std::byte* a, const std::byte* b, float* c) {
#if INGOT_HAS_WGMMA
  std::byte* as = shared_memory<std::byte>();
  std::byte* bs = as + 64 * 128;
  const int thread = threadIdx.x, lane = thread % 32, row = thread / 32 * 16 + lane / 4, t = lane % 4;
  const auto put_codes = [&](const std::byte* from, int rows, std::byte* to) {
    for (int i = thread; i < rows * 8; i += 128)
      *reinterpret_cast<uint4*>(to + i / 8 * 128 + kv_piece(i / 8, i % 8) * 16) =
          *reinterpret_cast<const uint4*>(from + i * 16);
  };
  put_codes(a, 64, as);
  put_codes(b, kN, bs);
  shared_writes_done();
  __syncthreads();
  float d[kN / 2];
  for (float& x : d) x = 1000;
  products_begin();
#pragma unroll
  for (int turn = 0; turn < 2; ++turn) {
#pragma unroll
    for (int kk = 0; kk < 4; ++kk)
      multiply_group_fp8(d, further(matrix_by_rows(as), 32 * kk), further(matrix_by_rows(bs), 32 * kk), turn + kk > 0);
    products_commit();
  }
  products_done<0>(d);
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) c[(row + i / 2 % 2 * 8) * kN + i / 4 * 8 + 2 * t + i % 2] = d[i];
#endif
}

template <bool kBf16, bool kByColumns, bool kRegisters>
void launch_product(const DeviceCtx& ctx, int n, const float* a, const float* b, float* c) {
  const auto go = [&]<int kN>() {
    const int64_t panels = kByColumns ? (kN + 63) / 64 * kDepth : kN;
    launch(ctx, group_product<kBf16, kByColumns, kRegisters, kN>, {1, 128, (64 + panels) * 128}, a, b, c);
  };
  switch (n) {
    case 8:
      return go.template operator()<8>();
    case 24:
      return go.template operator()<24>();
    case 48:
      return go.template operator()<48>();
    case 64:
      return go.template operator()<64>();
    case 128:
      return go.template operator()<128>();
    default:
      CHECK(n == 256, "{} columns", n);
      return go.template operator()<256>();
  }
}

}  // namespace

void probe_group_product_fp8(const DeviceCtx& ctx, int n, const std::byte* a, const std::byte* b, float* c) {
  const Launch shape{1, 128, (64 + n) * 128};
  if (n == 32) return launch(ctx, group_product_fp8<32>, shape, a, b, c);
  if (n == 64) return launch(ctx, group_product_fp8<64>, shape, a, b, c);
  CHECK(n == 128, "{} columns", n);
  launch(ctx, group_product_fp8<128>, shape, a, b, c);
}

void probe_group_product(const DeviceCtx& ctx, const GroupProbe& probe, const float* a, const float* b, float* c) {
  const auto choose = [&]<bool kBf16, bool kByColumns>() {
    if (probe.registers) return launch_product<kBf16, kByColumns, true>(ctx, probe.n, a, b, c);
    return launch_product<kBf16, kByColumns, false>(ctx, probe.n, a, b, c);
  };
  if (probe.bf16) {
    return probe.by_columns ? choose.template operator()<true, true>() : choose.template operator()<true, false>();
  }
  return probe.by_columns ? choose.template operator()<false, true>() : choose.template operator()<false, false>();
}

}  // namespace ingot::cuda
