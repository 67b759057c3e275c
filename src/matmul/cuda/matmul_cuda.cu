// Chooses how a product is made, by rows and format.
//
//   1 to 8 rows of bf16    the streaming kernel, with norm, bias, GLU, residual and heads in the same launch,
//                          and with the products that follow; a launch before it where a norm is made once for all
//                          blocks or adds something, or rows are gathered, one after it where heads have norms of
//                          their own
//   9 to 32 rows of bf16   the same by a kernel of taller tiles, where something is fused in
//   more rows of bf16      norm → bf16 · product by cuBLASLt or else our own · GLU or heads
//   all else               norm → f32 · product by the kernel that decodes as it goes · GLU or heads
//
// Batch-invariant: bf16 by our own product alone and never cuBLASLt, because its order over K does not depend on the
// number of rows; it reads weights at about a tenth of the streaming kernel's speed for one row. The third way is
// invariant as it is.
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/cuda_blas.h"
#include "matmul/cuda/wide.cuh"

namespace ingot::cuda {
namespace {

bool all_bf16(const DeviceProduct& product) {
  return std::all_of(product.parts, product.parts + product.n_parts,
                     [](const ProductPart& p) { return p.weight->format == Format::kBF16; });
}

RowMap row_map(const DeviceProduct& product) {
  RowMap map;
  map.parts = product.n_parts;
  for (int i = 0; i < product.n_parts; ++i) map.rows[i] = product.parts[i].weight->rows;
  if (product.is_glu()) map.order = RowOrder::kGlu;
  if (!heads_by_pairs(product)) return map;
  map.order = RowOrder::kHeads;
  map.head_dim = product.heads.head_dim;
  map.rotary = static_cast<int>(product.heads.table.cols);
  map.interleaved = product.heads.interleaved;
  return map;
}

int64_t up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Scratch of one op: rows of x, then the products of each part.
class Scratch {
 public:
  explicit Scratch(const DeviceCtx& ctx) : next_(ctx.scratch), left_(ctx.scratch_bytes) {}
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

int64_t padded_cols(const DeviceProduct& product) { return stream_chunks(product.cols()) * kStreamCols; }

// Whether the products go to scratch, for a launch after them.
bool is_finished_later(const DeviceProduct& product) { return product.is_glu() || product.heads; }

int64_t total_rows(const DeviceProduct& product) {
  int64_t total = 0;
  for (int i = 0; i < product.n_parts; ++i) total += product.parts[i].weight->rows;
  return total;
}

// Whether a device has bulk copies, and a block of it the shared memory that the streaming kernel wants.
bool stream_runs(int arch) { return arch >= 90 && arch < 120; }

bool is_stream_x(const View& x, int64_t padded) {
  return x.dtype == DType::kBF16 && x.cols == padded && x.stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

bool heads_later(const DeviceProduct& product, const RowMap& map) {
  return product.heads && map.order != RowOrder::kHeads;
}

// Whether the rows that the weights meet are x as it lies.
bool is_read_in_place(const DeviceProduct& product) {
  return product.input.norm == nullptr && product.input.gather == nullptr;
}

// x as it lies in memory, where the streaming kernel can read it so. data null: it cannot.
View stream_x(const DeviceProduct& product) {
  if (product.streamed->from.weight != nullptr) return product.streamed->from.x;
  const View x(product.input.x);
  return is_read_in_place(product) && is_stream_x(x, padded_cols(product)) ? x : View();
}

// The most rows of op for which packed weights are read. A plain product has nothing to gain beyond kStreamRows: the
// head of an 8B model takes 253 us of an H200 at 32 rows by cuBLASLt, 290 by the kernel of taller tiles.
int64_t packed_rows(const DeviceProduct& product) {
  const bool fused = product.is_glu() || heads_by_pairs(product) || product.residual;
  return fused || product.blas == nullptr ? kWideRows : kStreamRows;
}

bool streams(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  if (product.streamed == nullptr || !stream_runs(ctx.arch) || ctx.batch_invariant) return false;
  const NormLink& from = product.streamed->from;
  return rows <= packed_rows(product) && (from.weight == nullptr || rows <= from.rows);
}

WidePlan plan_of(const DeviceProduct& product, const RowMap& map, int multiprocessors) {
  const int tile_rows = product.streamed->tile_rows;
  return wide_plan(stream_tiles(map, tile_rows), tile_rows, static_cast<int>(stream_chunks(product.cols())),
                   multiprocessors);
}

StreamRun stream_run(const DeviceProduct& product, int64_t rows) {
  StreamRun run;
  run.product = &product;
  run.map = row_map(product);
  run.rows = rows;
  run.input = input_args(product.input);
  run.x = stream_x(product);
  for (int i = 0; i < product.n_parts; ++i) run.outs[i] = part_out(product, i);
  return run;
}

void stream(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  Scratch scratch(ctx);
  StreamRun run = stream_run(product, rows);
  // Every block reads x: a sum that lies where x does may only be written by a launch before it.
  const bool by_every_block = run.input.add.data == nullptr && product.input.gather == nullptr &&
                              rows <= kStreamNormRows &&
                              stream_holds(rows, product.cols(), product.streamed->tile_rows);
  if (run.x.data == nullptr && !by_every_block) {
    run.x = scratch.take(rows, padded_cols(product), DType::kBF16);
    make_rows(run.input, product.input.gather, rows, run.x, ctx);
  }
  const bool later = heads_later(product, run.map);
  for (int i = 0; i < product.n_parts && later; ++i) {
    run.outs[i] = {};
    run.outs[i].out = scratch.take(rows, product.parts[i].weight->rows, DType::kF32);
  }
  if (rows <= kStreamRows) {
    run_stream(run, ctx);
  } else {
    run_wide(run, plan_of(product, run.map, ctx.multiprocessors), ctx);
  }
  if (later) finish_heads(product, run.outs[0].out, run.outs[1].out, run.outs[2].out, rows, ctx);
}

// x as the products read it.
View input_rows(const DeviceProduct& product, int64_t rows, bool bf16, Scratch& scratch, const DeviceCtx& ctx) {
  const InputArgs input = input_args(product.input);
  if (is_read_in_place(product) && (!bf16 || (input.x.dtype == DType::kBF16 && input.x.stride % 8 == 0 &&
                                              reinterpret_cast<uintptr_t>(input.x.data) % 16 == 0)))
    return input.x;
  View x = scratch.take(rows, padded_cols(product), bf16 ? DType::kBF16 : DType::kF32);
  make_rows(input, product.input.gather, rows, x, ctx);
  x.cols = static_cast<int>(product.cols());
  return x;
}

// `weight` may stand for several that lie one after another. False: this library has no way.
bool by_blas(Blas* blas, const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx) {
  if (blas == nullptr || ctx.batch_invariant || out.out.dtype == DType::kF16) return false;
  const int64_t align = 16 / dtype_bytes(out.out.dtype);
  if (out.out.stride % align != 0 || reinterpret_cast<uintptr_t>(out.out.data) % 16 != 0) return false;
  const bool add = out.residual.data != nullptr;
  if (add && (out.residual.dtype != out.out.dtype || out.residual.stride != out.out.stride)) return false;
  const Blas::Product given{.x = x.data,
                            .x_stride = x.stride,
                            .weights = weight.data,
                            .out = out.out.data,
                            .out_stride = out.out.stride,
                            .out_f32 = out.out.dtype == DType::kF32,
                            .add = add ? out.residual.data : nullptr,
                            .rows = rows,
                            .n = weight.rows,
                            .cols = weight.cols};
  if (!blas->run(given, ctx.stream)) return false;
  if (out.bias != nullptr) add_bias(out.out, out.bias, rows, ctx);
  return true;
}

void multiply_part(Blas* blas, const View& x, const Weight& weight, const PartOut& out, int64_t rows,
                   const DeviceCtx& ctx) {
  if (!gemm_takes(x, weight)) return run_any(x, weight, out, rows, ctx);
  if (!by_blas(blas, x, weight, out, rows, ctx)) run_gemm(x, weight, out, rows, ctx);
}

// All parts as one weight, where they lie one after another.
bool joined(const DeviceProduct& product, Weight* all) {
  *all = *product.parts[0].weight;
  for (int i = 1; i < product.n_parts; ++i) {
    const Weight& w = *product.parts[i].weight;
    if (w.format != all->format || w.data != all->data + all->bytes() || w.scale != nullptr) return false;
    all->rows += w.rows;
  }
  return all->scale == nullptr;
}

void by_products(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  Scratch scratch(ctx);
  const bool bf16 = all_bf16(product) && product.cols() % 8 == 0;
  const View x = input_rows(product, rows, bf16, scratch, ctx);
  if (!is_finished_later(product)) {
    for (int i = 0; i < product.n_parts; ++i)
      multiply_part(product.blas, x, *product.parts[i].weight, part_out(product, i), rows, ctx);
    return;
  }
  // [rows, all outputs], so that weights that lie together are one product.
  const View all = scratch.take(rows, total_rows(product), bf16 && !ctx.batch_invariant ? DType::kBF16 : DType::kF32);
  View parts[3];
  int64_t at = 0;
  for (int i = 0; i < product.n_parts; ++i) {
    const int64_t n = product.parts[i].weight->rows;
    parts[i] = all;
    parts[i].data += at * dtype_bytes(all.dtype);
    parts[i].cols = static_cast<int>(n);
    at += n;
  }
  Weight together;
  if (joined(product, &together)) {
    multiply_part(product.blas, x, together, {.out = all, .bias = nullptr, .residual = {}}, rows, ctx);
  } else {
    for (int i = 0; i < product.n_parts; ++i)
      multiply_part(product.blas, x, *product.parts[i].weight, {.out = parts[i], .bias = nullptr, .residual = {}}, rows,
                    ctx);
  }
  if (product.is_glu()) return finish_glu(product, parts[0], parts[1], rows, ctx);
  finish_heads(product, parts[0], parts[1], parts[2], rows, ctx);
}

}  // namespace

// The largest that stream() and by_products() take.
int64_t product_scratch(const DeviceProduct& product, int64_t rows, bool batch_invariant) {
  const bool bf16 = all_bf16(product) && product.cols() % 8 == 0;
  const auto sizes = [&](int64_t n, int64_t x_bytes, int64_t y_bytes) {
    int64_t bytes = up(n * padded_cols(product) * x_bytes);
    // Each part is rounded up by itself.
    if (is_finished_later(product)) bytes += up(n * total_rows(product) * y_bytes) + 3 * 256;
    return bytes;
  };
  const int64_t many = sizes(rows, bf16 ? 2 : 4, bf16 && !batch_invariant ? 2 : 4);
  return std::max(many, all_bf16(product) ? sizes(std::min<int64_t>(rows, kWideRows), 2, 4) : 0);
}

void measure_product(const DeviceProduct& product, int64_t rows, bool packed, const DeviceCtx& device) {
  if (product.blas == nullptr || device.batch_invariant || !all_bf16(product) || product.cols() % 8 != 0) return;
  Weight together;
  std::vector<Weight> weights;
  if (is_finished_later(product) && joined(product, &together)) {
    weights.push_back(together);
  } else {
    for (int i = 0; i < product.n_parts; ++i) weights.push_back(*product.parts[i].weight);
  }
  const bool f32 = !is_finished_later(product) && product.parts[0].out.dtype == DType::kF32;
  const int64_t first = packed && stream_runs(device.arch) ? 2 * packed_rows(product) : 1;
  for (const Weight& w : weights) {
    for (int64_t n = first; n < 2 * rows; n *= 2) {
      Blas::Product measured;
      measured.weights = w.data;
      measured.out_f32 = f32;
      measured.add = product.residual ? w.data : nullptr;
      measured.rows = std::min(n, rows);
      measured.n = w.rows;
      measured.cols = w.cols;
      product.blas->measure(measured, device.stream);
    }
  }
}

std::shared_ptr<StreamedProduct> pack_product(const DeviceProduct& product, const DeviceCtx& device,
                                              const Allocate& allocate) {
  if (!all_bf16(product) || !stream_runs(device.arch)) return nullptr;
  const RowMap map = row_map(product);
  const int tile_rows = stream_tile_rows(map.total(), device.multiprocessors);
  std::byte* to = allocate(streamed_bytes(map, tile_rows, product.cols()));
  DeviceCtx alone = device;
  alone.overlap = false;
  pack_stream(product, map, tile_rows, to, alone);
  return std::make_shared<StreamedProduct>(
      StreamedProduct{.weights = to, .tile_rows = tile_rows, .from = {}, .to = {}});
}

bool link_products(const DeviceProduct& first, const DeviceProduct& second, const Allocate& allocate) {
  const ProductInput& input = second.input;
  if (first.streamed == nullptr || second.streamed == nullptr) return false;
  if (input.norm == nullptr || input.add || input.gather != nullptr) return false;
  const Matrix& x = first.parts[0].out;
  const bool is_plain = first.n_parts == 1 && !first.is_glu() && !first.heads;
  const bool is_same = x.data == input.x.data && x.stride == input.x.stride && x.cols == input.x.cols;
  if (!is_plain || !is_same || x.dtype != DType::kF32 || x.cols % kStreamCols != 0) return false;
  NormLink link;
  link.weight = input.norm;
  link.eps = input.eps;
  link.parts = static_cast<int>(x.cols / 16);
  // The first leaves it only where it reads packed weights itself.
  link.rows = static_cast<int>(packed_rows(first));
  if (first.streamed->from.weight != nullptr) link.rows = std::min(link.rows, first.streamed->from.rows);
  link.squares = reinterpret_cast<float*>(allocate(int64_t{link.parts} * link.rows * 4));
  link.x.data = allocate(x.cols * link.rows * 2);
  link.x.stride = x.cols;
  link.x.cols = static_cast<int>(x.cols);
  link.x.dtype = DType::kBF16;
  first.streamed->to = second.streamed->from = link;
  return true;
}

void multiply(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  if (rows == 0) return;
  if (streams(product, rows, ctx)) return stream(product, rows, ctx);
  by_products(product, rows, ctx);
}

}  // namespace ingot::cuda
