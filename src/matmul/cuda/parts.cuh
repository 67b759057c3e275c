// What the files of this folder share: arguments of kernels, small device functions, and who calls whom. matmul_cuda.cu
// chooses; stream_cuda.cu, wide_cuda.cu, cuda_blas.cpp, gemm_cuda.cu, f32_cuda.cu and any_cuda.cu multiply;
// rows_cuda.cu does what comes before and after a product where that is a launch of its own.
#pragma once

#include "cuda/activate.cuh"
#include "cuda/kernel.cuh"
#include "cuda/kv_rows.cuh"
#include "matmul/cuda/matmul.h"
#include "matmul/cuda/stream/stream_packing.h"

namespace ingot::cuda {

// Bytes of a piece of scratch: pieces begin at multiples of 256.
constexpr int64_t piece_bytes(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// --- Before the product ---

struct InputArgs {
  View x;
  const float* weight = nullptr;  // null: rows are taken as they are
  float eps = 0;
  View add, sum;  // add.data null: none
  const float* add_norm = nullptr;
  float add_eps = 0;
};
InputArgs input_args(const ProductInput& input);

// The rows that the weights meet, `rows` of them, to `out`; columns from the last to out.cols are zeros. `gather`: as
// ProductInput's.
void make_rows(const InputArgs& in, const int32_t* gather, int64_t rows, const View& out, const DeviceCtx& ctx);

// --- After it ---

// Where the values of a part go: out = (residual +) value + bias.
struct PartOut {
  View out;
  const float* bias = nullptr;
  View residual;  // data null: none
};
PartOut part_out(const DeviceProduct& product, int part);

__device__ inline void store_part(const PartOut& to, int64_t row, int64_t n, float value) {
  if (to.bias != nullptr) value += to.bias[n];
  if (to.residual.data != nullptr) value += to.residual.get(row, n);
  to.out.set(row, n, value);
}

__device__ inline float activated(ActivationKind kind, float x) {
  switch (kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kSilu:
      return activate<ActivationKind::kSilu>(x);
    case ActivationKind::kGelu:
      return activate<ActivationKind::kGelu>(x);
    case ActivationKind::kGeluTanh:
      return activate<ActivationKind::kGeluTanh>(x);
    case ActivationKind::kRelu:
      return activate<ActivationKind::kRelu>(x);
    case ActivationKind::kSigmoid:
      return activate<ActivationKind::kSigmoid>(x);
    case ActivationKind::kClampedSwiglu:
      break;
  }
  return x;
}

// Where q, k and v go.
struct HeadsArgs {
  View q, table;
  const int32_t* slot = nullptr;  // [rows]
  KvPlace kv;
  int kv_heads = 0, head_dim = 0;
  bool interleaved = false;
};
HeadsArgs heads_args(const HeadsEnd& heads);

// q, k and v as the products gave them, for a kernel that ends them.
struct HeadsInput {
  View q, k, v;
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;
  HeadsEnd::Norm q_norm, k_norm;
  int q_heads = 0;
  HeadsArgs to;
};
HeadsInput heads_input(const DeviceProduct& product, const View& q, const View& k, const View& v);

// Whether the product of q, k and v may itself turn heads and write the cache, by pairs: nothing needs a whole head.
bool heads_by_pairs(const DeviceProduct& product);

// value = f(gate + bias) · (up + bias), from two matrices.
void finish_glu(const DeviceProduct& product, const View& gate, const View& up, int64_t rows, const DeviceCtx& ctx);
// Bias, norms, rope and KV write from q, k and v as the products gave them.
void finish_heads(const DeviceProduct& product, const View& q, const View& k, const View& v, int64_t rows,
                  const DeviceCtx& ctx);
void add_bias(const View& out, const float* bias, int64_t rows, const DeviceCtx& ctx);

// The same three where all lies on 16-byte borders. False: it does not, and nothing was done.
bool make_rows_by_vectors(const InputArgs& in, const int32_t* gather, int64_t rows, const View& out,
                          const DeviceCtx& ctx);
bool finish_glu_by_vectors(const DeviceProduct& product, const View& gate, const View& up, int64_t rows,
                           const DeviceCtx& ctx);
bool heads_by_items(const DeviceProduct& product);  // whether the last of them may
bool finish_heads_by_vectors(const DeviceProduct& product, const View& q, const View& k, const View& v, int64_t rows,
                             const DeviceCtx& ctx);
// Heads without norms into a cache of q8_0. False: they are others, and nothing was done.
bool finish_heads_by_warps(const DeviceProduct& product, const View& q, const View& k, const View& v, int64_t rows,
                           const DeviceCtx& ctx);

// --- Products ---

// The norm between two products of at most `rows` rows that run one after the other. The first leaves its rows times
// the norm's weight, as bf16, and the sums of squares of each 16 of its outputs; the second divides its sums by the
// root. So no launch and no block of the second makes the norm.
struct NormLink {
  const float* weight = nullptr;  // null: there is none
  float eps = 0;
  int rows = 0;              // kStreamRows or kWideRows: up to so many the first leaves it
  View x;                    // [rows, K] bf16
  float* squares = nullptr;  // [rows, parts]
  int parts = 0;
};

// Packed weights of one format: all parts of a product, or one of several that have different formats.
struct StreamedPart {
  const std::byte* weights = nullptr;  // in the order of stream_packing.h and stream_codes.cuh
  Format format = Format::kBF16;
  int tile_rows = 0;
  RowMap map;                               // parts that lie elsewhere have no rows in it
  int first_processor = 0, processors = 0;  // multiprocessors that are its own, all for the only one
};

// What a device keeps of a product whose weights it streams.
struct StreamedProduct {
  StreamedPart parts[3];
  int n_parts = 0;
  int arch = 0;       // of the device
  bool tall = false;  // run_tall() (tall.cuh) takes them
  // Rows are rounded to e4m3, any number of them: weights lie as f8_rows.cuh says, with several scales along a row
  // where they have blocks.
  bool f8 = false, f8_blocks = false;
  NormLink from, to;  // of the input, and of the outputs for the product that comes next
};

// Of a product: whether all its weights are BF16, its outputs, and the most rows for which packed weights are read by
// the streaming kernel or that of taller tiles.
bool all_bf16(const DeviceProduct& product);
int64_t total_rows(const DeviceProduct& product);
int64_t packed_rows(const DeviceProduct& product, int arch);

// Norms up to this many rows are made by every block for itself. More: one launch before it makes them once, because
// each block would read 16 KB more for every row of 4,096.
inline constexpr int kStreamNormRows = 4;
// 1 to kStreamRows rows of x against product.streamed. Outs of the parts are `outs` where its heads are not made here.
struct StreamRun {
  const DeviceProduct* product;
  const StreamedPart* part = nullptr;
  int64_t rows;
  InputArgs input;                      // used where x is none
  bool leads = false, follows = false;  // one of several launches, as StreamArgs has it
  View x;  // bf16 rows of a multiple of 32 columns, 16-byte aligned; data null: from `input`
  PartOut outs[3];
};
void run_stream(const StreamRun& run, const DeviceCtx& ctx);

// Whether a device has bulk copies, and a block of it the shared memory that the streaming kernel wants.
constexpr bool stream_runs(int arch) { return arch >= 90 && arch < 120; }

// Whether a part's weights can be packed, the bytes that they take then, and the kernel that puts them there.
bool stream_packs(const Weight& weight);
int stream_most_rows(Format format);  // of a tile
int64_t streamed_bytes(const StreamedPart& part, int64_t cols);
void pack_stream(const DeviceProduct& product, const StreamedPart& part, std::byte* to, const DeviceCtx& ctx);
// Whether x of `rows` rows fits beside the ring, as shared memory of run_stream().
bool stream_holds(int64_t rows, int64_t cols, const StreamedPart& part);

// Weights as bf16, rounded, one row after another: rows [first, end) of each part to its own place, zeros in columns
// from `cols` to `stride`, which is a multiple of 32. More than one part: all rows.
struct UnpackRows {
  int64_t cols = 0, stride = 0;
  int64_t first = 0, end = 0;
  std::byte* to[3] = {};
};
void unpack_stream(const StreamedPart& part, const UnpackRows& rows, const DeviceCtx& ctx);
// The same of a published weight, to rows.to[0].
void unpack_published(const Weight& weight, const UnpackRows& rows, const DeviceCtx& ctx);

// out = x · Wᵀ for bf16 x and W with 16-byte aligned rows (of a multiple of 8 columns).
bool gemm_takes(const View& x, const Weight& weight);
void run_gemm(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx);

// The same for weights of F32 and x of f32, rows of both 16-byte aligned; bit for bit what run_any() gives.
bool f32_takes(const View& x, const Weight& weight);
void run_f32(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx);

// Rows of a weight that belong to groups, as many to each: x and outputs of group g from columns g · apart on.
struct AnyGroups {
  int count = 1;
  int64_t x_apart = 0, out_apart = 0;
};
// out = x · Wᵀ for every format, products and sums in f32.
void run_any(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx,
             const AnyGroups& groups = {});

}  // namespace ingot::cuda
