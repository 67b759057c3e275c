// What the streaming kernel is given, and where a value goes.
#pragma once

#include "ops/linear/linear_cuda.cuh"

namespace ingot::cuda {

// A format of the stream: bytes of a chunk of 16 rows, and the operand that a lane makes of it. bf16 is the operand.
struct StreamBF16 {
  static constexpr int kBytes = 1024;
  // Columns 16s … 16s + 15 of the chunk, as permuted.
  __device__ static void fragment(const std::byte* chunk, int s, int lane, uint32_t (&a)[4]) {
    const uint4 v = *reinterpret_cast<const uint4*>(chunk + (s * 32 + lane) * 16);
    a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
  }
};

struct StreamArgs {
  const std::byte* weights = nullptr;
  int64_t tiles = 0;
  int chunks = 0;
  int rows = 0;
  View x;           // of bf16, in global memory
  InputArgs input;  // or made here
  NormLink from, to;
  RowMap map;
  ActivationKind glu = ActivationKind::kNone;
  PartOut outs[3];
  HeadsArgs heads;
};

StreamArgs stream_args(const StreamRun& run, const Ctx& ctx);

// What an output, or a pair of them, reads beside the product: the residual and the weight of the norm after it, or
// cosine and sine.
struct Early {
  float a = 0, b = 0;
};
__device__ inline Early read_plain(const StreamArgs& args, const PartRow& at, int row) {
  Early early;
  if (at.part == 0 && args.outs[0].residual.data != nullptr) early.a = args.outs[0].residual.get(row, at.row);
  if (at.part == 0 && args.to.weight != nullptr) early.b = args.to.weight[at.row];
  return early;
}
__device__ inline Early read_pair(const StreamArgs& args, int64_t j, int row) {
  if (args.map.order != RowOrder::kHeads) return {};
  const int angle = heads_pair(args.map, j).angle;
  const View& table = args.heads.table;
  return angle < 0 ? Early{} : Early{table.get(row, angle), table.get(row, angle + table.cols / 2)};
}
// Of output i of the tile, or of pair i.
template <int R>
__device__ Early read_early(const StreamArgs& args, int64_t tile, int i, int row) {
  if (args.map.order == RowOrder::kPlain) return read_plain(args, packed_row(args.map, R, tile, i), row);
  return read_pair(args, tile * (R / 2) + i, row);
}

// Returns what is stored. REQUIRES: at is of a part.
__device__ inline float store_plain(const StreamArgs& args, const PartRow& at, int row, float value,
                                    const Early& early) {
  const PartOut& to = args.outs[at.part];
  if (to.bias != nullptr) value += to.bias[at.row];
  if (at.part == 0 && to.residual.data != nullptr) value += early.a;
  to.out.set(row, at.row, value);
  return value;
}

// Of 16 neighbouring lanes, the value of one output each: what the linear after this one reads. The whole warp comes
// here; without `valid` a lane has none.
__device__ inline void leave_for_next(const StreamArgs& args, int64_t col, int row, float value, float weight,
                                      bool valid) {
  float squares = valid ? value * value : 0.0f;
#pragma unroll
  for (int d = 8; d > 0; d >>= 1) squares += __shfl_xor_sync(0xffffffffu, squares, d);
  if (!valid) return;
  args.to.x.set(row, col, value * weight);
  if (col % 16 == 0) args.to.squares[int64_t{row} * args.to.parts + col / 16] = squares;
}

// One pair of values of q, k or v: bias, rope, and where they go.
__device__ inline void store_heads(const StreamArgs& args, int64_t j, int row, float a, float b, const Early& early) {
  const RowPair pair = heads_pair(args.map, j);
  if (pair.part < 0) return;
  const float* bias = args.outs[pair.part].bias;
  if (bias != nullptr) a += bias[pair.first], b += bias[pair.second];
  const HeadsArgs& to = args.heads;
  if (pair.angle >= 0) rotate_pair(a, b, early.a, early.b);
  if (pair.part == 0) {
    to.q.set(row, pair.first, a);
    to.q.set(row, pair.second, b);
    return;
  }
  const int slot = to.slot[row];
  if (slot < 0) return;
  const int dim = pair.part == 1 ? to.kv.k_dim : to.kv.v_dim;
  const int head = static_cast<int>(pair.first / dim), base = head * dim;
  std::byte* place = pair.part == 1 ? to.kv.k_row(slot, head) : to.kv.v_row(slot, head);
  kv_set(place, to.kv.dtype, dim, slot, static_cast<int>(pair.first) - base, a);
  kv_set(place, to.kv.dtype, dim, slot, static_cast<int>(pair.second) - base, b);
}

__device__ inline void store_pair(const StreamArgs& args, int64_t j, int row, float a, float b, const Early& early) {
  if (args.map.order == RowOrder::kHeads) return store_heads(args, j, row, a, b, early);
  if (j >= args.map.rows[0]) return;
  if (args.outs[0].bias != nullptr) a += args.outs[0].bias[j];
  if (args.outs[1].bias != nullptr) b += args.outs[1].bias[j];
  args.outs[0].out.set(row, j, activated(args.glu, a) * b);
}

}  // namespace ingot::cuda
