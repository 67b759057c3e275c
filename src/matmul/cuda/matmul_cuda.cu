// Chooses how a product is made, by rows and format.
//
//   1 to 8 rows            the streaming kernel of the packed weights' format, with norm, bias, GLU, residual and heads
//                          in the same launch, and with the products that follow; a launch before it where a norm is
//                          made once for all blocks or adds something, or rows are gathered, one after it where heads
//                          have norms of their own; a launch for each format where parts have different ones
//   9 to 32 rows           the same by a kernel of taller tiles: of bf16 where something is fused in, of most other
//                          formats on compute capability 9.0, unpacked for wgmma
//   up to 256 rows         of those formats: norm → bf16 · a kernel that unpacks weights for wgmma, with bias, GLU,
//                          residual and heads
//   more rows              norm → bf16 · weights that are not bf16 → bf16 · product by cuBLASLt or else our own · GLU
//   or
//                          heads
//   rows of e4m3           F8_E4M3 on 9.0: up to 8 rows the streaming kernel, which rounds them · more: norm → e4m3,
//                          the kernel of f8.cuh with GLU and residual, up to 256 rows with heads, else heads after it
//   F32                    norm → f32 · product by tiles of f32, or by the kernel that decodes as it goes where rows
//                          are not aligned · GLU or heads
//
// Batch-invariant: by our own product alone and never cuBLASLt, because its order over K does not depend on the number
// of rows; it reads weights at about a tenth of the streaming kernel's speed for one row. The last way is invariant as
// it is.
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/cuda_blas.h"
#include "matmul/cuda/f8/f8.cuh"
#include "matmul/cuda/scratch.cuh"
#include "matmul/cuda/stream/stream_heads.cuh"
#include "matmul/cuda/tall/tall.cuh"
#include "matmul/cuda/wide/wide.cuh"

namespace ingot::cuda {
namespace {

// Whether rows are rounded to bf16, and weights where no kernel reads them exactly: all but those of f32.
bool by_bf16(const DeviceProduct& product) {
  return std::none_of(product.parts, product.parts + product.n_parts,
                      [](const ProductPart& p) { return p.weight->format == Format::kF32; }) &&
         (!all_bf16(product) || product.cols() % 8 == 0);
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

int64_t padded_cols(const DeviceProduct& product) { return stream_units(product.cols()) * kStreamCols; }

// Whether the products go to scratch, for a launch after them.
bool is_finished_later(const DeviceProduct& product) { return product.is_glu() || product.heads; }

bool is_stream_x(const View& x, int64_t padded) {
  return x.dtype == DType::kBF16 && x.cols == padded && x.stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

bool heads_later(const DeviceProduct& product) { return product.heads && !heads_by_pairs(product); }

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

bool has_tall(const DeviceProduct& product, int arch) {
  const auto tall = [](const ProductPart& p) { return stream_packs(*p.weight) && tall_has(p.weight->format); };
  return arch == 90 && std::all_of(product.parts, product.parts + product.n_parts, tall);
}

bool streams(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  if (product.streamed == nullptr || !stream_runs(ctx.arch) || ctx.batch_invariant) return false;
  const NormLink& from = product.streamed->from;
  return rows <= packed_rows(product, ctx.arch) && (from.weight == nullptr || rows <= from.rows);
}

StreamRun stream_run(const DeviceProduct& product, int64_t rows) {
  StreamRun run;
  run.product = &product;
  run.rows = rows;
  run.input = input_args(product.input);
  run.x = stream_x(product);
  for (int i = 0; i < product.n_parts; ++i) run.outs[i] = part_out(product, i);
  return run;
}

void stream(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  if (heads_later(product) && stream_heads_takes(product, rows, ctx)) return run_stream_heads(product, rows, ctx);
  Scratch scratch(ctx);
  StreamRun run = stream_run(product, rows);
  // Every block reads x: a sum that lies where x does may only be written by a launch before it.
  const StreamedProduct& streamed = *product.streamed;
  // Rows that are rounded to e4m3 are so with or without the root, whatever their number.
  const bool by_every_block =
      run.input.add.data == nullptr && product.input.gather == nullptr && rows <= kStreamNormRows &&
      !(streamed.f8 && product.input.norm != nullptr) &&
      std::all_of(streamed.parts, streamed.parts + streamed.n_parts,
                  [&](const StreamedPart& part) { return stream_holds(rows, product.cols(), part); });
  if (run.x.data == nullptr && !by_every_block) {
    run.x = scratch.take(rows, padded_cols(product), DType::kBF16);
    make_rows(run.input, product.input.gather, rows, run.x, ctx);
  }
  const bool later = heads_later(product);
  for (int i = 0; i < product.n_parts && later; ++i) {
    run.outs[i] = {};
    run.outs[i].out = scratch.take(rows, product.parts[i].weight->rows, DType::kF32);
  }
  for (int i = 0; i < streamed.n_parts; ++i) {
    const StreamedPart& part = streamed.parts[i];
    run.part = &part;
    run.leads = i == 0 && streamed.n_parts > 1;
    run.follows = i > 0;
    DeviceCtx its = ctx;
    its.multiprocessors = part.processors;
    its.handed += part.first_processor * (kHandedBytes / 4);
    if (rows <= kStreamRows) {
      run_stream(run, its);
    } else {
      run_wide(run, its);
    }
  }
  if (later) finish_heads(product, run.outs[0].out, run.outs[1].out, run.outs[2].out, rows, ctx);
}

// x as the products read it.
View input_rows(const DeviceProduct& product, int64_t rows, bool bf16, Scratch& scratch, const DeviceCtx& ctx) {
  const InputArgs input = input_args(product.input);
  const bool padded = all_bf16(product) || product.cols() == padded_cols(product);
  if (is_read_in_place(product) && (!bf16 || (padded && input.x.dtype == DType::kBF16 && input.x.stride % 8 == 0 &&
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
  if (f32_takes(x, weight)) return run_f32(x, weight, out, rows, ctx);
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

bool is_tall(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  return product.streamed != nullptr && product.streamed->tall && rows <= kTallRows && !ctx.batch_invariant;
}

void by_tall(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  Scratch scratch(ctx);
  StreamRun run;
  run.product = &product;
  run.rows = rows;
  run.x = input_rows(product, rows, true, scratch, ctx);
  const bool later = heads_later(product);
  for (int i = 0; i < product.n_parts; ++i) {
    run.outs[i] = part_out(product, i);
    if (later)
      run.outs[i] = {
          .out = scratch.take(rows, product.parts[i].weight->rows, DType::kF32), .bias = nullptr, .residual = {}};
  }
  std::byte* room = scratch.take_bytes(tall_scratch(total_rows(product), product.cols(), rows));
  for (int i = 0; i < product.streamed->n_parts; ++i) {
    run.part = &product.streamed->parts[i];
    run_tall(run, room, ctx);
  }
  if (later) finish_heads(product, run.outs[0].out, run.outs[1].out, run.outs[2].out, rows, ctx);
}

// All parts next to each other.
struct Joined {
  View all, of[3];
};
Joined join_outputs(const DeviceProduct& product, int64_t rows, DType dtype, Scratch& scratch) {
  Joined joined;
  joined.all = scratch.take(rows, total_rows(product), dtype);
  int64_t at = 0;
  for (int i = 0; i < product.n_parts; ++i) {
    const int64_t n = product.parts[i].weight->rows;
    joined.of[i] = joined.all;
    joined.of[i].data += at * dtype_bytes(dtype);
    joined.of[i].cols = static_cast<int>(n);
    at += n;
  }
  return joined;
}

bool is_f8(const DeviceProduct& product) { return product.streamed != nullptr && product.streamed->f8; }

void by_f8(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  Scratch scratch(ctx);
  F8Run run;
  run.product = &product;
  run.part = &product.streamed->parts[0];
  run.rows = rows;
  run.x.rows = F8Rows::padded(rows);
  run.x.codes = scratch.take_bytes(f8_code_bytes(rows, product.cols()));
  run.x.scales = reinterpret_cast<float*>(scratch.take_bytes(f8_scale_bytes(rows, product.cols())));
  make_f8_rows(input_args(product.input), product.input.gather, product.streamed->from.weight == nullptr, rows, run.x,
               ctx);
  for (int i = 0; i < product.n_parts; ++i) run.outs[i] = part_out(product, i);
  if (!product.heads || (heads_by_pairs(product) && rows <= kTallRows)) return run_f8(run, ctx);
  // A launch of its own ends heads: of few rows their sums come in f32.
  const bool few = rows <= kTallRows;
  const Joined joined = join_outputs(product, rows, few ? DType::kF32 : DType::kBF16, scratch);
  for (int i = 0; i < product.n_parts; ++i) run.outs[i] = {.out = joined.of[i], .bias = nullptr, .residual = {}};
  run.to = joined.all;
  run_f8(run, ctx);
  finish_heads(product, joined.of[0], joined.of[1], joined.of[2], rows, ctx);
}

// The parts' weights as one matrix or as several, in the order of the parts.
struct Matrices {
  Weight of[3];
  int n = 0;
};

// Where weights are not bf16 they are made so in scratch, all parts one after another.
Matrices matrices(const DeviceProduct& product) {
  Matrices m;
  if (is_finished_later(product) && joined(product, &m.of[0])) {
    m.n = 1;
    return m;
  }
  m.n = product.n_parts;
  for (int i = 0; i < m.n; ++i) m.of[i] = *product.parts[i].weight;
  return m;
}

// A plain weight is unpacked and multiplied in slices of so many bytes: the head of an 8B model has 1 GB.
constexpr int64_t kSliceBytes = int64_t{256} << 20;
int64_t slice_rows(const DeviceProduct& product) {
  const int64_t total = total_rows(product);
  if (product.n_parts > 1) return total;
  const int64_t rows = kSliceBytes / (padded_cols(product) * 2) / 96 * 96;  // whole tiles of every size
  return std::min(total, std::max<int64_t>(rows, 96));
}
bool is_unpacked(const DeviceProduct& product) { return by_bf16(product) && !all_bf16(product); }
int64_t unpacked_bytes(const DeviceProduct& product) {
  return is_unpacked(product) ? slice_rows(product) * padded_cols(product) * 2 : 0;
}

Weight unpacked_weight(const DeviceProduct& product, std::byte* data, int64_t rows) {
  Weight w;
  w.format = Format::kBF16;
  w.rows = rows;
  w.cols = padded_cols(product);
  w.row_bytes = w.cols * 2;
  w.data = data;
  return w;
}

// Rows [first, end) of the only part, or all of all.
void unpack(const DeviceProduct& product, int64_t first, int64_t end, std::byte* to, const DeviceCtx& ctx) {
  UnpackRows rows{.cols = product.cols(), .stride = padded_cols(product), .first = first, .end = end};
  for (int i = 0; i < product.n_parts; ++i) {
    rows.to[i] = to;
    to += product.parts[i].weight->rows * rows.stride * 2;
  }
  if (product.streamed != nullptr) {
    for (int i = 0; i < product.streamed->n_parts; ++i) unpack_stream(product.streamed->parts[i], rows, ctx);
    return;
  }
  for (int i = 0; i < product.n_parts; ++i) {
    const Weight& w = *product.parts[i].weight;
    UnpackRows one = rows;
    one.to[0] = rows.to[i];
    one.end = std::min(end, w.rows);
    unpack_published(w, one, ctx);
  }
}

void by_plain_slices(const DeviceProduct& product, const View& x, int64_t rows, Scratch& scratch,
                     const DeviceCtx& ctx) {
  const int64_t total = total_rows(product), step = slice_rows(product);
  std::byte* room = scratch.take_bytes(unpacked_bytes(product));
  for (int64_t first = 0; first < total; first += step) {
    const int64_t n = std::min(step, total - first);
    unpack(product, first, first + n, room, ctx);
    PartOut out = part_out(product, 0);
    out.out.data += first * dtype_bytes(out.out.dtype);
    if (out.bias != nullptr) out.bias += first;
    if (out.residual.data != nullptr) out.residual.data += first * dtype_bytes(out.residual.dtype);
    multiply_part(product.blas, x, unpacked_weight(product, room, n), out, rows, ctx);
  }
}

void by_products(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  Scratch scratch(ctx);
  const bool bf16 = by_bf16(product), unpacked = is_unpacked(product);
  const View x = input_rows(product, rows, bf16, scratch, ctx);
  if (unpacked && product.n_parts == 1 && !is_finished_later(product))
    return by_plain_slices(product, x, rows, scratch, ctx);
  Matrices all_weights = matrices(product);
  if (unpacked) {
    std::byte* room = scratch.take_bytes(unpacked_bytes(product));
    unpack(product, 0, total_rows(product), room, ctx);
    for (int i = 0; i < product.n_parts; ++i) {
      const int64_t n = product.parts[i].weight->rows;
      all_weights.of[i] = unpacked_weight(product, room, n);
      room += n * padded_cols(product) * 2;
    }
    all_weights.n = product.n_parts;
    if (is_finished_later(product)) all_weights.n = 1, all_weights.of[0].rows = total_rows(product);
  }
  if (!is_finished_later(product)) {
    for (int i = 0; i < product.n_parts; ++i)
      multiply_part(product.blas, x, all_weights.of[i], part_out(product, i), rows, ctx);
    return;
  }
  // [rows, all outputs], so that weights that lie together are one product.
  const Joined joined = join_outputs(product, rows, bf16 && !ctx.batch_invariant ? DType::kBF16 : DType::kF32, scratch);
  for (int i = 0; i < all_weights.n; ++i) {
    const View& out = all_weights.n == 1 ? joined.all : joined.of[i];
    multiply_part(product.blas, x, all_weights.of[i], {.out = out, .bias = nullptr, .residual = {}}, rows, ctx);
  }
  if (product.is_glu()) return finish_glu(product, joined.of[0], joined.of[1], rows, ctx);
  finish_heads(product, joined.of[0], joined.of[1], joined.of[2], rows, ctx);
}

}  // namespace

// The largest that stream() and by_products() take.
int64_t product_scratch(const DeviceProduct& product, int64_t rows, bool batch_invariant) {
  const bool bf16 = by_bf16(product);
  const auto sizes = [&](int64_t n, int64_t x_bytes, int64_t y_bytes) {
    int64_t bytes = piece_bytes(n * padded_cols(product) * x_bytes);
    // Each part is rounded up by itself.
    if (is_finished_later(product)) bytes += piece_bytes(n * total_rows(product) * y_bytes) + 3 * 256;
    return bytes;
  };
  const int64_t many =
      sizes(rows, bf16 ? 2 : 4, bf16 && !batch_invariant ? 2 : 4) + piece_bytes(unpacked_bytes(product));
  const int64_t tall = std::min<int64_t>(rows, kTallRows);
  const int64_t room = has_tall(product, 90) ? tall_scratch(total_rows(product), product.cols(), tall) : 0;
  return std::max(many, sizes(tall, 2, 4) + room);
}

void measure_product(const DeviceProduct& product, int64_t rows, bool packed, const DeviceCtx& device) {
  if (product.blas == nullptr || device.batch_invariant || !by_bf16(product)) return;
  const bool unpacked = is_unpacked(product);
  Matrices weights = matrices(product);
  if (unpacked) {
    // Memory for these is made where they are measured.
    const int64_t step = slice_rows(product), rest = total_rows(product) % step;
    weights.n = 0;
    if (product.n_parts > 1 && !is_finished_later(product)) {
      for (int i = 0; i < product.n_parts; ++i)
        weights.of[weights.n++] = unpacked_weight(product, nullptr, product.parts[i].weight->rows);
    } else {
      weights.of[weights.n++] = unpacked_weight(product, nullptr, step);
      if (rest != 0) weights.of[weights.n++] = unpacked_weight(product, nullptr, rest);
    }
  }
  const bool f32 = !is_finished_later(product) && product.parts[0].out.dtype == DType::kF32;
  const int64_t packed_most = has_tall(product, device.arch) ? kTallRows : packed_rows(product, device.arch);
  const int64_t first = packed && stream_runs(device.arch) ? 2 * packed_most : 1;
  for (int i = 0; i < weights.n; ++i) {
    const Weight& w = weights.of[i];
    for (int64_t n = first; n < 2 * rows; n *= 2) {
      Blas::Product measured;
      measured.weights = w.data;
      measured.out_f32 = f32;
      measured.add = product.residual ? &w : nullptr;
      measured.rows = std::min(n, rows);
      measured.n = w.rows;
      measured.cols = w.cols;
      product.blas->measure(measured, device.stream);
    }
  }
}

bool packs_instead(const DeviceProduct& product) { return is_unpacked(product); }
const std::byte* packed_data(const StreamedProduct& streamed) { return streamed.parts[0].weights; }

std::shared_ptr<StreamedProduct> pack_product(const DeviceProduct& product, const DeviceCtx& device,
                                              const Allocate& allocate) {
  const auto *begin = product.parts, *end = begin + product.n_parts;
  if (!stream_runs(device.arch) ||
      !std::all_of(begin, end, [](const ProductPart& p) { return stream_packs(*p.weight); }))
    return nullptr;
  const auto same = [&](const ProductPart& p) { return p.weight->format == begin->weight->format; };
  // Gate and up meet in one thread.
  if (product.is_glu() && !std::all_of(begin, end, same)) return nullptr;
  StreamedProduct streamed;
  streamed.arch = device.arch;
  streamed.tall = has_tall(product, device.arch);
  bool packed[3] = {};
  int64_t packed_before = 0;  // rows
  for (int i = 0; i < product.n_parts; ++i) {
    if (packed[i]) continue;
    StreamedPart& part = streamed.parts[streamed.n_parts++];
    part.format = product.parts[i].weight->format;
    part.map = row_map(product);
    for (int j = 0; j < product.n_parts; ++j) {
      const bool is_here = product.parts[j].weight->format == part.format;
      packed[j] = packed[j] || is_here;
      if (!is_here) part.map.rows[j] = 0;
    }
    // Parts run beside each other, each on its share of the device.
    const auto of_device = [&](int64_t n) {
      return static_cast<int>(device.multiprocessors * n / total_rows(product));
    };
    part.first_processor = of_device(packed_before);
    packed_before += part.map.total();
    part.processors = std::max(1, of_device(packed_before) - part.first_processor);
    part.tile_rows = stream_tile_rows(part.map.total(), part.processors, stream_most_rows(part.format));
    std::byte* to = allocate(streamed_bytes(part, product.cols()));
    part.weights = to;
    DeviceCtx alone = device;
    alone.overlap = false;
    pack_stream(product, part, to, alone);
  }
  return std::make_shared<StreamedProduct>(streamed);
}

std::shared_ptr<StreamedProduct> pack_f8_product(const DeviceProduct& product, const DeviceCtx& device,
                                                 const Allocate& allocate) {
  if (!f8_takes(product, device.arch)) return nullptr;
  StreamedProduct streamed;
  streamed.arch = device.arch;
  streamed.f8 = true;
  streamed.f8_blocks = f8_by_blocks(product);
  streamed.n_parts = 1;
  StreamedPart& part = streamed.parts[0];
  part.format = Format::kF8_E4M3;
  part.map = row_map(product);
  part.processors = device.multiprocessors;
  part.tile_rows = stream_tile_rows(part.map.total(), part.processors, 32);
  std::byte* to = allocate(f8_packed_bytes(part, product.cols()));
  part.weights = to;
  DeviceCtx alone = device;
  alone.overlap = false;
  pack_f8(product, part, to, alone);
  return std::make_shared<StreamedProduct>(streamed);
}

void multiply(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  if (rows == 0) return;
  if (streams(product, rows, ctx)) return stream(product, rows, ctx);
  if (is_f8(product)) return by_f8(product, rows, ctx);
  if (is_tall(product, rows, ctx)) return by_tall(product, rows, ctx);
  by_products(product, rows, ctx);
}

}  // namespace ingot::cuda
