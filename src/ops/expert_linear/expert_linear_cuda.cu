// Experts on a device. Places are sorted by expert there, and cut into tiles of one expert each; a product's grid has
// room for as many tiles as any choice can make, and those that this one did not make end at once. The host learns
// nothing of it. Weights are read as they are published: in BF16 few rows stream them, else they are decoded to f32 in
// shared memory, which is right for every format and far from the speed of the kernels that a linear has.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "cuda/activate.cuh"
#include "cuda/elements.cuh"
#include "matmul/cuda/decode_stage.cuh"
#include "ops/cuda/ops.h"
#include "ops/expert_linear/expert_linear.h"

namespace ingot::cuda {

// What a run needs beside the op, in memory of the device.
struct DeviceExperts {
  const WeightView* weights[2] = {};  // [E] of each part
  int32_t* place = nullptr;           // [T · k] places in order of their expert
  int32_t* tiles = nullptr;           // their number, then expert, first and number of places of each
  // The experts before it that meet the same places: they have sorted them already.
  std::shared_ptr<DeviceExperts> sorted = nullptr;
};

namespace {

constexpr int kSortThreads = 1024;
constexpr int kTileFields = 3;

// Rows of x in a tile: 8 where an expert has few, else 32.
int tile_rows(int64_t places, int64_t count) { return places <= 16 * count ? 8 : 32; }
int64_t most_tiles(int64_t places, int64_t count, int rows) {
  return std::min(places, places / rows + std::min(count, places));
}

// One block: counts, sums, deals. Rows beyond those of the step are left out.
__global__ void __launch_bounds__(kSortThreads)
    sort_places(const int32_t* experts, int64_t stride, int used, int count, const int32_t* true_rows, int rows_of_tile,
                int32_t* place, int32_t* tiles) {
  int32_t* next = shared_memory<int32_t>();  // [count] where the expert's next place goes
  let_next_begin();
  wait_for_inputs();
  const int n = *true_rows * used, thread = static_cast<int>(threadIdx.x);
  const auto expert = [&](int p) { return experts[p / used * stride + p % used]; };
  for (int e = thread; e < count; e += kSortThreads) next[e] = 0;
  __syncthreads();
  for (int p = thread; p < n; p += kSortThreads) atomicAdd(next + expert(p), 1);
  __syncthreads();
  if (thread == 0) {
    int first = 0, n_tiles = 0;
    for (int e = 0; e < count; ++e) {
      const int own = next[e];
      next[e] = first;
      for (int at = 0; at < own; at += rows_of_tile, ++n_tiles) {
        int32_t* tile = tiles + 1 + n_tiles * kTileFields;
        tile[0] = e;
        tile[1] = first + at;
        tile[2] = own - at < rows_of_tile ? own - at : rows_of_tile;
      }
      first += own;
    }
    tiles[0] = n_tiles;
  }
  __syncthreads();
  for (int p = thread; p < n; p += kSortThreads) place[atomicAdd(next + expert(p), 1)] = p;
}

// The x of a tile and where its results go.
struct TileRows {
  View x;  // a row for each row of the step, or for each place
  int used = 1;
  bool by_place = false;
  View scale;  // [T, k], or none
  View out;    // a row for each place
  const float* bias = nullptr;
  const int32_t* place = nullptr;
  const int32_t* tiles = nullptr;
  ActivationKind glu = ActivationKind::kNone;  // not kNone: out holds gates, and gets f(gate) · what is computed
};

__device__ inline float gated_by(ActivationKind kind, float gate, float up) {
  switch (kind) {
    case ActivationKind::kNone:
      return up;
    case ActivationKind::kSilu:
      return gated<ActivationKind::kSilu>(gate, up);
    case ActivationKind::kGelu:
      return gated<ActivationKind::kGelu>(gate, up);
    case ActivationKind::kGeluTanh:
      return gated<ActivationKind::kGeluTanh>(gate, up);
    case ActivationKind::kRelu:
      return gated<ActivationKind::kRelu>(gate, up);
    case ActivationKind::kSigmoid:
      return gated<ActivationKind::kSigmoid>(gate, up);
    case ActivationKind::kClampedSwiglu:
      return gated<ActivationKind::kClampedSwiglu>(gate, up);
  }
  return up;
}

// M rows of x: 8 or 32. As linear_any() of matmul/cuda/any_cuda.cu: an output is a sum of sums of a stage's columns,
// the same for every tile that its row may be in.
template <class F, int M>
__global__ void __launch_bounds__(kStageThreads, F::kBlock > 64 ? 1 : 2)
    experts_any(const WeightView* weights, const TileRows t) {
  constexpr int kCols = kStageCols<F>;
  constexpr int kEach = kStageOutputs / (kStageThreads / M);  // outputs of a thread, for one row
  float* w = shared_memory<float>();
  float* staged = w + kStageOutputs * (kCols + 1);
  let_next_begin();
  wait_for_inputs();
  if (static_cast<int>(blockIdx.y) >= t.tiles[0]) return;
  const int32_t* tile = t.tiles + 1 + blockIdx.y * kTileFields;
  const WeightView weight = weights[tile[0]];
  const int32_t* place = t.place + tile[1];
  const int rows = tile[2];
  const int64_t n0 = int64_t{blockIdx.x} * kStageOutputs;
  const int n_of = static_cast<int>(threadIdx.x) % (kStageThreads / M),
            m = static_cast<int>(threadIdx.x) / (kStageThreads / M);
  float total[kEach] = {};
  for (int64_t col = 0; col < weight.cols; col += kCols) {
    decode_stage<F>(weight, n0, col, w);
    for (int i = static_cast<int>(threadIdx.x); i < M * kCols; i += kStageThreads) {
      const int r = i / kCols;
      const int64_t c = col + i % kCols;
      float value = 0;
      if (r < rows && c < weight.cols) {
        const int p = place[r];
        value = t.x.get(t.by_place ? p : p / t.used, c);
        if (t.scale.data != nullptr) value *= t.scale.get(p / t.used, p % t.used);
      }
      staged[r * (kCols + 1) + i % kCols] = value;
    }
    __syncthreads();
    float sum[kEach] = {};
    const float* xs = staged + m * (kCols + 1);
#pragma unroll 8
    for (int k = 0; k < kCols; ++k) {
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        sum[j] = __fmaf_rn(xs[k], w[(n_of + j * (kStageThreads / M)) * (kCols + 1) + k], sum[j]);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) total[j] += sum[j];
    __syncthreads();
  }
  if (m >= rows) return;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int64_t n = n0 + n_of + j * (kStageThreads / M);
    if (n >= weight.rows) continue;
    float value = total[j];
    if (t.bias != nullptr) value += t.bias[tile[0] * weight.rows + n];
    if (t.glu != ActivationKind::kNone) value = gated_by(t.glu, t.out.get(place[m], n), value);
    t.out.set(place[m], n, value);
  }
}

constexpr int kStreamThreads = 256, kStreamRows = 8;

// Weights of BF16 for a tile of at most kStreamRows rows: a warp reads some rows of them once, 8 values a lane. Two
// parts are gate and up.
template <int kParts>
__global__ void __launch_bounds__(kStreamThreads)
    experts_bf16(const WeightView* first, const WeightView* second, const TileRows t, const float* second_bias) {
  constexpr int kOutputs = kParts == 2 ? 2 : 4;  // of a warp and part
  let_next_begin();
  wait_for_inputs();
  if (static_cast<int>(blockIdx.y) >= t.tiles[0]) return;
  const int32_t* tile = t.tiles + 1 + blockIdx.y * kTileFields;
  const int32_t* place = t.place + tile[1];
  const int rows = tile[2], lane = static_cast<int>(threadIdx.x) % 32;
  const WeightView weights[2] = {first[tile[0]], kParts == 2 ? second[tile[0]] : first[tile[0]]};
  const int64_t cols = weights[0].cols, n_all = weights[0].rows;
  const int64_t n0 = (int64_t{blockIdx.x} * (kStreamThreads / 32) + threadIdx.x / 32) * kOutputs;
  if (n0 >= n_all) return;
  float sums[kParts][kOutputs][kStreamRows] = {};
  for (int64_t k = lane * 8; k < cols; k += 32 * 8) {
    uint4 w[kParts][kOutputs];
#pragma unroll
    for (int p = 0; p < kParts; ++p)
#pragma unroll
      for (int j = 0; j < kOutputs; ++j) {
        const int64_t n = n0 + j < n_all ? n0 + j : n_all - 1;
        w[p][j] = load_stream(weights[p].data + n * weights[p].row_bytes + 2 * k);
      }
#pragma unroll
    for (int r = 0; r < kStreamRows; ++r) {
      if (r >= rows) break;
      const auto* x = reinterpret_cast<const float*>(t.x.row(t.by_place ? place[r] : place[r] / t.used)) + k;
      const Four low = load_four(reinterpret_cast<const std::byte*>(x), 0, DType::kF32);
      const Four high = load_four(reinterpret_cast<const std::byte*>(x), 1, DType::kF32);
#pragma unroll
      for (int p = 0; p < kParts; ++p)
#pragma unroll
        for (int j = 0; j < kOutputs; ++j) {
          const uint32_t words[4] = {w[p][j].x, w[p][j].y, w[p][j].z, w[p][j].w};
          float sum = sums[p][j][r];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const Four& half = i < 2 ? low : high;
            sum = __fmaf_rn(__uint_as_float(words[i] << 16), half.v[i % 2 * 2], sum);
            sum = __fmaf_rn(__uint_as_float(words[i] & 0xffff0000u), half.v[i % 2 * 2 + 1], sum);
          }
          sums[p][j][r] = sum;
        }
    }
  }
#pragma unroll
  for (int r = 0; r < kStreamRows; ++r) {
    if (r >= rows) break;
#pragma unroll
    for (int j = 0; j < kOutputs; ++j) {
      float value = warp_sum(sums[0][j][r]);
      float up = kParts == 2 ? warp_sum(sums[kParts - 1][j][r]) : 0.0f;
      if (lane != 0 || n0 + j >= n_all) continue;
      if (t.bias != nullptr) value += t.bias[tile[0] * n_all + n0 + j];
      if (second_bias != nullptr) up += second_bias[tile[0] * n_all + n0 + j];
      t.out.set(place[r], n0 + j, kParts == 2 ? gated_by(t.glu, value, up) : value);
    }
  }
}

// out = Σ over a row's places, in their order.
__global__ void add_places(View places, View weights, View out, int used, const int32_t* true_rows) {
  let_next_begin();
  wait_for_inputs();
  const int64_t n = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t t = blockIdx.y;
  if (n >= out.cols || t >= *true_rows) return;
  float sum = 0;
  for (int j = 0; j < used; ++j) {
    const float w = weights.data != nullptr ? weights.get(t, j) : 1.0f;
    sum = __fmaf_rn(w, places.get(t * used + j, n), sum);
  }
  out.set(t, n, sum);
}

// A row for each place.
View by_place(const Tensor& t, int64_t used) {
  Matrix m(t);
  m.cols = t.cols / used;
  m.stride = m.cols;
  return View(m);
}

template <class F, int M>
void launch_tiles(const ExpertLinear& op, const WeightView* weights, const TileRows& t, int64_t tiles, Ctx& ctx) {
  constexpr int64_t kShared = int64_t{kStageOutputs + M} * (kStageCols<F> + 1) * 4;
  launch(ctx, experts_any<F, M>,
         {dim3(static_cast<unsigned>(ceil_div(op.rows_out(), kStageOutputs)), static_cast<unsigned>(tiles)),
          dim3(kStageThreads), kShared},
         weights, t);
}

// Whether few rows stream the weights: in BF16, in whole vectors. Their sums have another order than many rows'.
bool streams(const ExpertLinear& op, const TileRows& t, int tile, const Ctx& ctx) {
  bool bf16 = tile <= kStreamRows && !ctx.batch_invariant && !op.scale && op.cols_in() % 8 == 0;
  for (int i = 0; i < op.n_parts; ++i) bf16 &= op.parts[static_cast<size_t>(i)].weights[0].format == Format::kBF16;
  return bf16 && t.x.dtype == DType::kF32 && in_fours(t.x);
}

void launch_bf16(const ExpertLinear& op, const TileRows& t, int64_t tiles, Ctx& ctx) {
  const int64_t outputs = kStreamThreads / 32 * (op.is_glu() ? 2 : 4);
  const Launch shape{dim3(static_cast<unsigned>(ceil_div(op.rows_out(), outputs)), static_cast<unsigned>(tiles)),
                     dim3(kStreamThreads)};
  const auto* up_bias = reinterpret_cast<const float*>(op.parts[1].bias.data);
  if (op.is_glu()) {
    launch(ctx, experts_bf16<2>, shape, op.device->weights[0], op.device->weights[1], t, up_bias);
  } else {
    launch(ctx, experts_bf16<1>, shape, op.device->weights[0], op.device->weights[0], t,
           static_cast<const float*>(nullptr));
  }
}

// One part after the other: what gate gave lies where the result will.
void launch_any(const ExpertLinear& op, TileRows t, int tile, int64_t tiles, Ctx& ctx) {
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    t.bias = reinterpret_cast<const float*>(op.parts[i].bias.data);
    t.glu = i == 1 ? op.glu : ActivationKind::kNone;
    visit_format(op.parts[i].weights[0].format, [&](auto format) {
      using F = decltype(format);
      if (tile == 8) {
        launch_tiles<F, 8>(op, op.device->weights[i], t, tiles, ctx);
      } else {
        launch_tiles<F, 32>(op, op.device->weights[i], t, tiles, ctx);
      }
    });
  }
}

const int32_t* rows_of_step(const Tensor& t, const Ctx& ctx) {
  return ctx.batch.counts + (t.rows.kind == RowKind::kLogits ? 2 : 0);
}

}  // namespace

void prepare(ExpertLinear& op, Prepare& p) {
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  const int64_t places = rows * op.used();
  op.device = std::make_shared<DeviceExperts>();
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    std::vector<WeightView> views;
    for (const Weight& w : op.parts[i].weights) {
      if (w.format != op.parts[i].weights[0].format)
        throw Error("[cuda] '{}' and '{}' have different formats", op.parts[i].weights[0].name, w.name);
      views.emplace_back(w);
    }
    op.device->weights[i] = p.upload(views.data(), static_cast<int64_t>(views.size()));
  }
  const int64_t tiles = std::max(most_tiles(places, op.count(), 8), most_tiles(places, op.count(), 32));
  op.device->place = reinterpret_cast<int32_t*>(p.allocate(places * 4));
  op.device->tiles = reinterpret_cast<int32_t*>(p.allocate((1 + tiles * kTileFields) * 4));
}

bool link(ExpertLinear& first, ExpertLinear& second, Prepare&) {
  if (first.experts.data != second.experts.data || first.x.rows != second.x.rows || first.count() != second.count())
    return false;
  second.device->sorted = first.device;
  return true;
}

void run(const ExpertLinear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), used = op.used(), places = rows * used;
  if (rows == 0) return;
  const int tile = tile_rows(places, op.count());
  const int32_t* true_rows = rows_of_step(op.x, ctx);
  const DeviceExperts& sorted = op.device->sorted != nullptr ? *op.device->sorted : *op.device;
  if (op.device->sorted == nullptr)
    launch(ctx, sort_places, {dim3(1), dim3(kSortThreads), op.count() * 4}, op.experts.row<int32_t>(0),
           op.experts.stride, static_cast<int>(used), static_cast<int>(op.count()), true_rows, tile, op.device->place,
           op.device->tiles);
  TileRows t;
  t.x = op.by_place() ? by_place(op.x, used) : View(op.x);
  t.used = static_cast<int>(used);
  t.by_place = op.by_place();
  if (op.scale) t.scale = View(op.weights);
  t.out = by_place(op.places, used);
  t.place = sorted.place;
  t.tiles = sorted.tiles;
  const int64_t tiles = most_tiles(places, op.count(), tile);
  t.bias = reinterpret_cast<const float*>(op.parts[0].bias.data);
  if (streams(op, t, tile, ctx)) {
    t.glu = op.glu;
    launch_bf16(op, t, tiles, ctx);
  } else {
    launch_any(op, t, tile, tiles, ctx);
  }
  if (!op.out) return;
  const int64_t threads = std::min<int64_t>(256, ceil_div(op.out.cols, 32) * 32);
  launch(ctx, add_places,
         {dim3(static_cast<unsigned>(ceil_div(op.out.cols, threads)), static_cast<unsigned>(rows)),
          dim3(static_cast<unsigned>(threads))},
         by_place(op.places, used), op.weights ? View(op.weights) : View(), View(op.out), static_cast<int>(used),
         true_rows);
}

}  // namespace ingot::cuda
