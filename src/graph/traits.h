// What general passes ask of an op: they name none. An op answers by a member of the same name; where it has none it
// gets the answer that is right for most.
#pragma once

#include "graph/graph.h"

namespace ingot {

// Whether a row of what it writes depends on the same row of what it reads alone, so that it may run over some of the
// rows. Default: no.
inline bool by_row(const Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.by_row(); }) return o.by_row();
        return false;
      },
      op);
}

// The parallel regions of a run. Default: one.
inline int regions(const Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.regions(); }) return o.regions();
        return 1;
      },
      op);
}

// f(weight, packed) for each matrix of which a run reads all; those of one op shall lie one behind the other. `packed`
// is what is read in place of the published form, null where that is read. Default: none.
template <class F>
void each_matrix(const Op& op, F&& f) {
  std::visit(
      [&](const auto& o) {
        if constexpr (requires { o.each_matrix(f); }) o.each_matrix(f);
      },
      op);
}

inline bool has_matrix(const Op& op) {
  bool any = false;
  each_matrix(op, [&](const Weight&, const PackedWeight*) { any = true; });
  return any;
}

// Whether a device packs matrices of BF16 too, and reads them no more as they are published. Default: those of other
// formats alone.
inline bool packs_bf16(const Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.packs_bf16(); }) return o.packs_bf16();
        return false;
      },
      op);
}

// The part of its matrices that a run of `rows` rows reads: of experts, those that some row meets, where all are as
// likely. Default: all.
inline double matrix_share(const Op& op, double rows) {
  return std::visit(
      [=](const auto& o) {
        if constexpr (requires { o.matrix_share(rows); }) return o.matrix_share(rows);
        return 1.0;
      },
      op);
}

// f(weight) for each table of which a run reads a row for each of its own. Default: none.
template <class F>
void each_table(const Op& op, F&& f) {
  std::visit(
      [&](const auto& o) {
        if constexpr (requires { o.each_table(f); }) o.each_table(f);
      },
      op);
}

// f(layer) for each layer of the KV cache that it reads or writes. Default: none.
template <class F>
void each_kv(Op& op, F&& f) {
  std::visit(
      [&](auto& o) {
        if constexpr (requires { o.each_kv(f); }) o.each_kv(f);
      },
      op);
}

// f.may(tensor) for what may be bf16 without a loss, since it is rounded so anyway; f.may_with(x, out) for an x that
// may where `out` is. Default: all is f32.
template <class F>
void each_bf16(const Op& op, F&& f) {
  std::visit(
      [&](const auto& o) {
        if constexpr (requires { o.each_bf16(f); }) o.each_bf16(f);
      },
      op);
}

// What a run reads of the KV cache, and computes with it, beside cost(). Default: nothing.
inline Cost cache_cost(const Op& op, const CacheUse& use) {
  return std::visit(
      [&](const auto& o) {
        if constexpr (requires { o.cache_cost(use); }) return o.cache_cost(use);
        return Cost{};
      },
      op);
}

}  // namespace ingot
