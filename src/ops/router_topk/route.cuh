// Few rows from the residual stream to the list of places in one launch: norm, the router's logits, the choice of
// experts, places by expert. The ops whose work it is share what is here; each does nothing where rows are that few,
// but RouterTopk, which gives the launch.
#pragma once

#include <functional>
#include <memory>

#include "matmul/cuda/experts/experts_list.h"
#include "ops/router_topk/router_topk.cuh"
#include "tensor/tensor.h"

namespace ingot {
struct Linear;
}

namespace ingot::cuda {

struct DeviceExperts;
struct Prepare;

inline constexpr int kRouteRows = 32;

// What the launch is given beside RouterTopk.
struct RouteWork {
  // The norm in front, or none: then x is what the router's weights meet.
  View x;                       // f32
  const float* norm = nullptr;  // [K]
  float eps = 0;
  View normed;  // f32 or bf16
  View bf16;    // [rows, K to a multiple of 32] what the weights meet, for experts; data null: nobody wants it
  // The router's linear.
  const float* weight = nullptr;  // [E, K]
  const float* bias = nullptr;
  // The experts that follow; place null: there are none.
  ExpertList list;
  uint32_t* begun = nullptr;  // kRouteCounters zeros, of this route alone; the launch leaves zeros
};
inline constexpr int kRouteCounters = 1 + kRouteRows / 8;

struct DeviceRoute : RouteWork {
  int64_t rows = 0;      // up to so many rows; 0: each op does its own
  int64_t one_rows = 0;  // up to so many of them all is done by the experts that follow
  // RouterTopk's.
  const float* choice_bias = nullptr;
  RouterOut to = {};
  RouterSpec spec = {};
  std::shared_ptr<DeviceExperts> experts = nullptr;  // of a linear that is in their launch, which is no router
  std::function<int(int64_t rows)> tile_of = {};     // places of a tile of the list
};

// Whether two tensors of `rows` rows have memory in common. What one launch reads and writes was planned for several
// ops one after the other.
inline bool overlaps(const Tensor& a, const Tensor& b, int64_t rows) {
  const auto end = [&](const Tensor& t) { return t.data + rows * t.stride * dtype_bytes(t.dtype); };
  return a.data < end(b) && b.data < end(a);
}

// Whether both linears, gate and up and down of what every row meets, are in the launch of the experts before them, for
// one row.
bool link_shared(Linear& first, Linear& second, Prepare& p);

inline bool takes_route(const std::shared_ptr<DeviceRoute>& route, int64_t rows) {
  return route != nullptr && rows <= route->rows;
}

inline bool leaves_route(const std::shared_ptr<DeviceRoute>& route, int64_t rows) {
  return route != nullptr && rows <= route->one_rows;
}

// `bias` chooses, and is not the linear's.
void run_route(const DeviceRoute& route, const View& logits, const float* bias, const RouterOut& to,
               const RouterSpec& spec, int64_t rows, const int32_t* true_rows, const DeviceCtx& ctx);

}  // namespace ingot::cuda
