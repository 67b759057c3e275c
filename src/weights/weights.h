// The one place where a stored tensor becomes a weight that kernels read: its name, the check of its
// shape, slicing, reordering, its scales. Model files ask by canonical name and know nothing of files.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/seeded_hash.h"
#include "quant/weight.h"
#include "weights/source.h"

namespace ingot {

// How a weight is divided among ranks: by outputs, by inputs, by vocabulary rows, by experts, or not at all.
enum class Shard : uint8_t { kNone, kCols, kRows, kVocab, kExperts };

struct TakeOptions {
  Shard shard = Shard::kNone;
  // Only these rows of a stored matrix of `stored_rows` (q of a fused qkv). stored_rows 0: all of it.
  int64_t row_begin = 0, stored_rows = 0;
  // Stored [cols, rows]: turned around, which costs a copy in F32 unless the format is plain.
  bool transposed = false;
  // Rows are heads of q or k: read in order where the file keeps them in the order of interleaved rotation. 0: not
  // heads.
  int heads = 0;
  // Decoded to F32, whatever it is stored in: for small matrices whose products shall not be rounded.
  bool as_f32 = false;
};

enum class ExpertPart : uint8_t { kGate, kUp, kDown };

// How published files hold experts where all of a layer are one tensor. The names and the other forms are found.
struct ExpertForm {
  bool transposed = false;   // [E, K, N] instead of [E, N, K]
  bool interleaved = false;  // rows of gate and up in turn, instead of all of gate first
};

// The up-projection of latent attention (kv_b_proj), as the products of its heads read it.
struct UpProjection {
  Weight key;    // [heads · rank, nope]: of each head the rows that make keys, turned around
  Weight value;  // [heads · v_dim, rank]
};

class Weights {
 public:
  explicit Weights(std::unique_ptr<WeightSource> source, int rank = 0, int ranks = 1);

  bool has(const std::string& name) const { return source_->has(name); }

  // The matrix `name` of `rows` × `cols`. Throws Error where it is absent or of another shape.
  Weight take(const std::string& name, int64_t rows, int64_t cols, const TakeOptions& options = {});

  // The vector `name` of `n` values in F32, with `offset` added to each. `options` as for a matrix's rows.
  Weight vector(const std::string& name, int64_t n, float offset = 0, const TakeOptions& options = {});

  // `n` times 1, for norms that have no weights of their own. `name` is for dumps.
  Weight ones(const std::string& name, int64_t n);

  // Some rows of a matrix that was taken, where they lie. REQUIRES: whole heads, where its rows are.
  Weight rows_of(const Weight& matrix, int64_t first, int64_t count);
  // A copy of some columns of it. REQUIRES: they begin and end at borders of the format's blocks and of its scales.
  Weight columns_of(const Weight& matrix, int64_t first, int64_t count);
  // A copy of some blocks of `width` values of a vector, in this order.
  Weight blocks_of(const Weight& vector, int64_t width, std::span<const int32_t> blocks);
  // Some values of a vector, and for each of `blocks` equal blocks of it some of its own.
  Weight values_of(const Weight& vector, int64_t first, int64_t count, int64_t blocks = 1);

  // A layer's experts below `path`, `count` matrices of `rows` × `cols`. Stored as a tensor for each, as one tensor,
  // gate and up in one, each of them with scales beside it, or blocks of MXFP4 with their scales beside them.
  std::vector<Weight> experts(const std::string& path, ExpertPart part, int64_t count, int64_t rows, int64_t cols,
                              const ExpertForm& form = {});
  // Their biases, one behind the other, in F32.
  Weight expert_bias(const std::string& path, ExpertPart part, int64_t count, int64_t rows,
                     const ExpertForm& form = {});

  // Latent attention's `path`.kv_b_proj [heads · (nope + v_dim), rank], a head's keys before its values; or k_b_proj
  // [heads, rank, nope] and v_b_proj [heads, v_dim, rank] where the file has them so. Keys that must be turned around
  // keep a plain format and become F32 from others.
  UpProjection up_projection(const std::string& path, int heads, int64_t nope, int64_t v_dim, int64_t rank);

  // Accepts that `name` may be stored although nobody reads it (the head of a model that is tied all the same).
  void ignore(const std::string& name) { taken_.insert(name); }

  // Throws Error naming the stored weights that nobody took.
  void finish() const;

  int64_t taken_bytes() const { return taken_bytes_; }    // in the published formats, each weight once
  int64_t copied_bytes() const { return copied_bytes_; }  // memory beside the mapped files
  // Frees the copies of which `done` says that nobody reads them any more.
  void release(const std::function<bool(const std::byte*)>& done) {
    std::erase_if(memory_, [&](const std::unique_ptr<std::byte[]>& copy) { return done(copy.get()); });
    source_->release(done);
  }
  WeightSource& source() { return *source_; }

 private:
  const StoredWeight& find(const std::string& name, const std::vector<int64_t>& wanted);
  std::byte* allocate(int64_t bytes);
  void attach_scales(Weight& weight, const std::string& name, int64_t row_begin, int64_t stored_rows);
  // Makes the blocks of rows that share a scale as much smaller as it takes for one to begin at row `at`.
  void cut_scales(Weight& weight, int64_t at);
  void transpose(Weight& weight, const StoredWeight& stored);
  void align(Weight& weight);
  void decode(Weight& weight);
  struct Stack;
  std::vector<Weight> cut_stack(const Stack& stack, int64_t rows, int64_t cols);
  std::vector<Weight> turn_stack(const Stack& stack, int64_t rows, int64_t cols);
  void stack_scales(std::vector<Weight>& all, const Stack& stack, int64_t cols);
  std::vector<Weight> join_blocks(const Stack& stack, int64_t rows, int64_t cols);
  Weight stack(const std::string& name, int64_t heads, int64_t rows, int64_t cols);
  Weight rows_of_heads(const Weight& all, int64_t heads, int64_t first, int64_t rows);
  Weight turned_heads(const Weight& all, int64_t heads, int64_t rows);

  std::unique_ptr<WeightSource> source_;
  const int ranks_;
  SeededSet taken_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  int64_t taken_bytes_ = 0, copied_bytes_ = 0;
};

}  // namespace ingot
