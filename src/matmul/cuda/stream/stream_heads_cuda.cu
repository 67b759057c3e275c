// Whether q, k and v are one launch with their heads, and which.
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/stream/stream_formats.cuh"
#include "matmul/cuda/stream/stream_heads.cuh"

namespace ingot::cuda {
namespace {

// f(StreamQ4_K{}, StreamQ6_K{}): true where there is a kernel.
template <class F>
bool visit_two(Format one, Format two, F&& f) {
#define X(ONE, TWO)                                     \
  if (one == Format::k##ONE && two == Format::k##TWO) { \
    f(Stream##ONE{}, Stream##TWO{});                    \
    return true;                                        \
  }
  X(Q4_K, Q6_K)
#undef X
  return false;
}

// Blocks end heads when all have come, so x and sums of all rows must fit.
constexpr int64_t kMostCols = 4096;

bool has_kernel(const StreamedProduct& streamed) {
  const Format one = streamed.parts[0].format, two = streamed.parts[streamed.n_parts - 1].format;
  return streamed.n_parts == 2 && visit_two(one, two, [](auto, auto) {});
}

HeadsWeights weights_of(const StreamedPart& part, const int (&first_col)[3]) {
  HeadsWeights of;
  of.weights = part.weights;
  of.sixteens = part.tile_rows / 16;
  for (int i = 0; i < 3; ++i) {
    of.rows[i] = static_cast<int>(part.map.rows[i] / 16);
    of.first_col[i] = first_col[i];
    of.all += of.rows[i];
  }
  return of;
}

}  // namespace

bool stream_heads_takes(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  const StreamedProduct& streamed = *product.streamed;
  if (rows > kStreamRows || streamed.from.weight == nullptr || rows > streamed.from.rows || !has_kernel(streamed) ||
      !heads_by_items(product) || product.cols() % kStreamCols != 0 || product.cols() > kMostCols)
    return false;
  for (int i = 0; i < product.n_parts; ++i)
    if (product.parts[i].weight->rows % 16 != 0) return false;
  // A device of few multiprocessors has more rows for each than a block holds sums of.
  constexpr int64_t kBarriers = 2 << 10, kMostShared = 226 << 10;
  const int most = most_of_share(static_cast<int>(total_rows(product) / 16), ctx.multiprocessors);
  return rows * total_rows(product) * 4 <= ctx.multiprocessors * kHandedBytes &&
         heads_shared(kHeadsRing + kBarriers, rows, stream_units(product.cols()), most) <= kMostShared;
}

void run_stream_heads(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx) {
  const StreamedProduct& streamed = *product.streamed;
  StreamHeadsArgs args;
  int first_col[3] = {};
  View views[3];
  for (int i = 0; i < 3; ++i) {
    views[i].cols = static_cast<int>(product.parts[i].weight->rows);
    first_col[i] = args.cols;
    args.cols += views[i].cols;
  }
  for (int i = 0; i < streamed.n_parts; ++i) args.of[i] = weights_of(streamed.parts[i], first_col);
  args.units = static_cast<int>(stream_units(product.cols()));
  args.rows = static_cast<int>(rows);
  args.from = streamed.from;
  args.heads = heads_input(product, views[0], views[1], views[2]);
  args.handed = ctx.handed;
  const Format one = streamed.parts[0].format, two = streamed.parts[streamed.n_parts - 1].format;
  const bool has = visit_two(one, two, [&](auto g, auto d) { run_heads_formats<decltype(g), decltype(d)>(args, ctx); });
  CHECK(has, "heads in {} and {}", format_name(one), format_name(two));
}

}  // namespace ingot::cuda
