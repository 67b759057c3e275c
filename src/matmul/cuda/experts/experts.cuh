// Products of experts: what their kernels are given, and who calls whom. A place is one expert of one row: place
// t · k + j is row t's j-th. Places are sorted by expert on the device and cut into tiles of one expert each
// (experts_list_cuda.cu); kernels read the list there, and the host knows only how long it can be.
//
// experts_stream_kernel.cuh  few places a tile: packed weights stream past, as of a linear of few rows
// experts_any_kernel.cuh     weights as they are published, any format, far from the memory's speed
#pragma once

#include <span>

#include "matmul/cuda/decode_stage.cuh"
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {

// Rows of the tiles that experts' weights are packed in. One size for all: at one row tiles are four to six times as
// many as multiprocessors, and those of 16 rows read x twice as often.
inline constexpr int kExpertTileRows = 32;

// Places list.place[first … first + count) of one expert.
struct alignas(16) ExpertTile {
  int32_t expert, first, count, unused;
};

// What is made once for all products that meet the same places. In memory of the device.
struct ExpertList {
  int32_t* place = nullptr;     // [T · k] in order of their expert; of one expert in their own order
  int32_t* n_tiles = nullptr;   // [1]
  ExpertTile* tiles = nullptr;  // in order of their expert
};

// Tiles that `places` places of `count` experts can make, at most.
constexpr int64_t most_tiles(int64_t places, int64_t count, int tile) {
  const int64_t most = places / tile + (count < places ? count : places);
  return most < places ? most : places;
}

// `rows` · used places, but those of rows from *true_rows on, which are in no tile. Tiles have at most `tile` places.
struct ExpertChoice {
  const int32_t* experts = nullptr;  // [rows, used]
  int64_t stride = 0;                // of a row
  int used = 0, count = 0;
  const int32_t* true_rows = nullptr;
};
void list_experts(const ExpertChoice& choice, int64_t rows, int tile, const ExpertList& list, const DeviceCtx& ctx);

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

// bf16 rows of x for each place, times scale[t, j].
void scale_places(const View& x, const View& scale, int64_t places, const View& out, const DeviceCtx& ctx);

}  // namespace ingot::cuda
