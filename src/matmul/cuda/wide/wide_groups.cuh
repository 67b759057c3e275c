// Codes in the kernel of nine to 32 rows (wide_kernel.cuh): exact weights, as in the streaming kernel, by the matrix
// instruction of single warps. A weight is unpacked once for four octets of x, the sums of a group are scaled in f32,
// and a consumer's products of one octet need not wait for those of another.
//
// Of the four warps beside the consumers one brings weights and rows of x by bulk copies; the others turn x, octet by
// octet: times 2^W::kXPower, in the order in which lanes read it, and beside it the sums of x over each group, which
// the offsets of codes and their mins need. So they are made once for all consumers, and none of the two waits for the
// other's latencies.
#pragma once

#include "cuda/wgmma.cuh"  // barrier_some, shared_writes_done
#include "matmul/cuda/wide/wide_end.cuh"
#include "matmul/cuda/wide/wide_step.cuh"

namespace ingot::cuda {
namespace {

constexpr int kTurners = 3;

// Where lanes find their 16 bytes of unit u of octet j.
__device__ inline int turned_at(int u, int j, int lane) {
  return u / 2 * kWideXHalf + j * 1024 + u % 2 * 512 + lane * 16;
}

// Octet j of x of a step, in its place, by a warp. Sums are made by products with ones.
template <class W>
struct OctetTurn {
  using Sums = WideSums<W>;
  uint4 v[4];

  __device__ __forceinline__ void turn(std::byte* x, int j, int lane) {
    const int g = lane / 4, t = lane % 4;
    constexpr uint32_t kPower = static_cast<uint32_t>(127 + W::kXPower) * 0x00800080u;
    const auto times = [](uint32_t pair) { return W::kXPower == 0 ? pair : multiply_pair(pair, kPower); };
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const std::byte* row = x + u / 2 * kWideXHalf + j * 1024 + g * 128;
      if constexpr (W::kBySixteens) {
        const int piece = u % 2 * 4 + t / 2, half = t % 2 * 8;
        const uint2 a = *reinterpret_cast<const uint2*>(row + kv_piece(g, piece) * 16 + half),
                    b = *reinterpret_cast<const uint2*>(row + kv_piece(g, piece + 2) * 16 + half);
        v[u] = make_uint4(times(a.x), times(a.y), times(b.x), times(b.y));
      } else {
        const uint4 a = *reinterpret_cast<const uint4*>(row + kv_piece(g, u % 2 * 4 + t) * 16);
        v[u] = make_uint4(times(a.x), times(a.y), times(a.z), times(a.w));
      }
    }
    __syncwarp();
#pragma unroll
    for (int u = 0; u < 4; ++u) *reinterpret_cast<uint4*>(x + turned_at(u, j, lane)) = v[u];
    std::byte* beside = x + kWideXBytes + j * Sums::kOctet;
    if constexpr (Sums::kByMins) {
      put_terms(beside, lane);
    } else if constexpr (Sums::kHasSums) {
      put_sums(beside, lane);
    }
  }

 private:
  // Instruction i of the step times `ones`, onto `sums`.
  __device__ __forceinline__ void add(int i, const uint32_t (&ones)[4], float (&sums)[4]) const {
    uint32_t b[2];
    b_of(v[i / 2], i % 2, b);
    multiply_bf16(sums, ones, b);
  }
  __device__ __forceinline__ void put_sums(std::byte* to, int lane) const {
    // As small as the codes.
    constexpr auto kOne = static_cast<uint32_t>(W::kBias);
    constexpr uint32_t kEven = (kOne | 0x8000u) * 0x00010001u, kOdd = (kOne << W::kOdd | 0x8000u) * 0x00010001u;
    const uint32_t ones[4] = {kEven, kOdd, kEven, kOdd};
    constexpr int kChains = W::kGroupSteps == 8 ? 2 : 1, kLong = W::kGroupSteps / kChains;
#pragma unroll
    for (int group = 0; group < Sums::kGroups; ++group) {
      float sums[kChains][4] = {};
#pragma unroll
      for (int i = 0; i < W::kGroupSteps; ++i) add(group * W::kGroupSteps + i, ones, sums[i / kLong]);
      if constexpr (kChains == 2) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[0][e] += sums[1][e];
      }
      if (lane < 4)
        *reinterpret_cast<float4*>(to + group * (kWideOctets * Sums::kOctet) + lane * 16) =
            make_float4(sums[0][0], sums[0][1], sums[0][2], sums[0][3]);
    }
  }
  // Columns 2t and 2t + 1 of the operand meet mins 0 and 1, or 2 and 3: lanes 0 and 1 of a row have the first term and
  // the third, lanes 2 and 3 the second.
  __device__ __forceinline__ void put_terms(std::byte* to, int lane) const {
    const uint32_t ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
    const int g = lane / 4, t = lane % 4;
    // Lanes of one t have the same sums, of rows 2t and 2t + 1: each gives one of them away.
    float mine = 0;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      float sums[4] = {};
      add(2 * u, ones, sums);
      add(2 * u + 1, ones, sums);
      if (g == 2 * u) mine = sums[0];
      if (g == 2 * u + 1) mine = sums[1];
    }
    float left[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) left[i] = __shfl_sync(0xffffffffu, mine, ((t % 2 * 2 + i) * 2 + g % 2) * 4 + g / 2);
    uint32_t terms[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      terms[i] = pack_bf16(left[0], left[1]);
      left[0] -= __uint_as_float(terms[i] << 16), left[1] -= __uint_as_float(terms[i] & 0xffff0000u);
    }
    *reinterpret_cast<uint2*>(to + lane * 8) = t < 2 ? make_uint2(terms[0], terms[2]) : make_uint2(terms[1], 0);
  }
};

// The scales of rows that the product before left behind, by all consumers, while they wait for the first weights.
__device__ inline void make_row_scales(const StreamArgs& in, float* scale, int warp, int lane) {
  constexpr int kRows = kWideRows / kWideConsumers, kHeld = 8;
  const NormLink& from = in.from;
  float held[kRows][kHeld] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = r * kWideConsumers + warp;
    if (row >= in.rows) break;
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (lane + 32 * i < from.parts) held[r][i] = from.squares[int64_t{row} * from.parts + lane + 32 * i];
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = r * kWideConsumers + warp;
    if (row >= in.rows) break;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) sum += held[r][i];
    for (int i = lane + 32 * kHeld; i < from.parts; i += 32) sum += from.squares[int64_t{row} * from.parts + i];
    sum = warp_sum(sum);
    if (lane == 0) scale[row] = inverse_root(sum, from.x.cols, from.eps);
  }
}

// Takes a chunk's mins off: by one product for all of its groups.
template <class W, int M, int J>
__device__ __forceinline__ void take_group_mins(const typename W::Scales::Row (&rows)[M][2], const std::byte* terms,
                                                int lane, float (&sums)[M][kWideOctets][4]) {
  uint32_t b[J][2];
#pragma unroll
  for (int j = 0; j < J; ++j) {
    const uint2 v = *reinterpret_cast<const uint2*>(terms + j * WideSums<W>::kOctet + lane * 8);
    b[j][0] = v.x, b[j][1] = v.y;
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const uint32_t even = W::Scales::min_codes(rows[m][0], lane % 2), odd = W::Scales::min_codes(rows[m][1], lane % 2);
    const uint32_t a[4] = {even, odd, even, odd};
    const float by[2] = {-rows[m][0].dmin, -rows[m][1].dmin * power_of_two(W::kOdd)};
#pragma unroll
    for (int j = 0; j < J; ++j) {
      float of[4] = {};
      multiply_bf16(of, a, b[j]);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[m][j][e] = __fmaf_rn(by[e / 2], of[e], sums[m][j][e]);
    }
  }
}

// sums[m] += the products of the 16 rows of chunks[m], whose first unit is `first_unit` of the step, with J octets of
// the x at `x`: times 2^-W::kSumPower, of rows g + 8 times 2^W::kOdd more.
template <class W, int M, int J>
__device__ __forceinline__ void multiply_groups(const std::byte* const (&chunks)[M], const std::byte* x, int first_unit,
                                                int lane, float (&sums)[M][kWideOctets][4]) {
  using Codes = typename W::Codes;
  using Scales = typename W::Scales;
  using Sums = WideSums<W>;
  constexpr int kSteps = W::kGroupSteps;
  uint32_t codes[M][Codes::kWords];
  typename Scales::Row rows[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    load_words(chunks[m], lane, codes[m]);
#pragma unroll
    for (int i = 0; i < 2; ++i) rows[m][i] = Scales::load(chunks[m] + W::kScalesAt, lane / 4 + 8 * i);
  }
  const std::byte* beside = x + kWideXBytes;
  // One octet's chain of a long group is two, so that instructions need not wait for each other.
  constexpr int kChains = J == 1 && kSteps == 8 ? 2 : 1, kLong = kSteps / kChains;
  float of[M][kChains][J][4];
#pragma unroll
  for (int u = 0; u < W::kUnits; ++u) {
    uint4 of_x[J];
#pragma unroll
    for (int j = 0; j < J; ++j) of_x[j] = *reinterpret_cast<const uint4*>(x + turned_at(first_unit + u, j, lane));
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int i = 2 * u; i < 2 * u + 2; ++i) {
        uint32_t a[4];
        Codes::operand(codes[m], u, i % 2, a);
#pragma unroll
        for (int j = 0; j < J; ++j) {
          float(&sum)[4] = of[m][i % kSteps / kLong][j];
          if (i % kLong == 0) {
            float4 begin = make_float4(0, 0, 0, 0);
            if (Sums::kHasSums && i % kSteps == 0)
              begin = *reinterpret_cast<const float4*>(
                  beside + ((first_unit * 2 + i) / kSteps * kWideOctets + j) * Sums::kOctet + lane % 4 * 16);
            sum[0] = begin.x, sum[1] = begin.y, sum[2] = begin.z, sum[3] = begin.w;
          }
          uint32_t b[2];
          b_of(of_x[j], i % 2, b);
          multiply_bf16(sum, a, b);
        }
        if (i % kSteps != kSteps - 1) continue;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float scale = Scales::scale(rows[m][r], i / kSteps);
#pragma unroll
          for (int j = 0; j < J; ++j) {
#pragma unroll
            for (int e = 2 * r; e < 2 * r + 2; ++e) {
              const float value = kChains == 2 ? of[m][0][j][e] + of[m][kChains - 1][j][e] : of[m][0][j][e];
              sums[m][j][e] = __fmaf_rn(scale, value, sums[m][j][e]);
            }
          }
        }
      }
    }
  }
  if constexpr (Sums::kByMins) take_group_mins<W, M, J>(rows, beside, lane, sums);
}

}  // namespace
}  // namespace ingot::cuda
