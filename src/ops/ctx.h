// What every kernel is given: the step's batch, the worker pool, scratch memory. And what prepare()
// is given, once, when a program has its arena.
//
// An op is a struct with its tensors and parameters. Its folder declares
//   namespace ref { void run(const Op&, Ctx&); }      plain C++, shares no code with any other version
//   namespace cpu { void run(const Op&, Ctx&); }      the fast CPU version
// and, where something is chosen once, an overload of cpu::prepare(Op&, Prepare&).
// Op::each(f) names its tensors: f.in(t), f.out(t), f.inout(t), f.weight(w), f.alias(out, in) where out
// may share in's memory. Op::cost(shape) gives its bytes and flops. What else passes over a graph ask is in
// graph/traits.h, each with a default.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "ops/batch.h"
#include "tensor/tensor.h"

namespace ingot {

// How many rows of each kind a step has.
struct Shape {
  int64_t tokens = 0;
  int64_t logits = 0;

  int64_t rows(const Rows& r) const {
    switch (r.kind) {
      case RowKind::kTokens:
        return r.a * tokens + r.b;
      case RowKind::kLogits:
        return r.a * logits + r.b;
      case RowKind::kFixed:
        break;
    }
    return r.b;
  }
  int64_t count(const Tensor& t) const { return rows(t.rows) * t.cols; }
  double bytes(const Tensor& t) const { return static_cast<double>(count(t) * dtype_bytes(t.dtype)); }
};

// Memory traffic and arithmetic of one run, for the percent of the machine's limit.
struct Cost {
  double bytes = 0;
  double flops = 0;
};

// What a step reads of the KV cache: how much follows from no shape.
struct CacheUse {
  double rows = 0;       // of the step
  double positions = 0;  // that are read, each seq's once
  double pairs = 0;      // of a row and a position that it sees
};

struct Ctx {
  const Batch& batch;
  ThreadPool& pool;
  Shape shape;
  std::byte* scratch = nullptr;  // threads() pieces of scratch_bytes each, 64-byte aligned
  int64_t scratch_bytes = 0;
  std::byte* shared = nullptr;  // one piece for all threads, for one op at a time, 64-byte aligned

  int64_t rows(const Tensor& t) const { return shape.rows(t.rows); }
  template <class T>
  T* scratch_of(int thread) const {
    return reinterpret_cast<T*>(scratch + thread * scratch_bytes);
  }
};

class PackedStore;

struct Prepare {
  StepLimits limits;
  int threads = 1;
  ThreadPool* pool = nullptr;     // for what takes long
  PackedStore* packed = nullptr;  // where weights are packed; null: they stay as they are published
  int64_t scratch_bytes = 0;      // per thread, the largest that any op asked for
  int64_t shared_bytes = 0;       // once, the largest that any op asked for

  void need_scratch(int64_t bytes) { scratch_bytes = std::max(scratch_bytes, (bytes + 63) / 64 * 64); }
  void need_shared(int64_t bytes) { shared_bytes = std::max(shared_bytes, (bytes + 63) / 64 * 64); }
};

namespace cpu {
// Ops that choose nothing ahead of time.
template <class Op>
void prepare(Op&, Prepare&) {}
}  // namespace cpu

}  // namespace ingot
