// Latent attention in absorbed form, by the ops that models are made of, against the expanded form computed plainly:
// every head's keys and values are made of the latent, then it is ordinary attention.
#include "ops/attention/attention.h"
#include "ops/head_linear/head_linear.h"
#include "ops/kv_write/kv_write.h"
#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using namespace test;

struct Sizes {
  int heads, nope, rope, v_dim, rank, rows;
};

// What a test holds: rows [T] of one seq, the first position being 0.
struct Inputs {
  Sizes s;
  Random random{11};
  TestWeight keys, values;  // [heads · rank, nope] and [heads · v_dim, rank]
  Buffer q, latent, rotary;

  explicit Inputs(const Sizes& sizes)
      : s(sizes),
        keys(random, Format::kF32, int64_t{s.heads} * s.rank, s.nope, 0.2f),
        values(random, Format::kF32, int64_t{s.heads} * s.v_dim, s.rank, 0.2f),
        q(s.rows, int64_t{s.heads} * (s.nope + s.rope)),
        latent(s.rows, s.rank),
        rotary(s.rows, s.rope) {
    for (Buffer* b : {&q, &latent, &rotary}) b->fill([&] { return random.normal(); });
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(s.nope + s.rope)); }
};

std::vector<float> absorbed(Inputs& in, int threads) {
  const Sizes& s = in.s;
  const Batch batch = rows_batch(s.rows);
  KvLayer kv;
  kv.group = 0;
  kv.kv_heads = 1;
  kv.k_dim = s.rope;
  kv.v_dim = s.rank;
  kv.page_rows = 16;
  kv.latent = true;
  const auto slots = static_cast<int64_t>(batch.groups[0].page_table.size()) * kv.page_rows;
  std::vector<std::byte> k(static_cast<size_t>(slots * kv.k_bytes())), v(static_cast<size_t>(slots * kv.v_bytes()));
  kv.k = k.data();
  kv.v = v.data();
  run_cpu(KvWrite{in.rotary.tensor(), in.latent.tensor(), kv}, batch, threads);
  Buffer query(s.rows, int64_t{s.heads} * (s.rank + s.rope)), read(s.rows, int64_t{s.heads} * s.rank);
  Buffer out(s.rows, int64_t{s.heads} * s.v_dim);
  run_cpu(
      HeadLinear{
          .x = in.q.tensor(), .weight = in.keys.weight(), .out = query.tensor(), .heads = s.heads, .tail = s.rope},
      batch, threads);
  run_cpu(
      Attention{
          .q = query.tensor(), .out = read.tensor(), .kv = kv, .heads = s.heads, .scale = in.scale(), .sinks = {}},
      batch, threads);
  run_cpu(HeadLinear{.x = read.tensor(), .weight = in.values.weight(), .out = out.tensor(), .heads = s.heads}, batch,
          threads);
  return out.values();
}

// Row t of head h in float64.
std::vector<double> expanded(Inputs& in, int t, int h) {
  const Sizes& s = in.s;
  std::vector<double> scores;
  double sum = 0;
  for (int p = 0; p <= t; ++p) {
    double score = 0;
    for (int i = 0; i < s.nope; ++i) {
      double key = 0;
      for (int c = 0; c < s.rank; ++c)
        key += static_cast<double>(in.keys.row(int64_t{h} * s.rank + c)[static_cast<size_t>(i)]) * in.latent.at(p, c);
      score += key * in.q.at(t, h * (s.nope + s.rope) + i);
    }
    for (int i = 0; i < s.rope; ++i)
      score += static_cast<double>(in.q.at(t, h * (s.nope + s.rope) + s.nope + i)) * in.rotary.at(p, i);
    scores.push_back(std::exp(score * in.scale()));
    sum += scores.back();
  }
  std::vector<double> out(static_cast<size_t>(s.v_dim));
  for (int j = 0; j < s.v_dim; ++j) {
    const std::vector<float> row = in.values.row(int64_t{h} * s.v_dim + j);
    for (int p = 0; p <= t; ++p) {
      double value = 0;
      for (int c = 0; c < s.rank; ++c) value += static_cast<double>(row[static_cast<size_t>(c)]) * in.latent.at(p, c);
      out[static_cast<size_t>(j)] += scores[static_cast<size_t>(p)] / sum * value;
    }
  }
  return out;
}

TEST(LatentForm, AbsorbedIsExpanded) {
  for (const Sizes& s : {Sizes{4, 16, 8, 16, 24, 20}, Sizes{2, 12, 6, 20, 32, 70}}) {
    Inputs in(s);
    const std::vector<float> got = absorbed(in, 1);
    double largest = 0;
    for (const float x : got) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    for (const int t : {0, 1, s.rows / 2, s.rows - 1}) {
      for (int h = 0; h < s.heads; ++h) {
        const std::vector<double> want = expanded(in, t, h);
        for (int j = 0; j < s.v_dim; ++j)
          EXPECT_NEAR(got[static_cast<size_t>((t * s.heads + h) * s.v_dim + j)], want[static_cast<size_t>(j)],
                      1e-4 * largest)
              << "row " << t << ", head " << h << ", column " << j;
      }
    }
    expect_same_bits(absorbed(in, 3), got, "threads");
  }
}

}  // namespace
}  // namespace ingot
