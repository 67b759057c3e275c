#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "ops/counter_rng.h"
#include "ops/sample/argmax_cpu.h"
#include "ops/sample/sample.h"
#include "ops/sample/sample_adjust_cpu.h"
#include "ops/top_k/top_k_cpu.h"

namespace ingot::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Candidate {
  double x;       // (logit - largest logit) / temperature
  double weight;  // exp(x)
  float logit;
  int32_t id;
};

// One thread's scratch for a vocabulary of n.
struct Scratch {
  Candidate* candidates;  // [n]
  float* logits;          // [n]
  int32_t* counts;        // [n]

  static int64_t bytes(int64_t n) {
    return n * static_cast<int64_t>(sizeof(Candidate) + sizeof(float) + sizeof(int32_t));
  }
  Scratch(std::byte* memory, int64_t n)
      : candidates(reinterpret_cast<Candidate*>(memory)),
        logits(reinterpret_cast<float*>(candidates + n)),
        counts(reinterpret_cast<int32_t*>(logits + n)) {}
};

// Step 4 and 5 of one row: the candidates left so far, in any order.
class Chooser {
 public:
  // REQUIRES: `best` is the row's argmax, its logit finite.
  Chooser(const float* logits, int64_t n, int32_t best, const SampleRow& row, Candidate* memory)
      : logits_(logits), n_(n), best_(best), row_(row), p_(*row.params), max_(logits[best]), kept_(memory, 0) {}

  int32_t choose() {
    const bool all = (p_.top_k <= 0 || p_.top_k >= n_) && p_.typical_p >= 1 && p_.top_p >= 1 && p_.min_p <= 0 &&
                     p_.xtc_probability <= 0;
    if (all) {
      return draw(n_, best_, [this](int64_t i) { return Candidate{x_of(logits_[i]), 0, 0, static_cast<int32_t>(i)}; });
    }
    gather();
    if (p_.typical_p < 1) keep_typical();
    if (p_.top_p < 1) keep_top_p();
    if (p_.min_p > 0) keep_min_p();
    if (p_.xtc_probability > 0) exclude_top_choices();
    return draw(std::ssize(kept_), 0, [this](int64_t i) { return kept_[static_cast<size_t>(i)]; });
  }

 private:
  double x_of(float logit) const { return (logit - max_) / p_.temperature; }

  void push(float logit, int32_t id) {
    const double x = x_of(logit);
    Candidate* end = kept_.data() + kept_.size();
    *end = {x, std::exp(x), logit, id};
    kept_ = {kept_.data(), kept_.size() + 1};
  }

  // The first candidates: few of the vocabulary wherever a bound allows it.
  void gather() {
    if (p_.top_k > 0 && p_.top_k < n_) {
      std::vector<TopEntry> top;
      top_k_row(logits_, n_, p_.top_k, top);
      for (const TopEntry& e : top)
        if (e.value > -kInf) push(e.value, e.id);
      total_ = mass();
    } else if (p_.typical_p >= 1 && p_.top_p < 1) {
      total_ = 0;
      for (int64_t i = 0; i < n_; ++i) total_ += std::exp(x_of(logits_[i]));
      // All tokens with less than this weight together have less than 1 - top_p of the mass, so the others
      // reach top_p without them.
      push_above(std::log((1 - std::max(0.0, static_cast<double>(p_.top_p))) * total_ / static_cast<double>(n_)));
    } else if (p_.typical_p >= 1 && p_.min_p > 0) {
      push_above(least_x());
    } else {
      push_above(-std::numeric_limits<double>::infinity());
      total_ = mass();
    }
  }

  // The tokens with x above `bound`, and perhaps some a little below it.
  void push_above(double bound) {
    const double away = static_cast<double>(p_.temperature) * bound;
    const float cut = static_cast<float>(max_ + away - 1e-6 * (std::fabs(max_) + std::fabs(away)));
    for (int64_t i = 0; i < n_; ++i)
      if (logits_[i] >= cut && logits_[i] > -kInf) push(logits_[i], static_cast<int32_t>(i));
  }

  double mass() const {
    double sum = 0;
    for (const Candidate& c : kept_) sum += c.weight;
    return sum;
  }

  // Keeps the first in the order `before`, the fewest that reach `wanted`. Halves the range that holds the
  // last of them until it is short enough to sort: linear time.
  template <class Before>
  void keep_until(double wanted, const Before& before) {
    auto low = kept_.begin(), high = kept_.end();  // all before `low` are kept, none from `high` on
    double sum = 0;                                // of all before `low`
    while (high - low > 64) {
      const auto middle = low + (high - low) / 2;
      std::nth_element(low, middle, high, before);
      double half = 0;
      for (auto c = low; c != middle; ++c) half += c->weight;
      if (sum + half >= wanted) {
        high = middle;
      } else {
        sum += half;
        low = middle;
      }
    }
    std::sort(low, high, before);
    while (low != high) {
      sum += low->weight;
      ++low;
      if (sum >= wanted) break;
    }
    kept_ = kept_.first(static_cast<size_t>(low - kept_.begin()));
    total_ = mass();
  }

  void keep_typical() {
    // Surprise is log(mass) - x, and entropy its mean: their distance is that of x from its own mean.
    double mean = 0;
    for (const Candidate& c : kept_) mean += c.weight / total_ * c.x;
    keep_until(p_.typical_p * total_, [mean](const Candidate& a, const Candidate& b) {
      const double to_a = std::fabs(a.x - mean), to_b = std::fabs(b.x - mean);
      return to_a != to_b ? to_a < to_b : a.id < b.id;
    });
  }

  void keep_top_p() {
    keep_until(p_.top_p * total_, [](const Candidate& a, const Candidate& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
  }

  template <class Drop>
  void drop_if(const Drop& drop) {
    const auto end = std::remove_if(kept_.begin(), kept_.end(), drop);
    kept_ = kept_.first(static_cast<size_t>(end - kept_.begin()));
    total_ = mass();
  }

  // How far below the largest x min-p lets a candidate be.
  double least_x() const { return std::min(std::log(static_cast<double>(p_.min_p)), 0.0); }

  void keep_min_p() {
    double largest = -std::numeric_limits<double>::infinity();
    for (const Candidate& c : kept_) largest = std::max(largest, c.x);
    const double least = least_x();
    drop_if([=](const Candidate& c) { return c.x - largest < least; });
  }

  void exclude_top_choices() {
    const CounterRng rng(p_.seed, row_.choice, row_.position, Draw::kXtc);
    if (rng.uniform(0) >= p_.xtc_probability) return;
    const double bar = p_.xtc_threshold * total_;
    const Candidate* least = nullptr;  // the least likely of those above the bar
    for (const Candidate& c : kept_) {
      if (c.weight < bar) continue;
      if (!least || c.logit < least->logit || (c.logit == least->logit && c.id > least->id)) least = &c;
    }
    if (!least) return;
    drop_if([bar, id = least->id](const Candidate& c) { return c.weight >= bar && c.id != id; });
  }

  // The candidate with the largest x + noise of `n`, `first` looked at before the others: a likely one, so
  // that most of the others are refused by their random bits alone, without a logarithm.
  template <class At>
  int32_t draw(int64_t n, int64_t first, const At& at) const {
    const CounterRng rng(p_.seed, row_.choice, row_.position, Draw::kToken);
    double best_score = -std::numeric_limits<double>::infinity();
    int32_t best = -1;
    const auto consider = [&](const Candidate& c) {
      const uint64_t bits = rng.bits(static_cast<uint32_t>(c.id));
      // To win by noise above d, -log(u) must be below exp(-d) <= 2^-k for k = floor(d / log 2), hence
      // 1 - u too: the upper k bits of u are ones. 1e-9 outweighs the rounding of d.
      constexpr double kLog2e = 1.4426950408889634;
      const double k = std::min((best_score - c.x) * kLog2e - 1e-9, 60.0);
      if (k >= 1 && std::countl_one(bits) < static_cast<int>(k)) return;
      const double score = c.x - std::log(-std::log(CounterRng::unit(bits)));
      if (score > best_score || (score == best_score && c.id < best)) {
        best_score = score;
        best = c.id;
      }
    };
    consider(at(first));
    for (int64_t i = 0; i < n; ++i) consider(at(i));
    return best;
  }

  const float* logits_;
  const int64_t n_;
  const int32_t best_;
  const SampleRow& row_;
  const SamplingParams& p_;
  const double max_;
  std::span<Candidate> kept_;
  double total_ = 0;  // mass of what the step before left
};

void add_logprobs(SampleResult& result, const float* raw, int64_t n, int count) {
  const double largest = raw[argmax_row(raw, n)];
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(raw[i] - largest);
  const double log_sum = largest + std::log(sum);
  result.logprob = static_cast<float>(raw[result.token] - log_sum);
  std::vector<TopEntry> top;
  top_k_row(raw, n, std::min<int64_t>(count, n), top);
  for (const TopEntry& e : top) result.top.push_back({e.id, static_cast<float>(e.value - log_sum)});
}

SampleResult sample_row(const float* raw, int64_t n, const SampleRow& row, const Scratch& scratch) {
  SampleResult result;
  const float* logits = raw;
  RowLargest best = largest_of_row(raw, n);
  if (!best.below_inf) return result;
  if (adjusts_logits(row)) {
    std::copy(raw, raw + n, scratch.logits);
    adjust_logits(scratch.logits, n, row, scratch.counts);
    logits = scratch.logits;
    best = largest_of_row(logits, n);
    if (!best.below_inf) return result;
  }
  if (logits[best.id] == -kInf) return result;
  result.token = best.id;
  if (row.params->temperature > 0) result.token = Chooser(logits, n, best.id, row, scratch.candidates).choose();
  if (row.params->n_logprobs >= 0) add_logprobs(result, raw, n, row.params->n_logprobs);
  return result;
}

// Nothing but the largest logit is asked for.
bool is_plain(const SampleRow& row) {
  return !(row.params->temperature > 0) && row.params->n_logprobs < 0 && !adjusts_logits(row);
}

// sample_row of a plain row, by all threads: the head's outputs lie in the caches of those that wrote them, and one
// thread alone takes 40 us for 49,152 of them while the others wait.
int32_t largest_by_all(const float* logits, int64_t n, ThreadPool& pool) {
  constexpr int64_t kPieces = 64;
  std::array<RowLargest, kPieces> found;
  const int64_t size = std::max<int64_t>(4096, (n + kPieces - 1) / kPieces), pieces = (n + size - 1) / size;
  pool.run(pieces, [&](int64_t i, int) {
    const int64_t begin = i * size, length = std::min(size, n - begin);
    RowLargest& piece = found[static_cast<size_t>(i)];
    piece = largest_of_row(logits + begin, length);
    piece.id += static_cast<int32_t>(begin);
  });
  const auto all = std::span(found).first(static_cast<size_t>(pieces));
  if (!std::ranges::all_of(all, &RowLargest::below_inf)) return -1;
  int32_t best = all[0].id;
  for (const RowLargest& piece : all)
    if (logits[piece.id] > logits[best]) best = piece.id;
  return logits[best] == -kInf ? -1 : best;
}

}  // namespace

void prepare(Sample& op, Prepare& p) { p.need_scratch(Scratch::bytes(op.logits.cols)); }

void run(const Sample& op, Ctx& ctx) {
  const int64_t n = op.logits.cols;
  CHECK(op.rows.size() == op.results.size(), "{} rows, {} results", op.rows.size(), op.results.size());
  CHECK(ctx.scratch_bytes >= Scratch::bytes(n), "{} bytes of scratch", ctx.scratch_bytes);
  const auto one = [&](int64_t r, int thread) {
    const Scratch scratch(ctx.scratch_of<std::byte>(thread), n);
    op.results[static_cast<size_t>(r)] = sample_row(op.logits.f32(r), n, op.rows[static_cast<size_t>(r)], scratch);
  };
  // A greedy row reads its logits twice and is done: a few thousand of them are quicker than the workers.
  constexpr int64_t kWorthwhile = 32 * 1024;
  const int64_t rows = std::ssize(op.rows);
  if (rows == 1 && n >= kWorthwhile && is_plain(op.rows[0])) {
    op.results[0] = {.token = largest_by_all(op.logits.f32(0), n, ctx.pool), .logprob = 0, .top = {}};
  } else if (rows * n < kWorthwhile) {
    for (int64_t r = 0; r < rows; ++r) one(r, 0);
  } else {
    ctx.pool.run(rows, one);
  }
}

}  // namespace ingot::cpu
