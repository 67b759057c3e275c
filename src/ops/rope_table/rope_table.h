// The rotation of each row's position: out[t] = cos of the rotary_dim / 2 angles, then their sines.
// Made once a step for each kind of rope in the model and read by every layer. An angle is the f32
// product of the position and the inverse frequency; cos and sin carry the scaling's magnitude.
#pragma once

#include <vector>

#include "ops/ctx.h"

namespace ingot {

struct RopeTable {
  std::vector<float> inv_freq;             // [rotary_dim / 2], chosen once from the scaling and the engine's context
  float magnitude = 1;                     // multiplies cos and sin (yarn, longrope)
  Tensor out;                              // [T, rotary_dim]
  const float* device_inv_freq = nullptr;  // inv_freq on the CUDA device; set by cuda::prepare()

  template <class F>
  void each(F&& f) {
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {s.bytes(out), 20.0 * static_cast<double>(s.count(out))}; }
};

namespace ref {
void run(const RopeTable& op, Ctx& ctx);
}
namespace cpu {
void run(const RopeTable& op, Ctx& ctx);
}

}  // namespace ingot
