// What the kernel of nine to 32 rows does with its sums: each warp for itself, straight from its registers.
//
// A warp's sums are of 16 rows of the weights, a sixteen, and of all rows of x, eight at a time: an octet. With lane =
// 4g + t, rows 2t + e of an octet and rows g, g + 8 of a sixteen are sums[e] and sums[e + 2].
#pragma once

#include <type_traits>

#include "cuda/tensor_copy.cuh"
#include "matmul/cuda/wide/wide.cuh"

namespace ingot::cuda {

struct WideArgs {
  StreamArgs stream;
  WidePlan plan;
  float* handed = nullptr;  // [slab, slice, sixteen, octet, lane, 4] what slices hand to each other
  TensorMap x;              // of codes: rectangles of the octets of x and 64 columns
};

// The kernel of a format (stream_formats.cuh).
template <class W>
void run_wide_format(const WideArgs& args, const DeviceCtx& ctx);

// What follows the sums.
enum class WideEnd : uint8_t {
  kPlain,
  kPairs,
  kSilu,  // the GLU of most models to bf16, without biases
};

// An octet's sums are turned in shared memory, so that 16 neighbouring lanes have 16 outputs of a row, or 8 pairs.
__device__ inline void turn_octet(const float (&sums)[4], float* room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* to = room + lane % 4 * 2 * kTurnedRow + lane / 4;
  to[0] = sums[0];
  to[kTurnedRow] = sums[1];
  to[8] = sums[2];
  to[kTurnedRow + 8] = sums[3];
  __syncwarp();
}

// What a lane makes of an octet: outputs of rows r, r + 2, r + 4 and r + 6.
struct OctetOutputs {
  static constexpr int kCount = 4;
  int row = 0;
  bool valid = false;  // there is such an output
  DType dtype = DType::kF32;
  std::byte* out = nullptr;  // of row r
  int64_t step = 0;          // bytes of two rows
  float bias = 0;
  float weight = 0;            // of the norm after it
  uint16_t* linked = nullptr;  // what the product after it reads; null: nothing
  float* squares = nullptr;    // likewise, by the first of 16 lanes
  const std::byte* residual_at = nullptr;
  float residual[kCount] = {};

  // All but what read() reads.
  __device__ void find(const StreamArgs& args, int64_t sixteen, int octet) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    row = octet * 8 + lane / 16;
    const PartRow at = packed_row(args.map, 16, sixteen, lane % 16);
    valid = at.part >= 0;
    if (!valid) return;
    const PartOut& to = args.outs[at.part];
    dtype = to.out.dtype;
    out = place_in(to.out, row, at.row);
    step = to.out.stride * (dtype == DType::kF32 ? 8 : 4);
    if (to.bias != nullptr) bias = to.bias[at.row];
    if (at.part != 0) return;
    if (to.residual.data != nullptr) residual_at = place_in(to.residual, row, at.row);
    if (args.to.weight == nullptr) return;
    weight = args.to.weight[at.row];
    linked = reinterpret_cast<uint16_t*>(args.to.x.data) + row * args.to.x.stride + at.row;
    if (lane % 16 == 0) squares = args.to.squares + int64_t{row} * args.to.parts + at.row / 16;
  }
  __device__ void read(const StreamArgs& args) {
    const View& from = args.outs[0].residual;
    if (residual_at == nullptr) return;
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      if (row + 2 * k < args.rows) residual[k] = load_value(residual_at, 2 * k * from.stride, from.dtype);
  }
  // By the whole warp. `scale`: of each row, or null.
  __device__ void finish(const StreamArgs& args, const float (&sums)[4], const float* scale, float* room) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    turn_octet(sums, room);
    float value[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      value[k] = room[(lane / 16 + 2 * k) * kTurnedRow + lane % 16];
      if (scale != nullptr) value[k] *= scale[row + 2 * k];
      value[k] = value[k] + bias + residual[k];
    }
    if (valid && dtype == DType::kF32) {
#pragma unroll
      for (int k = 0; k < kCount; ++k)
        if (row + 2 * k < args.rows) *reinterpret_cast<float*>(out + k * step) = value[k];
    } else if (valid) {
#pragma unroll
      for (int k = 0; k < kCount; ++k)
        if (row + 2 * k < args.rows) store_value(out + k * step, 0, dtype, value[k]);
    }
    if (args.to.weight != nullptr) leave_for_next(args, value);
    __syncwarp();
  }

 private:
  __device__ void leave_for_next(const StreamArgs& args, const float (&value)[kCount]) const {
    float sum[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (linked != nullptr && row + 2 * k < args.rows) linked[2 * k * args.to.x.stride] = bf16_bits(value[k] * weight);
      sum[k] = valid ? value[k] * value[k] : 0.0f;
    }
#pragma unroll
    for (int d = 8; d > 0; d >>= 1) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], d);
    }
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      if (squares != nullptr && row + 2 * k < args.rows) squares[2 * k * args.to.parts] = sum[k];
  }
};

// Or pairs of rows r and r + 4.
struct OctetPairs {
  static constexpr int kCount = 2;
  StreamItem both;  // what they have in common
  int angle = -1;   // of rope; -1: none
  std::byte* first[kCount] = {};
  int second[kCount] = {};  // bytes behind the first
  float cos[kCount], sin[kCount];

  // As few instructions as it takes: q, k and v have 1 us for it, and one pair after another with a row each took 4.
  __device__ void find(const StreamArgs& args, int64_t sixteen, int octet) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t j = sixteen * 8 + lane % 8;
    both.row = octet * 8 + lane / 8;
    if (args.map.order == RowOrder::kHeads) {
      find_heads(args, j);
      return;
    }
    if (both.row >= args.rows) return;
    find_glu(args, j, both);
    if (both.first == nullptr) return;
    first[0] = both.first;
    first[1] = both.first + args.outs[0].out.stride * (both.dtype == DType::kF32 ? 16 : 8);
  }
  __device__ void read(const StreamArgs& args) {
    const View& table = args.heads.table;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (angle < 0 || both.row + k * 4 >= args.rows) continue;
      const float* angles = reinterpret_cast<const float*>(table.row(both.row + k * 4)) + angle;
      cos[k] = angles[0];
      sin[k] = angles[table.cols / 2];
    }
  }
  __device__ void finish(const StreamArgs& args, const float (&sums)[4], const float* scale, float* room) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    turn_octet(sums, room);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const float* from = room + (lane / 8 + k * 4) * kTurnedRow + lane % 8;
      const int row = both.row + k * 4;
      const float by = scale != nullptr ? scale[row] : 1.0f;
      StreamItem item = both;
      item.first = row < args.rows ? first[k] : nullptr;
      item.second = args.map.order == RowOrder::kHeads ? first[k] + second[k] : nullptr;
      item.cos_at = angle < 0 ? nullptr : &cos[k];
      item.cos = cos[k], item.sin = sin[k];
      finish_pair(args, item, from[0] * by, from[8] * by);
    }
    __syncwarp();
  }

 private:
  __device__ void find_heads(const StreamArgs& args, int64_t j) {
    const HeadsArgs& to = args.heads;
    int slot[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) slot[k] = both.row + k * 4 < args.rows ? to.slot[both.row + k * 4] : -1;
    const RowPair pair = heads_pair(args.map, j);
    if (pair.part < 0) return;
    angle = pair.angle;
    const float* bias = args.outs[pair.part].bias;
    if (bias != nullptr) both.bias = bias[pair.first], both.second_bias = bias[pair.second];
    const int from = static_cast<int>(pair.first), apart = static_cast<int>(pair.second - pair.first);
    if (pair.part == 0) {
      both.dtype = to.q.dtype;
      const int bytes = both.dtype == DType::kF32 ? 4 : 2;
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        first[k] = to.q.data + (both.row + k * 4) * to.q.stride * bytes + from * bytes;
        second[k] = apart * bytes;
      }
      return;
    }
    const bool is_k = pair.part == 1;
    const KvPlace& kv = to.kv;
    const int dim = is_k ? kv.k_dim : kv.v_dim, head = from / dim, i = from - head * dim;
    const int row_bytes = is_k ? kv.k_bytes : kv.v_bytes, bytes = kv_element_bytes(kv.dtype);
    std::byte* page = is_k ? kv.k_rows(0, head) : kv.v_rows(0, head);
    both.dtype = kv.dtype;
    both.cached = true;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (slot[k] < 0) continue;
      const int of = slot[k] / kv.page_rows, place = slot[k] - of * kv.page_rows;
      const int at = kv_index(kv.dtype, dim, slot[k], i);
      first[k] = page + of * (is_k ? kv.k_page : kv.v_page) + int64_t{place} * row_bytes + at * bytes;
      second[k] = (kv_index(kv.dtype, dim, slot[k], i + apart) - at) * bytes;
    }
  }
};

// The octet of a sixteen that a slice adds up; kWideOctets or more: none. With eight slices a consumer has one of its
// two sixteens.
template <int S>
__device__ constexpr int octet_of(int slice, int of_slab) {
  return (slice + (of_slab + of_slab / kWideConsumers) * kWideOctets) % S;
}

// What slices hand to each other of one sixteen: [slice, this sixteen, octet].
template <int S>
struct Handed {
  static constexpr int kOctet = 32 * 4;  // floats
  static constexpr int kSlice = kWideMost * kWideOctets * kOctet;
  float* at;  // of slice 0, for this lane
  __device__ Handed(const WideArgs& args, int64_t slab, int of_slab)
      : at(args.handed + slab * (S * kSlice) + (of_slab * kWideOctets * 32 + static_cast<int>(threadIdx.x) % 32) * 4) {}

  // To the other slices what is theirs.
  __device__ void give(int slice, int mine, int rows, const float (&sums)[kWideOctets][4]) const {
#pragma unroll
    for (int j = 0; j < kWideOctets; ++j) {
      if (j != mine && j * 8 < rows)
        hand_over(at + slice * kSlice + j * kOctet, make_float4(sums[j][0], sums[j][1], sums[j][2], sums[j][3]));
    }
  }
  // The octet `mine`: this slice's sums and those of the others, in their order.
  __device__ void add(int slice, int mine, const float (&sums)[kWideOctets][4], float (&out)[4]) const {
#pragma unroll
    for (int j = 0; j < kWideOctets; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[e] = j == 0 || j == mine ? sums[j][e] : out[e];
    }
    float* from[S - 1];
    float4 v[S - 1];
#pragma unroll
    for (int i = 0; i < S - 1; ++i) from[i] = at + (i + (i >= slice ? 1 : 0)) * kSlice + mine * kOctet;
    take_over(from, v);
#pragma unroll
    for (int i = 0; i < S - 1; ++i) out[0] += v[i].x, out[1] += v[i].y, out[2] += v[i].z, out[3] += v[i].w;
  }
};

// x / (1 + e^-x), to 2^-20.
__device__ inline float fast_silu(float x) { return x * fast_reciprocal(1.0f + fast_exp2(-1.44269504f * x)); }

// The GLU of a sixteen. `out`: of its first row of x and this lane's pair; null: there is none.
__device__ inline void finish_silu(const StreamArgs& args, uint16_t* out, const float* scale,
                                   const float (&sums)[kWideOctets][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t stride = args.outs[0].out.stride;
#pragma unroll
  for (int j = 0; j < kWideOctets; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int row = j * 8 + lane % 4 * 2 + e;
      const float by = scale != nullptr ? scale[row] : 1.0f;
      const uint16_t unit = bf16_bits(fast_silu(sums[j][e] * by) * (sums[j][e + 2] * by));
      if (out != nullptr && row < args.rows) out[row * stride] = unit;
    }
  }
}

}  // namespace ingot::cuda
