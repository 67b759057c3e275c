// Products of experts: what their kernels are given, and who calls whom. A place is one expert of one row: place
// t · k + j is row t's j-th. Places are sorted by expert on the device and cut into tiles of one expert each
// (experts_list_cuda.cu); kernels read the list there, and the host knows only how long it can be.
//
// experts_stream_kernel.cuh  few places a tile: packed weights stream past, as of a linear of few rows
// experts_some_kernel.cuh    up to 16 places a tile: a packed weight is unpacked once for them
// experts_any_kernel.cuh     weights as they are published, any format, far from the memory's speed
#pragma once

#include <span>

#include "matmul/cuda/decode_stage.cuh"
#include "matmul/cuda/experts/experts_list.h"
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {

// Rows of the tiles that experts' weights are packed in. One size for all: at one row tiles are four to six times as
// many as multiprocessors, and those of 16 rows read x twice as often.
inline constexpr int kExpertTileRows = 32;

// The weights of all experts of one op: each packed as a linear's (stream_packing.h), gate and up in the order kGlu.
struct PackedExperts {
  const std::byte* weights = nullptr;  // expert e's at e · stride
  int64_t stride = 0;                  // bytes
  StreamedPart part;                   // of expert 0
  int64_t cols = 0;                    // K
  int count = 0;                       // E
};

// Whether all of these weights can be packed for a device.
bool experts_pack(std::span<const Weight> weights, int arch);
// `second` is none, or up where `first` is gate. The published weights are not read again when the stream's work is
// done.
PackedExperts pack_experts(std::span<const Weight> first, std::span<const Weight> second, const DeviceCtx& device,
                           const Allocate& allocate);

// A product of experts. Outputs are out.row(place), [T · k, N]: value + bias, of gate and up f(gate) · up.
struct ExpertRun {
  const PackedExperts* packed = nullptr;
  ExpertList list;
  int64_t rows = 0;           // of the bucket; kernels see the true number in the list alone
  int64_t places = 0;         // of the bucket
  int tile = 0;               // places of a tile, at most
  View x;                     // bf16 rows of a multiple of 32 columns, zeros beyond K, 16-byte aligned
  int per_row = 1;            // place p has row p / per_row of x
  View out;                   // f32 or bf16, a row for each place
  const float* bias[2] = {};  // [E · N] of each part, or null
  ActivationKind glu = ActivationKind::kNone;
  // The kernel given before this one is run_experts_stream() with the same list: weights may be asked for before it has
  // ended.
  bool follows = false;

  int64_t most() const { return most_tiles(places, packed->count, tile); }
};

// By the streaming kernel: tiles of at most kStreamRows places. The order of a sum depends on K alone.
void run_experts_stream(const ExpertRun& run, const DeviceCtx& ctx);

// From weights as they are published, products and sums in f32; run.packed is none, x f32 or bf16. One part; with
// `gate` out holds gates, and gets f(gate) · what is computed.
struct PublishedExperts {
  Format format = Format::kF32;
  const WeightView* weights = nullptr;  // [E], in memory of the device
  int64_t rows = 0;                     // N
};
inline constexpr int kAnyTile = 32;  // places of a tile, at most
struct AnyExpertsRun {
  PublishedExperts published;
  ExpertList list;
  int64_t most_tiles = 0;
  View x;
  int per_row = 1;
  View scale;  // [T, k] what rows of x are multiplied by, or none
  int used = 1;
  View out;
  const float* bias = nullptr;
  ActivationKind glu = ActivationKind::kNone;
};
void run_experts_any(const AnyExpertsRun& run, const DeviceCtx& ctx);
template <class F>
void run_any_format(const AnyExpertsRun& run, const DeviceCtx& ctx);

// out[t] = (residual[t] +) Σ weights[t, j] · places[t · used + j], j in their order. `to`: the rows go on to a product
// by packed weights as its norm link, or none.
struct ExpertSum {
  View places;
  View weights;  // [T, used], or none: ones
  int used = 1;
  View residual;  // or none
  View out;
  NormLink to;
  const int32_t* true_rows = nullptr;
};
void add_expert_places(const ExpertSum& sum, int64_t rows, const DeviceCtx& ctx);

// bf16 rows of x for each place, times scale[t, j].
void scale_places(const View& x, const View& scale, int64_t places, const View& out, const DeviceCtx& ctx);

}  // namespace ingot::cuda
