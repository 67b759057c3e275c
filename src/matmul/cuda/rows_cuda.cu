// What comes before and after products where that is a launch of its own: norms of the rows, GLU,
// heads, bias. One block for each row, but for the element-wise.
#include "base/check.h"
#include "cuda/elements.cuh"
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float squares(const Four& x) {
  return x.v[0] * x.v[0] + x.v[1] * x.v[1] + x.v[2] * x.v[2] + x.v[3] * x.v[3];
}
__device__ inline Four weights_four(const float* weight, int i, int cols, bool wide) {
  return get_four(reinterpret_cast<const std::byte*>(weight), i, cols, DType::kF32, wide);
}

// x, or x + add, or x + norm(add). A thread comes back to the columns that it has written. `wide`: by fours.
__global__ void __launch_bounds__(kThreads)
    linear_input_rows(const InputArgs in, const int32_t* gather, const View out, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t row = blockIdx.x, from_row = gather != nullptr ? gather[row] : row;
  const int cols = in.x.cols, first = static_cast<int>(threadIdx.x);
  float add_scale = 1;
  if (in.add_norm != nullptr) {
    float sum = 0;
    for (int i = first; 4 * i < cols; i += kThreads)
      sum += squares(get_four(in.add.row(row), i, cols, in.add.dtype, wide));
    add_scale = inverse_root(block_sum(sum, room), cols, in.add_eps);
  }
  float scale = 1;
  if (in.weight != nullptr) {
    float sum = 0;
    for (int i = first; 4 * i < cols; i += kThreads) {
      Four x = get_four(in.x.row(from_row), i, cols, in.x.dtype, wide);
      if (in.add.data != nullptr) {
        const Four add = get_four(in.add.row(row), i, cols, in.add.dtype, wide);
        Four w{{1, 1, 1, 1}};
        if (in.add_norm != nullptr) w = weights_four(in.add_norm, i, cols, wide);
#pragma unroll
        for (int k = 0; k < 4; ++k) x.v[k] += in.add_norm != nullptr ? add.v[k] * add_scale * w.v[k] : add.v[k];
        put_four(in.sum.row(row), i, cols, in.sum.dtype, wide, x);
      }
      sum += squares(x);
    }
    scale = inverse_root(block_sum(sum, room), cols, in.eps);
  }
  const View& from = in.add.data != nullptr ? in.sum : in.x;
  for (int i = first; 4 * i < out.cols; i += kThreads) {
    Four x = get_four(from.row(from_row), i, cols, from.dtype, wide);
    if (in.weight != nullptr) {
      const Four w = weights_four(in.weight, i, cols, wide);
#pragma unroll
      for (int k = 0; k < 4; ++k) x.v[k] = x.v[k] * scale * w.v[k];
    }
    put_four(out.row(row), i, out.cols, out.dtype, wide, x);
  }
}

__global__ void __launch_bounds__(kThreads)
    linear_glu(const View gate, const View up, const float* gate_bias, const float* up_bias, ActivationKind kind,
               int64_t rows, const View out, bool wide) {
  let_next_begin();
  wait_for_inputs();
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x), cols = out.cols;
  if (4 * i >= cols) return;
  Four gate_more = {}, up_more = {};
  if (gate_bias != nullptr) gate_more = weights_four(gate_bias, i, cols, false);
  if (up_bias != nullptr) up_more = weights_four(up_bias, i, cols, false);
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    Four a = get_four(gate.row(row), i, cols, gate.dtype, wide);
    const Four b = get_four(up.row(row), i, cols, up.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) a.v[k] = activated(kind, a.v[k] + gate_more.v[k]) * (b.v[k] + up_more.v[k]);
    put_four(out.row(row), i, cols, out.dtype, wide, a);
  }
}

__global__ void __launch_bounds__(kThreads) linear_bias(const View out, const float* bias, int64_t count) {
  let_next_begin();
  wait_for_inputs();
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = i / out.cols, n = i % out.cols;
    out.set(row, n, out.get(row, n) + bias[n]);
  }
}

// One of q, k and v as the product gave it.
struct HeadsPart {
  View from;
  bool wide = false;  // by fours
  const float* bias = nullptr;
  const float* norm = nullptr;
  int width = 0;  // of a norm
  float eps = 0;
};

// The row's values with bias and norms, as f32 in shared memory.
__device__ void load_heads(const HeadsPart& part, int64_t row, float* to, float* room) {
  const int cols = part.from.cols, first = static_cast<int>(threadIdx.x);
  for (int i = first; 4 * i < cols; i += kThreads) {
    Four x = get_four(part.from.row(row), i, cols, part.from.dtype, part.wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (4 * i + k < cols) to[4 * i + k] = x.v[k] + (part.bias != nullptr ? part.bias[4 * i + k] : 0.0f);
    }
  }
  __syncthreads();
  if (part.norm == nullptr) return;
  if (part.width > 1024) {  // one norm over many heads: by the block
    for (int begin = 0; begin < cols; begin += part.width) {
      float squares = 0;
      for (int i = first; i < part.width; i += kThreads) squares += to[begin + i] * to[begin + i];
      const float scale = inverse_root(block_sum(squares, room), part.width, part.eps);
      for (int i = first; i < part.width; i += kThreads) to[begin + i] *= scale * part.norm[i];
    }
  } else {  // heads: by warps
    const int lane = first % 32;
    for (int begin = first / 32 * part.width; begin < cols; begin += kThreads / 32 * part.width) {
      float squares = 0;
      for (int i = lane; i < part.width; i += 32) squares += to[begin + i] * to[begin + i];
      const float scale = inverse_root(warp_sum(squares), part.width, part.eps);
      for (int i = lane; i < part.width; i += 32) to[begin + i] *= scale * part.norm[i];
    }
  }
  __syncthreads();
}

__device__ void turn_heads(float* x, int cols, const HeadsArgs& to, const Rotation& rotation) {
  const int half = rotation.rotary / 2;
  for (int j = static_cast<int>(threadIdx.x); j < cols / to.head_dim * half; j += kThreads) {
    const int p = j % half, base = j / half * to.head_dim;
    rotate_pair(x[base + rotation.first(p)], x[base + rotation.second(p)], rotation.table[p], rotation.table[p + half]);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads)
    linear_heads(const HeadsPart q, const HeadsPart k, const HeadsPart v, const HeadsArgs to, bool q_wide) {
  __shared__ float room[32];
  float* x = shared_memory<float>();
  let_next_begin();
  wait_for_inputs();
  const int64_t row = blockIdx.x;
  const Rotation rotation{reinterpret_cast<const float*>(to.table.row(row)), to.table.cols, to.interleaved};
  // A block for q and one for k and v.
  if (blockIdx.y == 0) {
    load_heads(q, row, x, room);
    turn_heads(x, q.from.cols, to, rotation);
    for (int i = static_cast<int>(threadIdx.x); 4 * i < q.from.cols; i += kThreads) {
      Four out = {};
#pragma unroll
      for (int k = 0; k < 4; ++k) out.v[k] = 4 * i + k < q.from.cols ? x[4 * i + k] : 0.0f;
      put_four(to.q.row(row), i, q.from.cols, to.q.dtype, q_wide, out);
    }
    return;
  }
  const int slot = to.slot[row];
  if (slot < 0) return;
  float* values = x + k.from.cols;
  load_heads(k, row, x, room);
  turn_heads(x, k.from.cols, to, rotation);
  load_heads(v, row, values, room);
  const KvPlace& kv = to.kv;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < 2 * to.kv_heads; i += kThreads / 32) {
    const int head = i / 2, dim = i % 2 == 0 ? kv.k_dim : kv.v_dim;
    const float* from = (i % 2 == 0 ? x : values) + head * dim;
    kv_write_row(i % 2 == 0 ? kv.key(slot, head) : kv.value(slot, head), [&](int e) { return from[e]; });
  }
}

int blocks_for(int64_t count, const DeviceCtx& ctx) {
  return static_cast<int>(std::min<int64_t>(ceil_div(count, kThreads), int64_t{ctx.multiprocessors} * 16));
}

}  // namespace

InputArgs input_args(const ProductInput& input) {
  InputArgs args;
  args.x = View(input.x);
  if (input.norm == nullptr) return args;
  args.weight = input.norm;
  args.eps = input.eps;
  if (!input.add) return args;
  args.add = View(input.add);
  args.sum = View(input.sum);
  args.add_norm = input.add_norm;
  args.add_eps = input.add_eps;
  return args;
}

void make_rows(const InputArgs& in, const int32_t* gather, int64_t rows, const View& out, const DeviceCtx& ctx) {
  const auto fours = [](const View& v) { return v.data == nullptr || in_fours(v); };
  const auto aligned = [](const float* w) { return reinterpret_cast<uintptr_t>(w) % 16 == 0; };
  const bool wide =
      fours(in.x) && fours(in.add) && fours(in.sum) && fours(out) && aligned(in.weight) && aligned(in.add_norm);
  if (make_rows_by_vectors(in, gather, rows, out, ctx)) return;
  launch(ctx, linear_input_rows, {dim3(rows), dim3(kThreads)}, in, gather, out, wide);
}

PartOut part_out(const DeviceProduct& product, int part) {
  const ProductPart& p = product.parts[part];
  PartOut out;
  out.out = View(p.out);
  out.bias = p.bias;
  if (part == 0 && product.residual) out.residual = View(product.residual);
  return out;
}

HeadsArgs heads_args(const HeadsEnd& heads) {
  HeadsArgs args;
  args.q = View(heads.q);
  args.table = View(heads.table);
  args.slot = heads.slot;
  args.kv = heads.kv;
  args.kv_heads = heads.kv_heads;
  args.head_dim = heads.head_dim;
  args.interleaved = heads.interleaved;
  return args;
}

HeadsInput heads_input(const DeviceProduct& product, const View& q, const View& k, const View& v) {
  HeadsInput in;
  in.q = q, in.k = k, in.v = v;
  in.q_bias = product.parts[0].bias;
  in.k_bias = product.parts[1].bias;
  in.v_bias = product.parts[2].bias;
  in.q_norm = product.heads.q_norm;
  in.k_norm = product.heads.k_norm;
  in.to = heads_args(product.heads);
  in.q_heads = q.cols / in.to.head_dim;
  return in;
}

bool heads_by_pairs(const DeviceProduct& product) {
  const HeadsEnd& heads = product.heads;
  return heads && heads.q_norm.weight == nullptr && heads.k_norm.weight == nullptr && heads.kv.dtype != DType::kQ8_0 &&
         heads.head_dim % 2 == 0 && heads.kv.v_dim % 2 == 0 && heads.table.cols % 2 == 0;
}

void finish_glu(const DeviceProduct& product, const View& gate, const View& up, int64_t rows, const DeviceCtx& ctx) {
  if (finish_glu_by_vectors(product, gate, up, rows, ctx)) return;
  const PartOut a = part_out(product, 0), b = part_out(product, 1);
  const bool wide = in_fours(gate) && in_fours(up) && in_fours(a.out);
  const dim3 grid(ceil_div(a.out.cols, 4 * kThreads), std::min<int64_t>(rows, 65535));
  launch(ctx, linear_glu, {grid, dim3(kThreads)}, gate, up, a.bias, b.bias, product.glu, rows, a.out, wide);
}

void finish_heads(const DeviceProduct& product, const View& q, const View& k, const View& v, int64_t rows,
                  const DeviceCtx& ctx) {
  if (finish_heads_by_vectors(product, q, k, v, rows, ctx)) return;
  if (finish_heads_by_warps(product, q, k, v, rows, ctx)) return;
  const auto part = [&](const View& from, int i, const HeadsEnd::Norm& norm) {
    HeadsPart p;
    p.from = from;
    p.wide = in_fours(from);
    p.bias = product.parts[i].bias;
    if (norm.weight == nullptr) return p;
    p.norm = norm.weight;
    p.width = norm.width;
    p.eps = norm.eps;
    return p;
  };
  const int64_t shared = std::max(q.cols, k.cols + v.cols) * int64_t{sizeof(float)};
  const HeadsArgs to = heads_args(product.heads);
  launch(ctx, linear_heads, {dim3(rows, 2), dim3(kThreads), shared}, part(q, 0, product.heads.q_norm),
         part(k, 1, product.heads.k_norm), part(v, 2, {}), to, in_fours(to.q));
}

void add_bias(const View& out, const float* bias, int64_t rows, const DeviceCtx& ctx) {
  const int64_t count = rows * out.cols;
  launch(ctx, linear_bias, {dim3(blocks_for(count, ctx)), dim3(kThreads)}, out, bias, count);
}

}  // namespace ingot::cuda
