// Step 4 of Sample, a block for each row; and the most likely tokens for logprobs.
#include "ops/sample/sample_kernels.cuh"

namespace ingot::cuda {
namespace {

// The mass of a token: exp(x) in units of 2^-43. Sums of up to 2^20 of them are exact, whatever their order.
constexpr float kUnits = 0x1p43f;

// Shared memory of a block: where the few tokens are listed that can be left, once it is known that there are few.
constexpr int kListed = 8192;
struct TruncateRoom {
  SelectRoom select;
  alignas(16) float logits[kListed];
  int32_t ids[kListed];
};

// What is left of a row: every step cuts more off. Each thread has the same.
struct Kept {
  const float* row;
  int n;
  bool wide;
  float max, temperature;
  const int32_t* ids = nullptr;  // of the tokens where they are a list
  float floor = -INFINITY;       // nothing below it is left
  Border likely{};               // of top-k and top-p
  bool has_typical = false;
  double mean = 0;  // of x
  Border typical{};
  bool has_least = false;
  double first_x = 0, least_x = 0;   // min-p
  uint64_t last_key = ~uint64_t{0};  // XTC: order keys above are gone

  __device__ double x_of(float logit) const {
    return (static_cast<double>(logit) - static_cast<double>(max)) / static_cast<double>(temperature);
  }
  __device__ Amount mass_of(float logit) const {
    return static_cast<Amount>(expf((logit - max) / temperature) * kUnits);
  }
  // Nearer to the mean is larger.
  __device__ uint64_t typical_key(float logit) const {
    return ~static_cast<uint64_t>(__double_as_longlong(fabs(x_of(logit) - mean)));
  }
  __device__ static double distance(uint64_t typical_key) {
    return __longlong_as_double(static_cast<long long>(~typical_key));
  }

  __device__ bool keeps(float logit, int i) const {
    if (!(logit >= floor) || logit == -INFINITY) return false;
    const uint32_t id = static_cast<uint32_t>(i);
    if (!likely.chooses(value_key(logit), id)) return false;
    if (has_typical && !typical.chooses(typical_key(logit), id)) return false;
    if (has_least && x_of(logit) - first_x < least_x) return false;
    return order_key(logit, i) <= last_key;
  }
  template <class F>
  __device__ void each(const F& f) const {
    each_of_row<1>(row, n, wide, [&](float logit, int i) {
      const int id = ids == nullptr ? i : ids[i];
      if (keeps(logit, id)) f(logit, id);
    });
  }
  __device__ Amount mass(SelectRoom& room) const {
    uint64_t sum = 0;
    each([&](float logit, int) { sum += mass_of(logit); });
    return block_sum_u64(sum, room.sums);
  }
  // The order key of the most likely.
  __device__ uint64_t top(SelectRoom& room) const {
    uint64_t best = 0;
    each([&](float logit, int i) {
      const uint64_t key = order_key(logit, i);
      best = key > best ? key : best;
    });
    return block_max_key(best, room.sums);
  }
};

// The least amount that is at least `share` of `total`, and not nothing.
__device__ Amount part_of(float share, Amount total) {
  const double wanted = ceil(static_cast<double>(share) * static_cast<double>(total));
  return wanted >= 1 ? static_cast<Amount>(wanted) : 1;
}

// The first three steps are one: the fewest tokens of some order that have a wanted amount.
enum class Cut : int { kTopK, kTypical, kTopP };  // in their order

// Tokens below the returned logit are not among the k most likely.
__device__ float top_k_floor(SelectRoom& room, const Kept& kept, int k) {
  float largest = -INFINITY;
  if (k <= kSelectThreads) kept.each([&](float logit, int) { largest = fmaxf(largest, logit); });
  return reached_by(room, k, largest);
}

// The logit of x, or a little less.
__device__ float floor_at(const Kept& kept, double x) {
  const double away = static_cast<double>(kept.temperature) * x, max = kept.max;
  return static_cast<float>(max + away - 1e-6 * (fabs(max) + fabs(away)));
}

// All tokens with less than this logit together have less than 1 - top_p of the mass: the others reach top_p without
// them.
__device__ float top_p_floor(const Kept& kept, float share, Amount total, int vocabulary) {
  const double weight = (1.0 - static_cast<double>(share)) * static_cast<double>(total) / kUnits / vocabulary;
  if (!(weight > 0)) return -INFINITY;
  return floor_at(kept, log(weight));
}

// Sets the mean of x. Returns how far from it a token may be, within reason: at 32 there is no mass to speak of.
__device__ double find_mean(SelectRoom& room, Kept& kept, Amount total, float least) {
  uint64_t weighted = 0;  // exp(x) · -x is below 0.37
  kept.each([&](float logit, int) {
    weighted += static_cast<uint64_t>(static_cast<double>(kept.mass_of(logit)) * -kept.x_of(logit));
  });
  weighted = block_sum_u64(weighted, room.sums);
  kept.mean = -static_cast<double>(weighted) / static_cast<double>(total);
  return fmax(-kept.mean, kept.mean - fmax(kept.x_of(least), -32.0));
}

// Before the first step: a logit below which no token will be left. With top-k only its own: what it leaves is what
// top-p's share is of. -inf where nothing is known.
__device__ float first_floor(SelectRoom& room, const Kept& kept, const SampleArgs& a) {
  if (a.top_k > 0 && a.top_k < kept.n) return top_k_floor(room, kept, a.top_k);
  if (a.typical_p < 1) return -INFINITY;
  // The most likely is not cut off, so that the mass is at least 1.
  float floor = -INFINITY;
  if (a.top_p < 1) floor = top_p_floor(kept, a.top_p, static_cast<Amount>(kUnits), kept.n);
  if (a.min_p > 0) floor = fmaxf(floor, floor_at(kept, fmin(log(static_cast<double>(a.min_p)), 0.0)));
  return floor;
}

// Lists the tokens that reach the first floor, where they are few enough. Returns the mass of the whole row where top-p
// comes first, or 0.
__device__ Amount list_kept(TruncateRoom& room, Kept& kept, const SampleArgs& a) {
  constexpr int kMost = 4 * kListed / kSelectThreads;  // of one thread: more are no few, and counting them takes time
  SelectRoom& select = room.select;
  const bool has_mass = (a.top_k <= 0 || a.top_k >= kept.n) && a.typical_p >= 1 && a.top_p < 1;
  const float floor = first_floor(select, kept, a);
  if (floor == -INFINITY) return 0;
  __syncthreads();
  if (threadIdx.x == 0) select.gathered = 0;
  __syncthreads();
  uint64_t sum = 0;
  int mine = 0;
  kept.each([&](float logit, int i) {
    if (has_mass) sum += kept.mass_of(logit);
    if (logit < floor || mine > kMost) return;
    const uint32_t place = atomicAdd(&select.gathered, ++mine > kMost ? kListed + 1u : 1u);
    if (place >= kListed) return;
    room.logits[place] = logit;
    room.ids[place] = i;
  });
  sum = block_sum_u64(sum, select.sums);
  const uint32_t listed = select.gathered;
  kept.floor = floor;
  if (listed <= kListed) {
    kept.row = room.logits;
    kept.ids = room.ids;
    kept.n = static_cast<int>(listed);
    kept.wide = true;
  } else if (has_mass) {
    kept.floor = fmaxf(floor, top_p_floor(kept, a.top_p, sum, kept.n));
  }
  return sum;
}

// `least`: the row's least finite logit. `mass`: of what is left, 0 where it is not known.
__device__ void apply_cut(SelectRoom& room, Kept& kept, Cut cut, const SampleArgs& a, float least, Amount mass) {
  Amount wanted = static_cast<Amount>(a.top_k);
  float first = kept.max;
  if (cut != Cut::kTopK) {
    const Amount total = mass > 0 ? mass : kept.mass(room);
    wanted = part_of(cut == Cut::kTopP ? a.top_p : a.typical_p, total);
    if (cut == Cut::kTypical) {
      first = 0;
      least = static_cast<float>(-find_mean(room, kept, total, fmaxf(least, kept.floor)));
    }
  }
  const bool typical = cut == Cut::kTypical;
  const Bins bins(first, typical ? least : fmaxf(kept.floor, least));
  const auto each = [&](const auto& f) {
    kept.each([&](float logit, int i) {
      f(typical ? kept.typical_key(logit) : value_key(logit), static_cast<uint32_t>(i),
        cut == Cut::kTopK ? 1 : kept.mass_of(logit));
    });
  };
  const auto coarse = [&](uint64_t key) {
    return bins.of(typical ? static_cast<float>(-Kept::distance(key)) : key_value(key));
  };
  const Border border = find_border(room, wanted, typical ? 0 : 32, each, coarse);
  if (typical) {
    kept.typical = border;
    kept.has_typical = true;
  } else if (!kept.likely.chooses(border.key, border.id)) {
    return;  // top-k has cut more
  } else {
    kept.likely = border;
  }
}

__device__ void cut_top_choices(SelectRoom& room, Kept& kept, const SampleArgs& a) {
  const CounterRng rng(a.seed, a.choice, a.position, Draw::kXtc);
  if (rng.uniform(0) >= static_cast<double>(a.xtc_probability)) return;
  const double bar = static_cast<double>(a.xtc_threshold) * static_cast<double>(kept.mass(room));
  uint64_t least = 0;  // its complement: the least likely above the bar
  kept.each([&](float logit, int i) {
    if (static_cast<double>(kept.mass_of(logit)) < bar) return;
    const uint64_t key = ~order_key(logit, i);
    least = key > least ? key : least;
  });
  least = block_max_key(least, room.sums);
  if (least != 0) kept.last_key = ~least;
}

__global__ void __launch_bounds__(kSelectThreads, 1) truncate(SampleMemory m) {
  __shared__ double scores[32];
  __shared__ int32_t ids[32];
  TruncateRoom& all = *shared_memory<TruncateRoom>();
  SelectRoom& room = all.select;
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const SampleArgs& a = m.args[r];
  const Scanned& scanned = m.scanned[r];
  if (a.path != SampleArgs::Path::kTruncate || scanned.unusable != 0) return;
  Kept kept{m.row(r), m.vocabulary, m.row_wide(r), key_value(scanned.best), a.temperature};
  const float least = scanned.least;
  const Amount mass = list_kept(all, kept, a);
  for (int step = 0; step < 3; ++step) {
    const Cut cut = static_cast<Cut>(step);
    const bool asked = cut == Cut::kTopK      ? a.top_k > 0 && a.top_k < m.vocabulary
                       : cut == Cut::kTypical ? a.typical_p < 1
                                              : a.top_p < 1;
    if (asked) apply_cut(room, kept, cut, a, least, cut == Cut::kTopP && a.typical_p >= 1 ? mass : 0);
  }
  if (a.min_p > 0) {
    kept.first_x = kept.x_of(key_value(kept.top(room)));
    kept.least_x = fmin(log(static_cast<double>(a.min_p)), 0.0);
    kept.has_least = true;
  }
  if (a.xtc_probability > 0) cut_top_choices(room, kept, a);
  const uint64_t top = kept.top(room);
  Drawer drawer(a, kept.max);
  drawer.begin(key_value(top), key_index(top));
  kept.each([&](float logit, int i) { drawer.consider(logit, i); });
  __syncthreads();
  block_best(drawer, scores, ids);
  if (threadIdx.x == 0) m.finish(r, drawer.token);
}

// The most likely tokens of the model's own distribution, for rows that want some.
__global__ void __launch_bounds__(kSelectThreads, 1) tops(SampleMemory m) {
  SelectRoom& room = *shared_memory<SelectRoom>();
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const int k = m.args[r].n_top;
  if (k <= 0 || m.scanned[r].unusable != 0) return;
  TokenLogprob* out = m.tops + m.args[r].top_begin;
  // The logits first, in any order; then sorted where they lie.
  top_of_row(room, m.raw(r), m.vocabulary, m.wide, k, [&](uint32_t place, float x, int i) { out[place] = {i, x}; });
  const auto key = [&](int i) { return order_key(out[i].logprob, out[i].token); };
  sort_block(
      k, [&](int i, int j) { return key(i) > key(j); },
      [&](int i, int j) {
        const TokenLogprob x = out[i];
        out[i] = out[j];
        out[j] = x;
      });
  const double log_sum = m.scanned[r].log_sum;
  for (int i = static_cast<int>(threadIdx.x); i < k; i += kSelectThreads)
    out[i].logprob = static_cast<float>(static_cast<double>(out[i].logprob) - log_sum);
}

}  // namespace

void launch_truncate(const Ctx& ctx, const SampleMemory& m, int64_t rows) {
  launch(ctx, truncate, {dim3(static_cast<unsigned>(rows)), dim3(kSelectThreads), sizeof(TruncateRoom)}, m);
}

void launch_tops(const Ctx& ctx, const SampleMemory& m, int64_t rows) {
  launch(ctx, tops, {dim3(static_cast<unsigned>(rows)), dim3(kSelectThreads), sizeof(SelectRoom)}, m);
}

}  // namespace ingot::cuda
