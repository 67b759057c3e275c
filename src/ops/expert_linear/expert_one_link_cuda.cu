// Whether the ops from a router to the sum of experts, and the MLP beside them that every row meets, are one launch for
// one row (expert_one.cuh), and that launch.
#include <algorithm>

#include "ops/expert_linear/device_experts.cuh"

namespace ingot::cuda {
namespace {

// Columns of the result are dealt to blocks 16 at a time: no more blocks in vain than a third.
constexpr double kMostIdle = 1.35;
constexpr int64_t kOneShared = 220 << 10;

Tensor at_view(Tensor like, const View& v) {
  like.data = v.data;
  like.stride = v.stride;
  like.dtype = v.dtype;
  return like;
}

// Whether the result of one row may go to `out`. Other blocks may still read what lies there, but for x, which all have
// read by then.
bool may_write(const DeviceExperts& device, const ExpertLinear& second, const Tensor& out, int64_t rows) {
  return !overlaps(out, second.experts, rows) && !overlaps(out, second.weights, rows) &&
         (out.data == device.x.data || !overlaps(out, device.x, rows));
}

bool is_gated_mlp(const ExpertLinear& first, const ExpertLinear& second) {
  return first.is_glu() && !first.out && first.layer_count == 0 && second.out && second.weights && !second.scale &&
         second.n_parts == 1 && second.x.data == first.places.data && !first.parts[0].bias && !first.parts[1].bias &&
         !second.parts[0].bias;
}

bool fits(const DeviceExperts& second, const ExpertOneArgs& one, const Prepare& p) {
  const Format up = second.sorted->packed.part.format, down = second.packed.part.format;
  return expert_one_shared(up, down, one, p.multiprocessors) <= kOneShared;
}

// A linear's packed weights, where they are one piece in this format and order.
const StreamedPart* packed_part(const Linear& op, Format format, RowOrder order) {
  if (op.streamed == nullptr || op.streamed->n_parts != 1 || op.input || op.heads) return nullptr;
  for (int i = 0; i < op.n_parts; ++i)
    if (op.parts[static_cast<size_t>(i)].bias) return nullptr;
  const StreamedPart& part = op.streamed->parts[0];
  const int64_t cols = op.parts[0].weight.cols;
  return part.format == format && part.map.order == order && cols % kStreamCols == 0 ? &part : nullptr;
}

OneMatrix matrix_of(const StreamedPart& part, int64_t cols) {
  return {part.weights, 0, static_cast<int>(stream_units(cols)), 0, part.tile_rows / 16};
}

}  // namespace

void link_one(ExpertLinear& first, ExpertLinear& second, Prepare& p) {
  DeviceExperts &up = *first.device, &down = *second.device;
  DeviceRoute* route = up.route.get();
  if (route == nullptr || route->rows == 0 || !up.x_of_route || !down.is_packed() || !is_gated_mlp(first, second))
    return;
  const int64_t cols = first.cols_in(), outputs = first.rows_out(), tiles = second.rows_out() / 16;
  if (!expert_one_has(up.packed.part.format, down.packed.part.format) || cols % kStreamCols != 0 ||
      outputs % kStreamCols != 0 || second.rows_out() % kStreamCols != 0)
    return;
  const int64_t blocks = p.multiprocessors, rows = p.limits.rows;
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
  one.up = {up.packed.weights, up.packed.stride, static_cast<int>(stream_units(cols))};
  one.down = {down.packed.weights, down.packed.stride, static_cast<int>(stream_units(outputs))};
  one.outputs = static_cast<int>(outputs);
  one.glu = first.glu;
  one.tiles = static_cast<int>(tiles);
  one.out = View(second.out);
  down.x = at_view(first.x, route->x);
  down.normed = first.x;
  down.out = second.out;
  if (!fits(down, one, p) || !may_write(down, second, second.out, rows)) return;
  // Nobody reads the normed row after the experts where the result may lie there.
  if (route->norm != nullptr && !overlaps(first.x, second.out, rows)) one.normed = route->normed;
  one.begun = reinterpret_cast<unsigned long long*>(p.allocate(8));
  fill_bytes(one.begun, 0, 8, p.stream);
  const int64_t bytes = int64_t{2} * one.words() * 4;
  one.handed = reinterpret_cast<uint32_t*>(p.allocate(bytes));
  fill_bytes(one.handed, 0xff, bytes, p.stream);
  up.one = down.one = std::make_shared<ExpertOneArgs>(one);
  route->one_rows = 1;
}

void end_one(ExpertLinear& second, const Tensor& sum, const Prepare& p) {
  DeviceExperts& device = *second.device;
  if (device.one == nullptr) return;
  if (!may_write(device, second, sum, p.limits.rows)) {
    device.sorted->route->one_rows = 0;
    return;
  }
  if (overlaps(device.normed, sum, p.limits.rows)) device.one->normed = {};
}

bool begin_shared(ExpertLinear& second, Linear& next) {
  const DeviceExperts& device = *second.device;
  if (device.one == nullptr || !next.is_glu() || next.glu != device.one->glu || next.route != nullptr) return false;
  if (next.x.data != device.normed.data || next.x.rows != device.normed.rows) return false;
  const StreamedPart* part = packed_part(next, device.sorted->packed.part.format, RowOrder::kGlu);
  if (part == nullptr || part->map.rows[0] % kStreamCols != 0) return false;
  next.route = std::make_shared<DeviceRoute>();
  next.route->experts = second.device;
  return true;
}

bool link_shared(Linear& first, Linear& second, Prepare& p) {
  if (first.route == nullptr || first.route->experts == nullptr || !first.is_glu()) return false;
  DeviceExperts& device = *first.route->experts;
  const Tensor& out = second.parts[0].out;
  if (second.n_parts != 1 || second.is_glu() || !second.residual || second.residual.data != device.out.data ||
      second.x.data != first.parts[0].out.data || out.rows != device.out.rows || out.dtype != device.out.dtype)
    return false;
  const StreamedPart* part = packed_part(second, device.packed.part.format, RowOrder::kPlain);
  if (part == nullptr || second.parts[0].weight.rows != device.out.cols) return false;
  const int64_t rows = p.limits.rows, outputs = second.parts[0].weight.cols;
  if (out.data != device.out.data && (overlaps(out, device.x, rows) || overlaps(out, device.normed, rows)))
    return false;
  ExpertOneArgs one = *device.one;
  one.shared_up = matrix_of(first.streamed->parts[0], first.parts[0].weight.cols);
  one.shared_down = matrix_of(*part, outputs);
  one.shared_outputs = static_cast<int>(outputs);
  if (!fits(device, one, p)) return false;
  const int64_t bytes = int64_t{2} * one.words() * 4;
  one.handed = reinterpret_cast<uint32_t*>(p.allocate(bytes));
  fill_bytes(one.handed, 0xff, bytes, p.stream);
  one.out = View(out);
  *device.one = one;
  second.route = first.route;
  first.route->rows = 1;
  return true;
}

void run_one(const ExpertLinear& op, Ctx& ctx) {
  const DeviceExperts& device = *op.device;
  ExpertOneArgs one = *device.one;
  if (device.next != nullptr && device.next->rows > 0) {
    one.residual = device.residual;
    one.out = device.sum;
    one.next = *device.next;
  }
  run_expert_one(device.sorted->packed.part.format, device.packed.part.format, one, ctx);
}

}  // namespace ingot::cuda
