// One to eight rows, by the streaming kernel of the weights' format (stream_kernel.cuh, stream_*bit_cuda.cu …).
#include "matmul/cuda/stream/stream_f8.cuh"
#include "matmul/cuda/stream/stream_x.cuh"

namespace ingot::cuda {

bool stream_holds(int64_t rows, int64_t cols, const StreamedPart& part) {
  const int64_t fixed =
      visit_stream(part.format, [&](auto w) { return stream_fixed_bytes<decltype(w)>(part.tile_rows); });
  // Attention's block must find room beside this one.
  return fixed + rows * shared_x_stride(stream_units(cols)) * 2 <= 120 << 10;
}

void run_stream(const StreamRun& run, const DeviceCtx& ctx) {
  CHECK(run.rows >= 1 && run.rows <= kStreamRows && run.part != nullptr, "{} rows", run.rows);
  const StreamArgs args = stream_args(run);
  if (run.product->streamed->f8) return run_stream_format<StreamF8Rows>(args, run.part->tile_rows, ctx);
  visit_stream(run.part->format, [&](auto w) { run_stream_format<decltype(w)>(args, run.part->tile_rows, ctx); });
}

}  // namespace ingot::cuda
