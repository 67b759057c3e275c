// The kernels behind cuda::run(Attention), and what they are given. attention_cuda.cu chooses:
//   split  a few packed rows of a seq, their keys shared by the warps of a block and by several blocks (decode, drafts)
//   rows   many rows of a seq in tiles (prompts)
//   group  the same by warpgroups (compute capability 9.0)
//   latent a latent cache, few rows and many
//   any    any head size and type of the cache, f32 arithmetic
#pragma once

#include "cuda/kernel.cuh"
#include "cuda/kv_rows.cuh"
#include "ops/attention/attention.h"
#include "ops/cuda/ctx.h"
#include "ops/kv_write/kv_place.h"

namespace ingot::cuda {

struct AttentionArgs {
  View q, out;
  KvPlace kv;
  const float* sinks = nullptr;  // [heads], or none
  int kv_heads = 0;
  int group = 0;  // heads of a KV head; packed row i of a seq is its row i / group, head i % group of the KV head's
  int window = 0;
  int q_dim = 0;  // columns of a head of q
  bool latent = false;
  bool chunked = false;             // any alone
  float scale = 1, scale_log2 = 1;  // of a score; and times log2(e)
  float softcap = 0;

  const int32_t* counts = nullptr;
  const int32_t* q_start = nullptr;
  const int32_t* kv_len = nullptr;
  const int32_t* position = nullptr;
  const int32_t* seq = nullptr;
  const int32_t* page_table = nullptr;
  int pages_per_seq = 0;
  int seqs = 0;  // of the bucket

  // Seqs with so many packed rows are this launch's.
  int least_packed = 1, most_packed = 1 << 30;

  // split: blocks are (split, KV head and tile, seq). The keys of a seq are cut
  //   into at most `splits` pieces of equal length, a multiple of 64 (few_splits where those would be short); or,
  //   where split_keys is not 0, at its absolute multiples, whatever else is in the batch; or,
  //   where resident is not 0, so that each of as many blocks gets about as much: blocks are (any, KV head and tile).
  dim3 grid;
  int splits = 1, few_splits = 1;
  int split_keys = 0;
  int resident = 0;
  int cluster_bits = 0;    // latent: 2^bits blocks of a cluster take the pieces of one split together; at most 3
  bool fold = false;       // one block takes all splits of its rows, one after another
  int tiles = 1;           // blocks for the packed rows of a seq
  float* parts = nullptr;  // results of splits
  uint32_t* tickets = nullptr;
};

// Whether a head size has fast kernels.
constexpr bool fast_dim(int dim) { return dim == 64 || dim == 96 || dim == 128 || dim == 256; }
// Packed rows of a block of the split kernels.
constexpr int kNarrowRows = 16;
constexpr int wide_rows(int dim) { return dim <= 128 ? 32 : 16; }
// Keys of a step of a split block: 16 for each of its groups of warps.
constexpr int kSplitStep = 64;
// Keys of a split from which on the device runs two blocks of a multiprocessor for one seq: more are in flight.
constexpr int kLongSplit = 4 * kSplitStep;
// Floats of one split's results for `rows` packed rows.
constexpr int64_t part_floats(int rows, int dim) { return static_cast<int64_t>(rows) * (dim + 2); }

// Whether the latent kernels have a size of the latent and of its rotary part, and their packed rows of a block.
constexpr bool latent_dim(int rank, int rope) {
  return (rank == 512 && rope == 64) || (rank == 256 && (rope == 64 || rope == 32));
}
constexpr int kWideLatentRows = 64;

// Whether the group kernel has a head size.
constexpr bool group_dim(int dim) { return dim == 64 || dim == 128; }
// Packed rows of a block of the rows kernel, and of an item of the group kernel's.
constexpr int kRowsTile = 128;
// Whether a block may have the shared memory that the largest shapes ask for: more than 160 KiB, where some devices
// give a block 99.
constexpr bool roomy(int arch) { return arch == 80 || arch == 87 || (arch >= 90 && arch < 120); }

// `bulk`: by TMA (compute capability 9.0).
void attend_split_bf16(const Ctx& ctx, const AttentionArgs& args, bool wide, bool bulk);
void attend_split_f16(const Ctx& ctx, const AttentionArgs& args, bool wide, bool bulk);
void attend_split_fp8(const Ctx& ctx, const AttentionArgs& args, bool wide, bool bulk);
void attend_split_q8_0(const Ctx& ctx, const AttentionArgs& args, bool wide, bool bulk);
void attend_rows_bf16(const Ctx& ctx, const AttentionArgs& args, int64_t tiles);
void attend_rows_f16(const Ctx& ctx, const AttentionArgs& args, int64_t tiles);
void attend_rows_fp8(const Ctx& ctx, const AttentionArgs& args, int64_t tiles);
void attend_rows_q8_0(const Ctx& ctx, const AttentionArgs& args, int64_t tiles);
void attend_group_bf16(const Ctx& ctx, const AttentionArgs& args, int64_t tiles);
void attend_group_f16(const Ctx& ctx, const AttentionArgs& args, int64_t tiles);
void attend_group_fp8(const Ctx& ctx, const AttentionArgs& args, int64_t tiles);
void attend_group_q8_0(const Ctx& ctx, const AttentionArgs& args, int64_t tiles);
// `wide`: 64 packed rows of a block, where it has the shared memory for them (roomy()); else 16.
void attend_latent_bf16(const Ctx& ctx, const AttentionArgs& args, bool wide);
void attend_latent_f16(const Ctx& ctx, const AttentionArgs& args, bool wide);
void attend_latent_fp8(const Ctx& ctx, const AttentionArgs& args, bool wide);
void attend_latent_q8_0(const Ctx& ctx, const AttentionArgs& args, bool wide);
void attend_any(const Ctx& ctx, const AttentionArgs& args, int64_t rows);

}  // namespace ingot::cuda
