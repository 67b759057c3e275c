#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/check.h"
#include "comm/comm.h"
#include "ops/expert_combine/expert_combine.h"
#include "ops/row_loop.h"

namespace ingot::cpu {
namespace {

constexpr size_t kMostRanks = 64;
// Up to so many bytes of places each rank gets all of them: 8 rows of 8 experts of width 1024. What it gets too much
// costs less than a second meeting.
constexpr int64_t kWhole = 256 << 10;

using Counts = std::array<int64_t, kMostRanks>;

struct Run {
  const ExpertCombine& op;
  Comm& comm;
  Ctx& ctx;
  int64_t rows, n;  // of out
  size_t ranks, own;
  Counts count{}, begin{};  // places of each rank, and of those before it
  int64_t* at;              // [T · k] where each place lies, where all lie by rank
  float* given;             // [T · k · n] this rank's
  float* got;               // [T · k · n] all

  // The columns of a rank.
  int64_t column(size_t r) const { return n * static_cast<int64_t>(r) / static_cast<int64_t>(ranks); }
  int64_t columns(size_t r) const { return column(r + 1) - column(r); }
};

// Some columns of all places, `width` of each, become a row's sums.
void add_up(const Run& run, int64_t first, int64_t width) {
  const int64_t used = run.op.used();
  split_rows(run.ctx, run.rows, used * width, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* out = run.op.out.f32(t) + first;
      for (int64_t j = 0; j < used; ++j) {
        const float* from = run.got + run.at[t * used + j] * width;
        const float w = run.op.weights ? run.op.weights.f32(t)[j] : 1;
        if (j == 0) {
          for (int64_t i = 0; i < width; ++i) out[i] = w * from[i];
        } else {
          for (int64_t i = 0; i < width; ++i) out[i] += w * from[i];
        }
      }
    }
  });
}

// This rank's places, in order, some columns of each.
float* take_own(const Run& run, int64_t first, int64_t width, float* to) {
  const int64_t used = run.op.used();
  for (int64_t t = 0; t < run.rows; ++t)
    for (int64_t j = 0; j < used; ++j) {
      if (static_cast<size_t>(run.op.ranks.row<int32_t>(t)[j]) != run.own) continue;
      std::memcpy(to, run.op.places.f32(t) + j * run.n + first, static_cast<size_t>(width) * sizeof(float));
      to += width;
    }
  return to;
}

void combine_whole(const Run& run) {
  take_own(run, 0, run.n, run.got + run.begin[run.own] * run.n);
  std::array<CommBlock, kMostRanks> parts;
  for (size_t r = 0; r < run.ranks; ++r)
    parts[r] = {.data = reinterpret_cast<std::byte*>(run.got + run.begin[r] * run.n),
                .bytes = run.count[r] * run.n * static_cast<int64_t>(sizeof(float))};
  run.comm.all_gather(std::span<const CommBlock>(parts).first(run.ranks));
  add_up(run, 0, run.n);
}

void combine_columns(const Run& run) {
  std::array<std::span<const std::byte>, kMostRanks> give;
  std::array<std::span<std::byte>, kMostRanks> got;
  std::array<CommBlock, kMostRanks> sums;
  float* next = run.given;
  const int64_t width = run.columns(run.own);
  for (size_t r = 0; r < run.ranks; ++r) {
    const float* end = take_own(run, run.column(r), run.columns(r), next);
    give[r] = std::as_bytes(std::span(next, static_cast<size_t>(end - next)));
    next += end - next;
    got[r] =
        std::as_writable_bytes(std::span(run.got + run.begin[r] * width, static_cast<size_t>(run.count[r] * width)));
    sums[r] = {.data = reinterpret_cast<std::byte*>(run.op.out.f32(0) + run.column(r)),
               .rows = run.rows,
               .bytes = run.columns(r) * static_cast<int64_t>(sizeof(float)),
               .pitch = run.op.out.stride * static_cast<int64_t>(sizeof(float))};
  }
  run.comm.all_to_all(std::span<const std::span<const std::byte>>(give).first(run.ranks),
                      std::span<const std::span<std::byte>>(got).first(run.ranks));
  add_up(run, run.column(run.own), width);
  run.comm.all_gather(std::span<const CommBlock>(sums).first(run.ranks));
}

int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void prepare(ExpertCombine& op, Prepare& p) {
  CHECK(op.places.stride == op.places.cols, "places with gaps");
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.out.rows);
  const int64_t places = rows * op.used();
  p.need_shared(round_up(places * static_cast<int64_t>(sizeof(int64_t))) +
                2 * round_up(places * op.out.cols * static_cast<int64_t>(sizeof(float))));
}

void run(const ExpertCombine& op, Ctx& ctx) {
  CHECK(op.comm != nullptr && op.comm->ranks() <= static_cast<int>(kMostRanks), "no ranks");
  const int64_t rows = ctx.rows(op.out), used = op.used();
  if (rows == 0) return;
  Run run{.op = op,
          .comm = *op.comm,
          .ctx = ctx,
          .rows = rows,
          .n = op.out.cols,
          .ranks = static_cast<size_t>(op.comm->ranks()),
          .own = static_cast<size_t>(op.comm->rank()),
          .at = reinterpret_cast<int64_t*>(ctx.shared),
          .given = nullptr,
          .got = nullptr};
  const int64_t bytes = round_up(rows * used * run.n * static_cast<int64_t>(sizeof(float)));
  run.given = reinterpret_cast<float*>(ctx.shared + round_up(rows * used * static_cast<int64_t>(sizeof(int64_t))));
  run.got = run.given + bytes / static_cast<int64_t>(sizeof(float));
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < used; ++j) {
      const auto r = static_cast<size_t>(op.ranks.row<int32_t>(t)[j]);
      CHECK(r < run.ranks, "rank {} of {}", r, run.ranks);
      run.at[t * used + j] = run.count[r]++;
    }
  for (size_t r = 1; r < run.ranks; ++r) run.begin[r] = run.begin[r - 1] + run.count[r - 1];
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < used; ++j)
      run.at[t * used + j] += run.begin[static_cast<size_t>(op.ranks.row<int32_t>(t)[j])];
  if (bytes <= kWhole)
    combine_whole(run);
  else
    combine_columns(run);
}

}  // namespace ingot::cpu
