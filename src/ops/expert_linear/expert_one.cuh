// All that experts do for one row in one launch: norm, the router's logits, the choice, gate and up, down, the sum over
// the row's places, the residual, and what the next linear's norm needs. What one part needs of another's blocks goes
// through the second-level cache, value by value, while the weights of the next part are already on their way: between
// launches of their own the memory of an H200 has nothing to do for 2 to 4 us each time.
#pragma once

#include "matmul/cuda/parts.cuh"
#include "ops/router_topk/router_topk.cuh"

namespace ingot::cuda {

// Packed weights (stream_packing.h) of all experts, or of those that every row meets.
struct OneMatrix {
  const std::byte* weights = nullptr;
  int64_t stride = 0;  // bytes of an expert's
  int units = 0;       // of a row that it meets: 32 columns each
  int chunks = 0;      // of a tile
  int sixteens = 2;    // rows of a tile, by 16
};

struct ExpertOneArgs {
  // The route.
  View x;                       // [1, K] f32
  const float* norm = nullptr;  // or none
  float eps = 0;
  View normed;                    // data null: nobody wants it
  const float* router = nullptr;  // [E, K]
  const float* router_bias = nullptr;
  const float* choice_bias = nullptr;
  int count = 0;  // E
  RouterSpec spec;
  RouterOut to;
  // The experts.
  OneMatrix up, down;
  int outputs = 0;  // N of gate and of up, whole units
  // Those that every row meets, with weight 1; outputs 0: there are none.
  OneMatrix shared_up, shared_down;
  int shared_outputs = 0;
  ActivationKind glu = ActivationKind::kNone;
  // The end: out = (residual +) sum.
  int tiles = 0;  // of 16 columns of out
  View residual, out;
  NormLink next;  // weight null: none
  // Of this route alone: how many blocks have begun in all launches so far; two times words() words that are kNothing
  // where nothing is handed over, of which launches take turns, and each leaves the other's clean.
  unsigned long long* begun = nullptr;
  uint32_t* handed = nullptr;

  __host__ __device__ int logit_words() const { return (count + 3) / 4 * 4; }
  __host__ __device__ int values() const { return to.used * outputs + shared_outputs; }  // that down meets
  __host__ __device__ int words() const { return logit_words() + values() / 2; }
};

// Whether there is a kernel for gate and up in one format, down in another, and the bytes that a block takes then.
bool expert_one_has(Format up, Format down);
int64_t expert_one_shared(Format up, Format down, const ExpertOneArgs& args, int blocks);
// Sets chunks.
void run_expert_one(Format up, Format down, ExpertOneArgs args, const DeviceCtx& ctx);

// A kernel of two formats.
template <class G, class D>
void run_one_formats(const ExpertOneArgs& args, const DeviceCtx& ctx);
template <class G, class D>
int64_t one_shared(const ExpertOneArgs& args, int blocks);

}  // namespace ingot::cuda
