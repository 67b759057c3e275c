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
#include "ops/cuda/ops.h"
#include "ops/expert_linear/expert_linear.h"
#include "ops/expert_linear/expert_one.cuh"
#include "ops/router_topk/route.cuh"

namespace ingot::cuda {

// What a run needs beside the op, in memory of the device.
struct DeviceExperts {
  PackedExperts packed;           // weights null: they are read as they are published
  PublishedExperts published[2];  // of each part
  ExpertList list;
  bool streams = false;  // some op that reads the list has packed weights
  bool some = false;     // all of them have those of experts_some.cuh
  bool many = false;     // and those of experts_many.cuh
  // The experts before it that meet the same places: they have sorted them already.
  std::shared_ptr<DeviceExperts> sorted = nullptr;
  bool follows = false;  // and their last kernel is that of their packed weights
  // What the router before it does for few rows: the list, and x as bf16 where that is what it has normed.
  std::shared_ptr<DeviceRoute> route = nullptr;
  bool x_of_route = false;
  // What the linear after it leaves to its sum for few rows: the residual, where both go, and the norm's part.
  const NormLink* next = nullptr;
  View residual, sum;
  // What both experts' ops and the router before them are for one row: given by the second.
  std::shared_ptr<ExpertOneArgs> one = nullptr;
  Tensor met;  // x of that launch, of the first op

  bool is_packed() const { return packed.weights != nullptr; }
  const DeviceExperts& first() const { return sorted != nullptr ? *sorted : *this; }
};

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

const int32_t* rows_of_step(const Tensor& t, const Ctx& ctx) {
  return ctx.batch.counts + (t.rows.kind == RowKind::kLogits ? 2 : 0);
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

// Columns of the result that are dealt to blocks of one row's kernel, 16 at a time, no more than this often in vain.
constexpr double kMostIdle = 1.35;
constexpr int64_t kOneShared = 220 << 10;

// `out`: where the result of one row goes. Other blocks may still read what lies there, but for x, which all have read.
bool one_may_write(const ExpertLinear& experts, const ExpertOneArgs& one, const Tensor& out, int64_t rows) {
  return !overlaps(out, experts.experts, rows) && !overlaps(out, experts.weights, rows) &&
         (out.data == one.x.data || !overlaps(out, experts.device->sorted->met, rows));
}

// One launch for one row, from the norm to the sum: where both experts' ops are those of a gated MLP without biases, in
// formats that have a kernel, and columns fill the device.
void link_one(ExpertLinear& first, ExpertLinear& second, Prepare& p) {
  DeviceRoute* route = first.device->route.get();
  if (route == nullptr || route->rows == 0 || !first.device->x_of_route || !second.device->is_packed()) return;
  if (!first.is_glu() || first.out || first.layer_count != 0 || !second.out || !second.weights || second.scale ||
      second.n_parts != 1 || second.x.data != first.places.data)
    return;
  if (first.parts[0].bias || first.parts[1].bias || second.parts[0].bias) return;
  const Format up = first.parts[0].weights[0].format, down = second.parts[0].weights[0].format;
  const int64_t cols = first.cols_in(), outputs = first.rows_out(), tiles = second.rows_out() / 16;
  if (!expert_one_has(up, down) || cols % kStreamCols != 0 || outputs % kStreamCols != 0 ||
      second.rows_out() % kStreamCols != 0)
    return;
  const int64_t blocks = p.multiprocessors;
  if (static_cast<double>(ceil_div(tiles, blocks) * blocks) > kMostIdle * static_cast<double>(tiles)) return;
  ExpertOneArgs one;
  one.x = route->x;
  one.norm = route->norm;
  one.eps = route->eps;
  one.router = route->weight;
  one.router_bias = route->bias;
  one.choice_bias = route->choice_bias;
  one.count = static_cast<int>(first.count());
  one.spec = route->spec;
  one.to = route->to;
  one.up = {first.device->packed.weights, first.device->packed.stride, 0, static_cast<int>(stream_units(cols))};
  one.down = {second.device->packed.weights, second.device->packed.stride, 0, static_cast<int>(stream_units(outputs))};
  one.outputs = static_cast<int>(outputs);
  one.glu = first.glu;
  one.tiles = static_cast<int>(tiles);
  one.out = View(second.out);
  const int64_t rows = p.limits.rows;
  Tensor& met = first.device->met;
  met = first.x;
  met.data = route->x.data;
  met.stride = route->x.stride;
  met.dtype = route->x.dtype;
  if (expert_one_shared(up, down, one, static_cast<int>(blocks)) > kOneShared ||
      !one_may_write(second, one, second.out, rows))
    return;
  // Nobody reads the normed row after the experts where the result may lie there.
  if (route->norm != nullptr && !overlaps(first.x, second.out, rows)) one.normed = route->normed;
  const int64_t bytes = int64_t{2} * one.words() * 4;
  one.begun = reinterpret_cast<unsigned long long*>(p.allocate(8));
  one.handed = reinterpret_cast<uint32_t*>(p.allocate(bytes));
  fill_bytes(reinterpret_cast<std::byte*>(one.begun), 0, 8, p.stream);
  fill_bytes(reinterpret_cast<std::byte*>(one.handed), 0xff, bytes, p.stream);
  first.device->one = second.device->one = std::make_shared<ExpertOneArgs>(one);
  route->one_rows = 1;
}

// The sum goes to `sum`, or there is no such launch.
void end_one(ExpertLinear& experts, const Tensor& sum, int64_t rows) {
  DeviceExperts& device = *experts.device;
  if (device.one == nullptr) return;
  if (!one_may_write(experts, *device.one, sum, rows)) {
    device.sorted->route->one_rows = 0;
    return;
  }
  Tensor normed = device.sorted->met;
  normed.data = device.one->normed.data;
  normed.stride = device.one->normed.stride;
  normed.dtype = device.one->normed.dtype;
  if (normed.data != nullptr && overlaps(normed, sum, rows)) device.one->normed = {};
}

void run_one(const ExpertLinear& op, Ctx& ctx) {
  const DeviceExperts& device = *op.device;
  ExpertOneArgs one = *device.one;
  one.true_rows = rows_of_step(op.x, ctx);
  if (device.next != nullptr && device.next->rows > 0) {
    one.residual = device.residual;
    one.out = device.sum;
    one.next = *device.next;
  }
  run_expert_one(device.sorted->packed.part.format, device.packed.part.format, one, ctx);
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
  if (experts.device->next != nullptr) end_one(experts, next.input.sum, rows);
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
