// What follows the sums of tall_kernel.cuh. Apart from the kernels, so that the file that calls them does not build
// them.
#pragma once

#include "matmul/cuda/tall/tall.cuh"
#include "matmul/cuda/wide/wide_end.cuh"

namespace ingot::cuda {

// An octet of 16 rows of the weights to where it belongs.
template <class Items>
__device__ void finish_octet(const StreamArgs& args, int64_t sixteen, int octet, const float (&sums)[4], float* room) {
  Items items;
  items.find(args, sixteen, octet);
  items.read(args);
  items.finish(args, sums, nullptr, room);
}
__device__ inline void finish_octets(const StreamArgs& args, int64_t sixteen, int octet, const float4& v, float* room) {
  const float sums[4] = {v.x, v.y, v.z, v.w};
  if (args.map.order == RowOrder::kPlain) {
    finish_octet<OctetOutputs>(args, sixteen, octet, sums, room);
  } else {
    finish_octet<OctetPairs>(args, sixteen, octet, sums, room);
  }
}

// The sums of places of a group to where they belong: outputs g and g + 8 of 16 rows of the weights, or their GLU.
struct PlacesEnd {
  const TallGroups& groups;
  const ExpertTile& tile;
  int64_t first;  // output
  float bias[2] = {};
  bool valid[2];

  __device__ PlacesEnd(const TallGroups& of, const ExpertTile& in, int sixteen) : groups(of), tile(in) {
    const bool glu = of.glu != ActivationKind::kNone;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    first = int64_t{sixteen} * (glu ? 8 : 16) + g;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t n = glu ? first : first + 8 * h;
      valid[h] = n < of.outputs;
      const float* from = glu ? of.bias[h] : of.bias[0];
      if (valid[h] && from != nullptr) bias[h] = from[int64_t{in.expert} * of.outputs + n];
    }
  }
  __device__ float gate_with(float gate, float up) const {
    // bf16 keeps 8 of its 20 bits.
    if (groups.glu == ActivationKind::kSilu && groups.out.dtype == DType::kBF16) return fast_silu(gate) * up;
    return gated_by(groups.glu, gate, up);
  }
  __device__ void finish(int octet, const float4& v) const {
    const int t = static_cast<int>(threadIdx.x) % 4;
    const float sums[2][2] = {{v.x, v.z}, {v.y, v.w}};
    const View& out = groups.out;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int i = octet * 8 + 2 * t + e;
      if (i >= tile.count) continue;
      const int row = groups.list.place != nullptr ? groups.list.place[tile.first + i] : tile.first + i;
      std::byte* to = out.row(row);
      const int64_t n = int64_t{tile.expert} * groups.out_apart + first;
      const float a = sums[e][0] + bias[0], b = sums[e][1] + bias[1];
      if (groups.glu != ActivationKind::kNone) {
        if (valid[0]) store_value(to, n, out.dtype, gate_with(a, b));
        continue;
      }
      if (valid[0]) store_value(to, n, out.dtype, a);
      if (valid[1]) store_value(to, n + 8, out.dtype, b);
    }
  }
};

}  // namespace ingot::cuda
