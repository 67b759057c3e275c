// Experts on a device. Places are sorted by expert there, and cut into tiles of one expert each; a product's grid has
// room for as many tiles as any choice can make, and those that this one did not make end at once. The host learns
// nothing of it.
//
// Weights are packed as those of a linear, every format but F32, and the published ones given back: x is rounded to
// bf16 then, weights are exact where few places meet an expert and rounded to bf16 where many do, sums are f32. Else
// they are decoded to f32 as they are published.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "cuda/elements.cuh"
#include "matmul/cuda/experts/experts_many.cuh"
#include "matmul/cuda/experts/experts_some.cuh"
#include "ops/expert_linear/device_experts.cuh"

namespace ingot::cuda {
namespace {

// A row for each place.
View by_place(const Tensor& t, int64_t used) {
  Matrix m(t);
  m.cols = t.cols / used;
  m.stride = m.cols;
  return View(m);
}

const float* bias_of(const ExpertLinear& op, size_t part) {
  return reinterpret_cast<const float*>(op.parts[part].bias.data);
}

View rows_of(const ExpertLinear& op) { return op.by_place() ? by_place(op.x, op.used()) : View(op.x); }

// Whether the streaming kernel can read x as it lies.
bool is_read_in_place(const ExpertLinear& op) {
  const View x = rows_of(op);
  return x.dtype == DType::kBF16 && !op.scale && x.cols % kStreamCols == 0 && x.stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

int64_t padded_cols(const ExpertLinear& op) { return stream_units(op.cols_in()) * kStreamCols; }
// Rows of x that are made bf16 for `rows` rows of the step.
int64_t made_rows(const ExpertLinear& op, int64_t rows) { return op.scale || op.by_place() ? rows * op.used() : rows; }

// Places of an expert, on average, up to which the streaming kernel reads weights of 16 bits, and that of
// experts_some.cuh those of codes; of so few places in all the streaming kernel reads codes, too.
constexpr int64_t kStreamPlaces = 6, kSomePlaces = 32, kFewPlaces = 16;
bool is_many(const DeviceExperts& device, int64_t places, int64_t count) {
  const DeviceExperts& first = device.first();
  return first.many && places > (first.some ? kSomePlaces : kStreamPlaces) * count;
}
bool is_some(const DeviceExperts& device, int64_t places, int64_t count) {
  return device.first().some && places > kFewPlaces && !is_many(device, places, count);
}
// Tiles of as few places as the streaming kernel takes where it reads the list.
int tile_of(const DeviceExperts& device, int64_t places, int64_t count) {
  if (is_many(device, places, count)) return experts_many_tile(places, count);
  if (is_some(device, places, count)) return kSomeTile;
  return device.first().streams ? kStreamRows : kAnyTile;
}

// The results of places. Those of very many rows that are but summed are written as bf16: at 16,384 rows of 8 places of
// 2,048 columns f32 takes an H200 0.3 ms more.
constexpr int64_t kRoundedRows = 1024;
View places_of(const ExpertLinear& op, int64_t rows) {
  View places = by_place(op.places, op.used());
  if (op.out && rows > kRoundedRows && is_many(*op.device, rows * op.used(), op.count())) places.dtype = DType::kBF16;
  return places;
}

void run_packed(const ExpertLinear& op, int64_t rows, Ctx& ctx) {
  const DeviceExperts& device = *op.device;
  ExpertRun run;
  run.packed = &device.packed;
  run.list = device.first().list;
  run.rows = rows;
  run.places = rows * op.used();
  run.tile = tile_of(device, run.places, op.count());
  run.x = rows_of(op);
  run.per_row = op.by_place() || op.scale ? 1 : static_cast<int>(op.used());
  run.out = places_of(op, rows);
  for (size_t i = 0; i < 2; ++i) run.bias[i] = bias_of(op, i);
  run.glu = op.glu;
  DeviceCtx behind = ctx;
  if (device.x_of_route && takes_route(device.route, rows)) {
    run.x = device.route->bf16;
  } else if (is_read_in_place(op)) {
    run.follows = device.follows;
  } else {
    const int64_t made = made_rows(op, rows);
    View x;
    x.data = ctx.scratch;
    x.stride = padded_cols(op);
    x.cols = static_cast<int>(x.stride);
    x.dtype = DType::kBF16;
    if (op.scale) {
      scale_places(run.x, View(op.weights), made, x, ctx);
    } else {
      InputArgs in;
      in.x = run.x;
      make_rows(in, nullptr, made, x, ctx);
    }
    run.x = x;
    behind.scratch += piece_bytes(made * x.stride * 2);
    behind.scratch_bytes -= piece_bytes(made * x.stride * 2);
  }
  if (is_many(device, run.places, op.count())) {
    run_experts_many(run, behind);
  } else if (is_some(device, run.places, op.count())) {
    run_experts_some(run, behind);
  } else {
    run_experts_stream(run, behind);
  }
}

// One part after the other: what gate gave lies where the result will.
void run_published(const ExpertLinear& op, int64_t rows, Ctx& ctx) {
  AnyExpertsRun run;
  run.list = op.device->first().list;
  const int64_t places = rows * op.used();
  run.most_tiles = most_tiles(places, op.count(), tile_of(*op.device, places, op.count()));
  run.x = rows_of(op);
  run.per_row = op.by_place() ? 1 : static_cast<int>(op.used());
  if (op.scale) run.scale = View(op.weights);
  run.used = static_cast<int>(op.used());
  run.out = by_place(op.places, op.used());
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    run.published = op.device->published[i];
    run.bias = bias_of(op, i);
    run.glu = i == 1 ? op.glu : ActivationKind::kNone;
    run_experts_any(run, ctx);
  }
}

void prepare_published(ExpertLinear& op, Prepare& p) {
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    std::vector<WeightView> views;
    for (const Weight& w : op.parts[i].weights) views.emplace_back(w);
    op.device->published[i] = {op.parts[i].weights[0].format,
                               p.upload(views.data(), static_cast<int64_t>(views.size())), op.rows_out()};
  }
}

void prepare_packed(ExpertLinear& op, int64_t rows, Prepare& p) {
  DeviceCtx device;
  device.stream = p.stream;
  device.arch = p.arch;
  device.multiprocessors = p.multiprocessors;
  const std::span<const Weight> second =
      op.n_parts == 2 ? std::span<const Weight>(op.parts[1].weights) : std::span<const Weight>();
  op.device->packed = pack_experts(op.parts[0].weights, second, device, p.allocate);
  op.device->streams = true;
  const Format format = op.parts[0].weights[0].format;
  op.device->some = !p.batch_invariant && experts_some_has(format);
  op.device->many = !p.batch_invariant && experts_many_has(format, p.arch);
  const int64_t places = rows * op.used();
  const int64_t many = op.device->many ? experts_many_scratch(places, op.cols_in()) : 0;
  const int64_t some = op.device->some ? experts_some_scratch(format, places, op.count(), op.cols_in()) : 0;
  p.need_scratch(piece_bytes(made_rows(op, rows) * padded_cols(op) * 2) + std::max(many, some));
}

}  // namespace

void prepare(ExpertLinear& op, Prepare& p) {
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  const int64_t places = rows * op.used();
  op.device = std::make_shared<DeviceExperts>();
  bool packs = true;
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    const std::vector<Weight>& weights = op.parts[i].weights;
    for (const Weight& w : weights) {
      if (w.format != weights[0].format)
        throw Error("[cuda] '{}' and '{}' have different formats", weights[0].name, w.name);
    }
    packs = packs && weights[0].format == op.parts[0].weights[0].format && experts_pack(weights, p.arch);
  }
  if (packs) {
    prepare_packed(op, rows, p);
  } else {
    prepare_published(op, p);
  }
  p.need_scratch(list_scratch(op.count()));
  const int64_t tiles = most_tiles(places, op.count(), kStreamRows);
  ExpertList& list = op.device->list;
  list.place = reinterpret_cast<int32_t*>(p.allocate(places * 4));
  // In one line of the cache with the first tiles: a kernel waits for it before it asks for weights.
  list.tiles = reinterpret_cast<ExpertTile*>(p.allocate((1 + tiles) * static_cast<int64_t>(sizeof(ExpertTile)))) + 1;
  list.n_tiles = &list.tiles[-1].expert;
}

bool leave_published(ExpertLinear& op) {
  if (!op.device->is_packed()) return false;
  for (ExpertLinear::Part& part : op.parts) {
    for (Weight& w : part.weights) {
      w.data = op.device->packed.weights;  // not read, and not taken for none
      w.scale = nullptr;
    }
  }
  return true;
}

bool link(ExpertLinear& first, ExpertLinear& second, Prepare& p) {
  if (first.experts.data != second.experts.data || first.x.rows != second.x.rows || first.count() != second.count())
    return false;
  second.device->sorted = first.device;
  second.device->follows = first.device->is_packed() && !first.out;
  first.device->streams = first.device->streams || second.device->streams;
  first.device->some = first.device->some && second.device->some;
  first.device->many = first.device->many && second.device->many;
  link_one(first, second, p);
  return true;
}

bool link(RouterTopk& topk, ExpertLinear& experts, Prepare& p) {
  if (topk.route == nullptr || topk.experts.data != experts.experts.data || topk.experts.rows != experts.x.rows)
    return false;
  DeviceRoute& route = *topk.route;
  route.choice_bias = reinterpret_cast<const float*>(topk.bias.data);
  route.to = {topk.experts.row<int32_t>(0), topk.weights.f32(0), topk.experts.stride, topk.weights.stride,
              static_cast<int>(topk.experts.cols)};
  route.spec = topk.spec;
  route.list = experts.device->list;
  route.tile_of = [device = experts.device.get(), used = experts.used(), count = experts.count()](int64_t rows) {
    return tile_of(*device, rows * used, count);
  };
  experts.device->route = topk.route;
  const std::byte* met = route.norm != nullptr ? route.normed.data : route.x.data;
  if (!experts.device->is_packed() || experts.scale || experts.x.data != met) return true;
  experts.device->x_of_route = true;
  View& x = route.bf16;
  x.stride = padded_cols(experts);
  x.cols = static_cast<int>(x.stride);
  x.dtype = DType::kBF16;
  x.data = p.allocate(kRouteRows * x.stride * 2);
  fill_bytes(x.data, 0, kRouteRows * x.stride * 2, p.stream);
  return true;
}

bool link(ExpertLinear& experts, Linear& next, Prepare& p) {
  if (begin_shared(experts, next)) return true;
  if (!experts.out || !next.input.add || experts.x.rows.kind != next.x.rows.kind) return false;
  const bool is_x = experts.out.data == next.x.data, is_added = experts.out.data == next.input.add.data;
  const Tensor& other = is_x ? next.input.add : next.x;
  if (is_x == is_added || other.dtype != DType::kF32 || next.input.sum.dtype != DType::kF32) return false;
  if (!in_fours(next.input.weight) || other.cols != experts.out.cols || experts.out.cols != next.x.cols) return false;
  const int64_t rows = p.limits.rows;
  if (overlaps(next.input.sum, experts.places, rows)) return false;
  if (experts.weights && overlaps(next.input.sum, experts.weights, rows)) return false;
  experts.device->next = link_input(next, p);
  experts.device->residual = View(other);
  experts.device->sum = View(next.input.sum);
  if (experts.device->next != nullptr) end_one(experts, next.input.sum, p);
  return experts.device->next != nullptr;
}

void run(const ExpertLinear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), used = op.used();
  if (rows == 0) return;
  if (op.device->one != nullptr && leaves_route(op.device->first().route, rows)) {
    if (op.out) run_one(op, ctx);
    return;
  }
  const int32_t* true_rows = rows_of_step(op.x, ctx);
  const DeviceExperts& device = *op.device;
  if (device.sorted == nullptr && !takes_route(device.route, rows)) {
    const ExpertChoice choice{op.experts.row<int32_t>(0), op.experts.stride, static_cast<int>(used),
                              static_cast<int>(op.count()), true_rows};
    list_experts(choice, rows, tile_of(device, rows * used, op.count()), device.list, ctx);
  }
  if (device.is_packed()) {
    run_packed(op, rows, ctx);
  } else {
    run_published(op, rows, ctx);
  }
  if (!op.out) return;
  ExpertSum sum;
  sum.places = places_of(op, rows);
  if (op.weights && !op.scale) sum.weights = View(op.weights);
  sum.used = static_cast<int>(used);
  sum.out = View(op.out);
  sum.true_rows = true_rows;
  if (device.next != nullptr && rows <= device.next->rows) {
    sum.residual = device.residual;
    sum.out = device.sum;
    sum.to = *device.next;
  }
  add_expert_places(sum, rows, ctx);
}

}  // namespace ingot::cuda
