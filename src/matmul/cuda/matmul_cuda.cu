// Linear on the device: chooses how, by rows and format.
//
//   1 to 8 rows of bf16    the streaming kernel, with norm, bias, gated unit, residual and heads in the same launch,
//                          and with the linears that follow; a launch before it where a norm is made once for all
//                          blocks or adds something, one after it where heads have norms of their own
//   9 to 32 rows of bf16   the same by a kernel of taller tiles, where something is fused in
//   more rows of bf16      norm → bf16 · product by cuBLASLt or else our own · gated unit or heads
//   all else               norm → f32 · product by the kernel that decodes as it goes · gated unit or heads
//
// Batch-invariant: bf16 by our own product alone and never cuBLASLt, because its order over K does not depend on the
// number of rows; it reads weights at about a tenth of the streaming kernel's speed for one row. The third way is
// invariant as it is.
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/cuda_blas.h"
#include "matmul/cuda/wide.cuh"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

bool all_bf16(const Linear& op) {
  return std::all_of(op.parts.begin(), op.parts.begin() + op.n_parts,
                     [](const Linear::Part& p) { return p.weight.format == Format::kBF16; });
}

RowMap row_map(const Linear& op) {
  RowMap map;
  map.parts = op.n_parts;
  for (int i = 0; i < op.n_parts; ++i) map.rows[i] = op.parts[static_cast<size_t>(i)].weight.rows;
  if (op.is_glu()) map.order = RowOrder::kGlu;
  if (!heads_by_pairs(op)) return map;
  map.order = RowOrder::kHeads;
  map.head_dim = op.heads.rope.head_dim;
  map.rotary = static_cast<int>(op.heads.rope.table.cols);
  map.interleaved = op.heads.rope.interleaved;
  return map;
}

int64_t up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Scratch of one op: rows of x, then the products of each part.
class Scratch {
 public:
  explicit Scratch(const Ctx& ctx) : next_(ctx.scratch), left_(ctx.scratch_bytes) {}
  View take(int64_t rows, int64_t cols, DType dtype) {
    View v;
    v.data = take_bytes(rows * cols * dtype_bytes(dtype));
    v.stride = cols;
    v.cols = static_cast<int>(cols);
    v.dtype = dtype;
    return v;
  }
  std::byte* take_bytes(int64_t n) {
    const int64_t bytes = up(n);
    CHECK(bytes <= left_, "{} bytes of scratch, {} left", bytes, left_);
    std::byte* at = next_;
    next_ += bytes;
    left_ -= bytes;
    return at;
  }

 private:
  std::byte* next_;
  int64_t left_;
};

int64_t padded_cols(const Linear& op) { return stream_chunks(op.x.cols) * kStreamCols; }

// Whether the products go to scratch, for a launch after them.
bool is_finished_later(const Linear& op) { return op.is_glu() || op.heads; }

int64_t total_rows(const Linear& op) {
  int64_t total = 0;
  for (int i = 0; i < op.n_parts; ++i) total += op.parts[static_cast<size_t>(i)].weight.rows;
  return total;
}

// Whether a device has bulk copies, and a block of it the shared memory that the streaming kernel wants.
bool stream_runs(int arch) { return arch >= 90 && arch < 120; }

bool is_stream_x(const View& x, int64_t padded) {
  return x.dtype == DType::kBF16 && x.cols == padded && x.stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

bool heads_later(const Linear& op, const RowMap& map) { return op.heads && map.order != RowOrder::kHeads; }

// x as it lies in memory, where the streaming kernel can read it so. data null: it cannot.
View stream_x(const Linear& op) {
  if (op.streamed->from.weight != nullptr) return op.streamed->from.x;
  const View x = input_args(op).x;
  return !op.input && is_stream_x(x, padded_cols(op)) ? x : View();
}

// The most rows of op for which packed weights are read. A plain product has nothing to gain beyond kStreamRows: the
// head of an 8B model takes 253 us of an H200 at 32 rows by cuBLASLt, 290 by the kernel of taller tiles.
int64_t packed_rows(const Linear& op, bool blas) {
  return op.is_glu() || heads_by_pairs(op) || op.residual || !blas ? kWideRows : kStreamRows;
}

bool streams(const Linear& op, int64_t rows, const Ctx& ctx) {
  if (op.streamed == nullptr || !stream_runs(ctx.arch) || ctx.batch_invariant) return false;
  const NormLink& from = op.streamed->from;
  return rows <= packed_rows(op, ctx.blas != nullptr) && (from.weight == nullptr || rows <= from.rows);
}

WidePlan plan_of(const Linear& op, const RowMap& map, int multiprocessors) {
  const int tile_rows = op.streamed->tile_rows;
  return wide_plan(stream_tiles(map, tile_rows), tile_rows, static_cast<int>(stream_chunks(op.x.cols)),
                   multiprocessors);
}

StreamRun stream_run(const Linear& op, int64_t rows) {
  StreamRun run;
  run.op = &op;
  run.map = row_map(op);
  run.rows = rows;
  run.input = input_args(op);
  run.x = stream_x(op);
  for (int i = 0; i < op.n_parts; ++i) run.outs[i] = part_out(op, i);
  return run;
}

void stream(const Linear& op, int64_t rows, const Ctx& ctx) {
  Scratch scratch(ctx);
  StreamRun run = stream_run(op, rows);
  // Every block reads x: a sum that lies where x does may only be written by a launch before it.
  const bool by_every_block =
      run.input.add.data == nullptr && rows <= kStreamNormRows && stream_holds(rows, op.x.cols, op.streamed->tile_rows);
  if (run.x.data == nullptr && !by_every_block) {
    run.x = scratch.take(rows, padded_cols(op), DType::kBF16);
    make_rows(run.input, rows, run.x, ctx);
  }
  const bool later = heads_later(op, run.map);
  for (int i = 0; i < op.n_parts && later; ++i) {
    run.outs[i] = {};
    run.outs[i].out = scratch.take(rows, op.parts[static_cast<size_t>(i)].weight.rows, DType::kF32);
  }
  if (rows <= kStreamRows) {
    run_stream(run, ctx);
  } else {
    run_wide(run, plan_of(op, run.map, ctx.multiprocessors), ctx);
  }
  if (later) finish_heads(op, run.outs[0].out, run.outs[1].out, run.outs[2].out, rows, ctx);
}

// x as the products read it.
View input_rows(const Linear& op, int64_t rows, bool bf16, Scratch& scratch, const Ctx& ctx) {
  const InputArgs input = input_args(op);
  if (!op.input && (!bf16 || (input.x.dtype == DType::kBF16 && input.x.stride % 8 == 0 &&
                              reinterpret_cast<uintptr_t>(input.x.data) % 16 == 0)))
    return input.x;
  View x = scratch.take(rows, padded_cols(op), bf16 ? DType::kBF16 : DType::kF32);
  make_rows(input, rows, x, ctx);
  x.cols = static_cast<int>(op.x.cols);
  return x;
}

// `weight` may stand for several that lie one after another. False: this library has no way.
bool by_blas(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const Ctx& ctx) {
  if (ctx.blas == nullptr || ctx.batch_invariant || out.out.dtype == DType::kF16) return false;
  const int64_t align = 16 / dtype_bytes(out.out.dtype);
  if (out.out.stride % align != 0 || reinterpret_cast<uintptr_t>(out.out.data) % 16 != 0) return false;
  const bool add = out.residual.data != nullptr;
  if (add && (out.residual.dtype != out.out.dtype || out.residual.stride != out.out.stride)) return false;
  const Blas::Product product{.x = x.data,
                              .x_stride = x.stride,
                              .weights = weight.data,
                              .out = out.out.data,
                              .out_stride = out.out.stride,
                              .out_f32 = out.out.dtype == DType::kF32,
                              .add = add ? out.residual.data : nullptr,
                              .rows = rows,
                              .n = weight.rows,
                              .cols = weight.cols};
  if (!ctx.blas->run(product, ctx.stream)) return false;
  if (out.bias != nullptr) add_bias(out.out, out.bias, rows, ctx);
  return true;
}

void multiply(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const Ctx& ctx) {
  if (!gemm_takes(x, weight)) return run_any(x, weight, out, rows, ctx);
  if (!by_blas(x, weight, out, rows, ctx)) run_gemm(x, weight, out, rows, ctx);
}

// All parts as one weight, where they lie one after another.
bool joined(const Linear& op, Weight* all) {
  *all = op.parts[0].weight;
  for (int i = 1; i < op.n_parts; ++i) {
    const Weight& w = op.parts[static_cast<size_t>(i)].weight;
    if (w.format != all->format || w.data != all->data + all->bytes() || w.scale != nullptr) return false;
    all->rows += w.rows;
  }
  return all->scale == nullptr;
}

void by_products(const Linear& op, int64_t rows, const Ctx& ctx) {
  Scratch scratch(ctx);
  const bool bf16 = all_bf16(op) && op.x.cols % 8 == 0;
  const View x = input_rows(op, rows, bf16, scratch, ctx);
  if (!is_finished_later(op)) {
    for (int i = 0; i < op.n_parts; ++i)
      multiply(x, op.parts[static_cast<size_t>(i)].weight, part_out(op, i), rows, ctx);
    return;
  }
  // [rows, all outputs], so that weights that lie together are one product.
  const View all = scratch.take(rows, total_rows(op), bf16 && !ctx.batch_invariant ? DType::kBF16 : DType::kF32);
  View parts[3];
  int64_t at = 0;
  for (int i = 0; i < op.n_parts; ++i) {
    const int64_t n = op.parts[static_cast<size_t>(i)].weight.rows;
    parts[i] = all;
    parts[i].data += at * dtype_bytes(all.dtype);
    parts[i].cols = static_cast<int>(n);
    at += n;
  }
  Weight together;
  if (joined(op, &together)) {
    multiply(x, together, {.out = all, .bias = nullptr, .residual = {}}, rows, ctx);
  } else {
    for (int i = 0; i < op.n_parts; ++i)
      multiply(x, op.parts[static_cast<size_t>(i)].weight, {.out = parts[i], .bias = nullptr, .residual = {}}, rows,
               ctx);
  }
  if (op.is_glu()) return finish_glu(op, parts[0], parts[1], rows, ctx);
  finish_heads(op, parts[0], parts[1], parts[2], rows, ctx);
}

// The largest that stream() and by_products() take.
int64_t scratch_of(const Linear& op, int64_t rows, const Prepare& p) {
  const bool bf16 = all_bf16(op) && op.x.cols % 8 == 0;
  const auto sizes = [&](int64_t n, int64_t x_bytes, int64_t y_bytes) {
    int64_t bytes = up(n * padded_cols(op) * x_bytes);
    // Each part is rounded up by itself.
    if (is_finished_later(op)) bytes += up(n * total_rows(op) * y_bytes) + 3 * 256;
    return bytes;
  };
  const int64_t many = sizes(rows, bf16 ? 2 : 4, bf16 && !p.batch_invariant ? 2 : 4);
  return std::max(many, all_bf16(op) ? sizes(std::min<int64_t>(rows, kWideRows), 2, 4) : 0);
}

void measure_products(const Linear& op, int64_t rows, const Prepare& p) {
  if (p.blas == nullptr || p.batch_invariant || !all_bf16(op) || op.x.cols % 8 != 0) return;
  Weight together;
  std::vector<Weight> weights;
  if (is_finished_later(op) && joined(op, &together)) {
    weights.push_back(together);
  } else {
    for (int i = 0; i < op.n_parts; ++i) weights.push_back(op.parts[static_cast<size_t>(i)].weight);
  }
  const bool f32 = !is_finished_later(op) && op.parts[0].out.dtype == DType::kF32;
  const int64_t first = p.room_for_packed && stream_runs(p.arch) ? 2 * packed_rows(op, true) : 1;
  for (const Weight& w : weights) {
    for (int64_t n = first; n < 2 * rows; n *= 2) {
      Blas::Product product;
      product.weights = w.data;
      product.out_f32 = f32;
      product.add = op.residual ? w.data : nullptr;
      product.rows = std::min(n, rows);
      product.n = w.rows;
      product.cols = w.cols;
      p.blas->measure(product, p.stream);
    }
  }
}

}  // namespace

void prepare(Linear& op, Prepare& p) {
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    const Weight& w = op.parts[i].weight;
    CHECK(w.cols == op.x.cols, "weight {} has {} columns, x {}", w.name, w.cols, op.x.cols);
    CHECK(i == 0 || !op.is_glu() || w.rows == op.parts[0].weight.rows, "weight {} has {} rows", w.name, w.rows);
  }
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  p.need_scratch(scratch_of(op, rows, p));
  measure_products(op, rows, p);
  if (!all_bf16(op) || !stream_runs(p.arch) || p.batch_invariant || !p.room_for_packed) return;
  const RowMap map = row_map(op);
  Ctx ctx;
  ctx.stream = p.stream;
  ctx.arch = p.arch;
  ctx.multiprocessors = p.multiprocessors;
  ctx.overlap = false;
  const int tile_rows = stream_tile_rows(map.total(), p.multiprocessors);
  std::byte* to = p.allocate(streamed_bytes(map, tile_rows, op.x.cols));
  pack_stream(op, map, tile_rows, to, ctx);
  op.streamed =
      std::make_shared<StreamedLinear>(StreamedLinear{.weights = to, .tile_rows = tile_rows, .from = {}, .to = {}});
}

bool link(Linear& first, Linear& second, Prepare& p) {
  if (!first.streamed || !second.streamed || !second.input || second.input.add) return false;
  const Tensor& x = first.parts[0].out;
  const bool is_plain = first.n_parts == 1 && !first.is_glu() && !first.heads;
  const bool is_same = x.data == second.x.data && x.stride == second.x.stride && x.cols == second.x.cols &&
                       x.rows.kind == second.x.rows.kind;
  if (!is_plain || !is_same || x.dtype != DType::kF32 || x.cols % kStreamCols != 0) return false;
  NormLink link;
  link.weight = reinterpret_cast<const float*>(second.input.weight.data);
  link.eps = second.input.eps;
  link.parts = static_cast<int>(x.cols / 16);
  // The first leaves it only where it reads packed weights itself.
  link.rows = static_cast<int>(packed_rows(first, p.blas != nullptr));
  if (first.streamed->from.weight != nullptr) link.rows = std::min(link.rows, first.streamed->from.rows);
  link.squares = reinterpret_cast<float*>(p.allocate(int64_t{link.parts} * link.rows * 4));
  link.x.data = p.allocate(x.cols * link.rows * 2);
  link.x.stride = x.cols;
  link.x.cols = static_cast<int>(x.cols);
  link.x.dtype = DType::kBF16;
  first.streamed->to = second.streamed->from = link;
  return true;
}

void run(const Linear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  if (streams(op, rows, ctx)) return stream(op, rows, ctx);
  by_products(op, rows, ctx);
}

}  // namespace ingot::cuda
