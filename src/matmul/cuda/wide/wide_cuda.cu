// Nine to 32 rows, by the kernel of the weights' format (wide_kernel.cuh, wide_*bit_cuda.cu …).
#include "base/check.h"
#include "matmul/cuda/stream/stream_formats.cuh"
#include "matmul/cuda/wide/wide_end.cuh"
#include "matmul/cuda/wide/wide_step.cuh"

namespace ingot::cuda {

bool wide_has(Format format, int arch) {
  return visit_stream(format, [&](auto w) {
    using W = decltype(w);
    return W::kWide && (arch == 90 || !W::kByGroups);
  });
}

WidePlan plan_of(const StreamedPart& part, int64_t cols, int multiprocessors) {
  return visit_stream(part.format, [&](auto w) {
    return wide_plan(stream_tiles(part.map, part.tile_rows), part.tile_rows, static_cast<int>(stream_units(cols)),
                     multiprocessors, wide_step<decltype(w)>());
  });
}

void run_wide(const StreamRun& run, const DeviceCtx& ctx) {
  CHECK(run.rows >= 1 && run.rows <= kWideRows && run.part != nullptr && run.x.data != nullptr, "{} rows", run.rows);
  WideArgs args;
  args.stream = stream_args(run);
  args.plan = plan_of(*run.part, run.product->cols(), ctx.multiprocessors);
  args.handed = ctx.handed;
  const WidePlan& plan = args.plan;
  CHECK(plan.slices == 1 || plan.slabs * plan.slices <= ctx.multiprocessors, "{} slabs", plan.slabs);
  visit_stream(run.part->format, [&](auto w) {
    using W = decltype(w);
    if constexpr (W::kWide) {
      const View& x = run.x;
      if constexpr (kByWarps<W>)
        args.x = make_tensor_map(x.data, run.rows, x.cols, x.stride * 2, static_cast<int>((run.rows + 7) / 8 * 8));
      run_wide_format<W>(args, ctx);
    } else {
      CHECK(false, "{} rows of {}", run.rows, format_name(run.part->format));
    }
  });
}

}  // namespace ingot::cuda
