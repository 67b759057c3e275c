// What the streaming kernel is given, and where a value goes.
#pragma once

#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {

struct StreamArgs {
  const std::byte* weights = nullptr;
  int64_t tiles = 0;
  int chunks = 0;  // of a tile, as the weights' format has them
  int units = 0;   // of x: 32 columns each
  int rows = 0;
  View x;           // of bf16, in global memory
  InputArgs input;  // or made here
  NormLink from, to;
  RowMap map;
  ActivationKind glu = ActivationKind::kNone;
  PartOut outs[3];
  HeadsArgs heads;
  // Parts of different formats are launches that run beside each other. The first lets the next begin when its own
  // inputs are there: so those that follow need not wait for theirs, but end after it, because what comes behind them
  // waits for the last alone.
  bool leads = false, follows = false;
};

__device__ inline void begin_launch(const StreamArgs& args) {
  if (!args.leads) let_next_begin();
}
__device__ inline void await_inputs(const StreamArgs& args) {
  if (!args.follows) wait_for_inputs();
  if (args.leads) let_next_begin();
}
__device__ inline void end_launch(const StreamArgs& args) {
  if (args.follows) wait_for_inputs();
}

StreamArgs stream_args(const StreamRun& run);

// The streaming kernel of a format (stream_formats.cuh), and what its block takes of shared memory beside x.
template <class W>
void run_stream_format(const StreamArgs& args, int tile_rows, const DeviceCtx& ctx);
template <class W>
int64_t stream_fixed_bytes(int tile_rows);

// The output, or the pair of outputs, that a thread makes of a tile's sums: found while weights are on their way, so
// that sums, one expression and the stores are left at the end. Reading arguments and finding places there took 1.3 us,
// longer than all else that follows the last weight.
struct StreamItem {
  int row = 0;
  int at = 0;                   // in a row of sums; the pair's second is 8 further
  std::byte* first = nullptr;   // where it goes; null: there is none
  std::byte* second = nullptr;  // and the second of a pair that is two values
  DType dtype = DType::kF32;    // of both
  bool cached = false;          // they go to the KV cache
  float bias = 0, second_bias = 0;
  float weight = 0;  // of the norm after it
  int64_t col = 0;   // of a plain output
  // What is read when the previous kernel has ended: the residual, or cosine and sine; null: nothing.
  const std::byte* residual_at = nullptr;
  const float *cos_at = nullptr, *sin_at = nullptr;
  uint32_t residual = 0;  // bits
  float cos = 1, sin = 0;

  __device__ void read(DType residual_type) {
    if (residual_at != nullptr) {
      residual = residual_type == DType::kF32 ? *reinterpret_cast<const uint32_t*>(residual_at)
                                              : *reinterpret_cast<const uint16_t*>(residual_at);
    }
    if (cos_at != nullptr) cos = *cos_at, sin = *sin_at;
  }
};

__device__ inline float bits_value(uint32_t bits, DType dtype) {
  if (dtype == DType::kF32) return __uint_as_float(bits);
  return dtype == DType::kBF16 ? bf16_value(static_cast<uint16_t>(bits)) : f16_value(static_cast<uint16_t>(bits));
}
__device__ inline std::byte* place_in(const View& v, int row, int64_t col) {
  return v.row(row) + col * (v.dtype == DType::kF32 ? 4 : 2);
}

template <int R>
__device__ void find_plain(const StreamArgs& args, int64_t tile, int i, StreamItem& item) {
  const PartRow at = packed_row(args.map, R, tile, i);
  if (at.part < 0) return;
  const PartOut& to = args.outs[at.part];
  item.at = i;
  item.first = place_in(to.out, item.row, at.row);
  item.dtype = to.out.dtype;
  item.col = at.row;
  if (to.bias != nullptr) item.bias = to.bias[at.row];
  if (at.part != 0) return;
  if (to.residual.data != nullptr) item.residual_at = place_in(to.residual, item.row, at.row);
  if (args.to.weight != nullptr) item.weight = args.to.weight[at.row];
}

__device__ inline void find_glu(const StreamArgs& args, int64_t j, StreamItem& item) {
  if (j >= args.map.rows[0]) return;
  const View& out = args.outs[0].out;
  item.first = place_in(out, item.row, j);
  item.dtype = out.dtype;
  if (args.outs[0].bias != nullptr) item.bias = args.outs[0].bias[j];
  if (args.outs[1].bias != nullptr) item.second_bias = args.outs[1].bias[j];
}

// A pair of q, k or v. The batch's slots were there before the step's first kernel.
__device__ inline void find_heads(const StreamArgs& args, int64_t j, StreamItem& item) {
  const RowPair pair = heads_pair(args.map, j);
  if (pair.part < 0) return;
  const HeadsArgs& to = args.heads;
  const float* bias = args.outs[pair.part].bias;
  if (bias != nullptr) item.bias = bias[pair.first], item.second_bias = bias[pair.second];
  if (pair.angle >= 0) {
    const float* angles = reinterpret_cast<const float*>(to.table.row(item.row));
    item.cos_at = angles + pair.angle;
    item.sin_at = angles + pair.angle + to.table.cols / 2;
  }
  if (pair.part == 0) {
    item.first = place_in(to.q, item.row, pair.first);
    item.second = place_in(to.q, item.row, pair.second);
    item.dtype = to.q.dtype;
    return;
  }
  const int slot = to.slot[item.row];
  if (slot < 0) return;
  const bool is_k = pair.part == 1;
  const int dim = is_k ? to.kv.k_dim : to.kv.v_dim, head = static_cast<int>(pair.first) / dim;
  std::byte* place = is_k ? to.kv.k_row(slot, head) : to.kv.v_row(slot, head);
  const auto at = [&](int64_t i) {
    const int index = kv_index(to.kv.dtype, dim, slot, static_cast<int>(i) - head * dim);
    return place + int64_t{index} * kv_element_bytes(to.kv.dtype);
  };
  item.first = at(pair.first);
  item.second = at(pair.second);
  item.dtype = to.kv.dtype;
  item.cached = true;
}

// Output i of the tile, or pair i, for one row of x; all but what read() reads.
template <int R>
__device__ StreamItem find_item(const StreamArgs& args, int64_t tile, int i, int row) {
  StreamItem item;
  if (row >= args.rows) return item;
  item.row = row;
  if (args.map.order == RowOrder::kPlain) {
    find_plain<R>(args, tile, i, item);
    return item;
  }
  item.at = i / 8 * 16 + i % 8;
  const int64_t j = tile * (R / 2) + i;
  if (args.map.order == RowOrder::kHeads) {
    find_heads(args, j, item);
  } else {
    find_glu(args, j, item);
  }
  return item;
}

__device__ inline void store_item(const StreamItem& item, std::byte* to, float value) {
  if (!item.cached) return store_value(to, 0, item.dtype, value);
  kv_store(to, item.dtype, value);
}

// Where norms are made on the way, the values of 16 neighbouring lanes are 16 outputs of a row: what the product after
// this one reads. The whole warp comes here.
__device__ inline void finish_plain(const StreamArgs& args, const StreamItem& item, float value) {
  const bool valid = item.first != nullptr;
  value += item.bias;
  if (args.outs[0].residual.data != nullptr) value += bits_value(item.residual, args.outs[0].residual.dtype);
  if (valid) store_item(item, item.first, value);
  if (args.to.weight == nullptr) return;
  if (valid) args.to.x.set(item.row, item.col, value * item.weight);
  float squares = valid ? value * value : 0.0f;
#pragma unroll
  for (int d = 8; d > 0; d >>= 1) squares += __shfl_xor_sync(0xffffffffu, squares, d);
  if (valid && item.col % 16 == 0) args.to.squares[int64_t{item.row} * args.to.parts + item.col / 16] = squares;
}

__device__ inline void finish_pair(const StreamArgs& args, const StreamItem& item, float a, float b) {
  if (item.first == nullptr) return;
  a += item.bias, b += item.second_bias;
  if (item.second == nullptr) return store_item(item, item.first, activated(args.glu, a) * b);
  if (item.cos_at != nullptr) rotate_pair(a, b, item.cos, item.sin);
  store_item(item, item.first, a);
  store_item(item, item.second, b);
}

}  // namespace ingot::cuda
