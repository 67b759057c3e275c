#include <cstring>
#include <deque>

#include "base/check.h"
#include "ops/cuda/ops.h"
#include "ops/sample/sample_adjust_cpu.h"
#include "ops/sample/sample_cuda.h"
#include "ops/sample/sample_kernels.cuh"

namespace ingot::cuda {
namespace {

// A step that needs more than was made ahead waits until the device is idle.
constexpr int64_t kUsualChanges = 1024;  // of a row
constexpr int64_t kUsualTops = 20;       // of a row: what the API allows
constexpr int64_t kMostAdjusted = int64_t{256} << 20;

int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Room for `bytes`, at least; what was there is lost. Grows by half more, so that it seldom does.
template <class M>
void grow(M& memory, int64_t bytes) {
  if (memory.bytes() < bytes) memory = M(aligned(bytes + bytes / 2));
}

SampleArgs::Path path_of(const SamplingParams& p, int64_t vocabulary) {
  if (!(p.temperature > 0)) return SampleArgs::Path::kGreedy;
  const bool all = (p.top_k <= 0 || p.top_k >= vocabulary) && p.typical_p >= 1 && p.top_p >= 1 && p.min_p <= 0 &&
                   p.xtc_probability <= 0;
  return all ? SampleArgs::Path::kDraw : SampleArgs::Path::kTruncate;
}

}  // namespace

struct DeviceSampler::State {
  // One launch: what goes to the device, and what comes back.
  struct Turn {
    PinnedMemory up, down;
    DeviceMemory args, results;
    std::vector<int32_t> n_top, top_begin;  // of each row
    // Of `up` and `args`, and of `down` and `results`.
    int64_t rows = 0, changes_at = 0, masks_at = 0, tops_at = 0, result_bytes = 0;
    int64_t adjusted = 0;
    bool draws = false, truncates = false, tops = false;
  };

  State(int max_rows_, int64_t vocabulary_)
      : max_rows(max_rows_),
        vocabulary(vocabulary_),
        n_parts(static_cast<int>(ceil_div(vocabulary_, kPartLogits))),
        finder(vocabulary_),
        tokens(aligned(4 * max_rows_)),
        parts(aligned(static_cast<int64_t>(sizeof(Scanned)) * max_rows_ * n_parts)),
        drawn(aligned(static_cast<int64_t>(sizeof(Drawn)) * max_rows_ * n_parts)),
        scanned(aligned(static_cast<int64_t>(sizeof(Scanned)) * max_rows_)) {
    CHECK(max_rows > 0 && max_rows < 65536 && vocabulary > 0 && vocabulary <= 1 << 20, "{} rows of {} logits", max_rows,
          vocabulary);
    for (Turn& t : turns) {
      const int64_t changes = std::min(vocabulary, kUsualChanges) * static_cast<int64_t>(sizeof(TokenChange));
      const int64_t row = static_cast<int64_t>(sizeof(SampleArgs)) + changes + 4 * ceil_div(vocabulary, 32);
      t.up = PinnedMemory(aligned(row * max_rows));
      t.args = DeviceMemory(aligned(row * max_rows));
      const int64_t back = static_cast<int64_t>(sizeof(SampledToken) + kUsualTops * sizeof(TokenLogprob)) * max_rows;
      t.down = PinnedMemory(aligned(back));
      t.results = DeviceMemory(aligned(back));
    }
    if (row_bytes() * max_rows <= kMostAdjusted) adjusted = DeviceMemory(row_bytes() * max_rows);
  }

  int64_t row_bytes() const { return (vocabulary + 3) / 4 * 16; }  // of adjusted
  void pack(Turn& t, std::span<const SampleRow> rows);
  SampleArgs args_of(Turn& t, const SampleRow& row);
  SampleMemory memory(const Turn& t, const Tensor& logits, const Ctx& ctx) const;

  const int max_rows;
  const int64_t vocabulary;
  const int n_parts;  // of a row
  ChangeFinder finder;
  std::vector<SampleArgs> args;
  std::vector<TokenChange> changes;
  std::vector<uint32_t> masks;
  int64_t n_tops = 0;  // entries of the launch that is packed
  DeviceMemory tokens, parts, drawn, scanned;
  DeviceMemory adjusted;  // rows whose logits change: all, or as many as a step has ever had
  Turn turns[2];
  size_t next = 0;               // the turn of the next upload
  std::deque<size_t> under_way;  // uploaded, the oldest first
};

SampleArgs DeviceSampler::State::args_of(Turn& t, const SampleRow& row) {
  const SamplingParams& p = *row.params;
  SampleArgs a{};
  a.seed = p.seed;
  a.choice = row.choice;
  a.position = row.position;
  a.temperature = p.temperature;
  a.top_p = p.top_p;
  a.min_p = p.min_p;
  a.typical_p = p.typical_p;
  a.xtc_probability = p.xtc_probability;
  a.xtc_threshold = p.xtc_threshold;
  a.top_k = p.top_k;
  a.path = path_of(p, vocabulary);
  a.n_top = static_cast<int32_t>(std::min<int64_t>(p.n_logprobs, vocabulary));
  a.top_begin = static_cast<int32_t>(n_tops);
  a.adjusted = -1;
  a.mask_words = -1;
  n_tops += std::max(a.n_top, 0);
  t.draws = t.draws || a.path == SampleArgs::Path::kDraw;
  t.truncates = t.truncates || a.path == SampleArgs::Path::kTruncate;
  t.tops = t.tops || a.n_top > 0;
  if (!cpu::adjusts_logits(row)) return a;
  a.adjusted = static_cast<int32_t>(t.adjusted++);
  a.changes_begin = static_cast<int32_t>(changes.size());
  a.only_changed = finder.find(row, changes) ? 1 : 0;
  a.changes_end = static_cast<int32_t>(changes.size());
  if (!row.mask.empty()) {
    const size_t words = std::min(row.mask.size(), static_cast<size_t>(ceil_div(vocabulary, 32)));
    a.mask_begin = static_cast<int32_t>(masks.size());
    a.mask_words = static_cast<int32_t>(words);
    masks.insert(masks.end(), row.mask.begin(), row.mask.begin() + static_cast<std::ptrdiff_t>(words));
  }
  return a;
}

// Everything into the pinned buffer, in one piece: the rows, then the changes, then the masks.
void DeviceSampler::State::pack(Turn& t, std::span<const SampleRow> rows) {
  args.clear();
  changes.clear();
  masks.clear();
  n_tops = t.adjusted = 0;
  t.draws = t.truncates = t.tops = false;
  t.rows = std::ssize(rows);
  t.n_top.clear();
  t.top_begin.clear();
  for (const SampleRow& row : rows) {
    args.push_back(args_of(t, row));
    t.n_top.push_back(args.back().n_top);
    t.top_begin.push_back(args.back().top_begin);
  }
  t.changes_at = static_cast<int64_t>(args.size() * sizeof(SampleArgs));
  t.masks_at = t.changes_at + static_cast<int64_t>(changes.size() * sizeof(TokenChange));
  const int64_t bytes = t.masks_at + static_cast<int64_t>(masks.size() * 4);
  t.tops_at = t.rows * static_cast<int64_t>(sizeof(SampledToken));
  t.result_bytes = t.tops_at + n_tops * static_cast<int64_t>(sizeof(TokenLogprob));
  grow(t.up, bytes);
  grow(t.args, bytes);
  grow(t.down, t.result_bytes);
  grow(t.results, t.result_bytes);
  const auto put = [&](int64_t at, const auto& values) {
    if (!values.empty()) std::memcpy(t.up.data() + at, values.data(), values.size() * sizeof(values[0]));
  };
  put(0, args);
  put(t.changes_at, changes);
  put(t.masks_at, masks);
}

SampleMemory DeviceSampler::State::memory(const Turn& t, const Tensor& logits, const Ctx& ctx) const {
  SampleMemory m{};
  m.logits = logits.f32(0);
  m.stride = logits.stride;
  m.adjusted = reinterpret_cast<float*>(adjusted.data());
  m.args = reinterpret_cast<const SampleArgs*>(t.args.data());
  m.changes = reinterpret_cast<const TokenChange*>(t.args.data() + t.changes_at);
  m.masks = reinterpret_cast<const uint32_t*>(t.args.data() + t.masks_at);
  m.parts = reinterpret_cast<Scanned*>(parts.data());
  m.drawn = reinterpret_cast<Drawn*>(drawn.data());
  m.scanned = reinterpret_cast<Scanned*>(scanned.data());
  m.results = reinterpret_cast<SampledToken*>(t.results.data());
  m.tops = reinterpret_cast<TokenLogprob*>(t.results.data() + t.tops_at);
  m.tokens = reinterpret_cast<int32_t*>(tokens.data());
  m.tickets = ctx.tickets;
  m.vocabulary = static_cast<int>(vocabulary);
  m.n_parts = n_parts;
  m.wide = in_fours(logits);
  return m;
}

DeviceSampler::DeviceSampler(int max_rows, int64_t vocabulary) : state_(new State(max_rows, vocabulary)) {}
DeviceSampler::~DeviceSampler() { delete state_; }
DeviceSampler::DeviceSampler(DeviceSampler&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

const int32_t* DeviceSampler::tokens() const { return reinterpret_cast<const int32_t*>(state_->tokens.data()); }

void DeviceSampler::launch(std::span<const SampleRow> rows, const Tensor& logits, Ctx& ctx) {
  upload(rows, ctx);
  choose(logits, ctx);
}

void DeviceSampler::upload(std::span<const SampleRow> rows, Ctx& ctx, StreamRef copies) {
  State& s = *state_;
  CHECK(std::ssize(rows) <= s.max_rows, "{} rows, made for {}", rows.size(), s.max_rows);
  CHECK(s.under_way.size() < 2, "two launches are under way");
  State::Turn& t = s.turns[s.next];
  s.pack(t, rows);
  if (s.adjusted.bytes() < t.adjusted * s.row_bytes()) {
    // The launch before may still write there.
    Event end;
    end.record(ctx.stream);
    end.synchronize();
    grow(s.adjusted, t.adjusted * s.row_bytes());
  }
  const int64_t bytes = t.masks_at + static_cast<int64_t>(s.masks.size() * 4);
  if (bytes > 0) copy_to_device(t.args.data(), t.up.data(), bytes, copies ? copies : ctx.stream);
  s.under_way.push_back(s.next);
  s.next = 1 - s.next;
}

void DeviceSampler::choose(const Tensor& logits, Ctx& ctx) {
  State& s = *state_;
  CHECK(!s.under_way.empty(), "choose() before upload()");
  CHECK(logits.cols == s.vocabulary && logits.dtype == DType::kF32, "{} logits of {}, made for {}", logits.cols,
        dtype_name(logits.dtype), s.vocabulary);
  State::Turn& t = s.turns[s.under_way.back()];
  if (t.rows == 0) return;
  const SampleMemory m = s.memory(t, logits, ctx);
  if (t.adjusted > 0) launch_adjust(ctx, m, t.rows);
  launch_scan(ctx, m, t.rows);
  if (t.draws) launch_draw(ctx, m, t.rows);
  if (t.truncates) launch_truncate(ctx, m, t.rows);
  if (t.tops) launch_tops(ctx, m, t.rows);
  copy_to_host(t.down.data(), t.results.data(), t.result_bytes, ctx.stream);
}

void DeviceSampler::forget() { state_->under_way.clear(); }

void DeviceSampler::collect(std::span<SampleResult> results) {
  State& s = *state_;
  CHECK(!s.under_way.empty(), "collect() before launch()");
  const State::Turn& t = s.turns[s.under_way.front()];
  s.under_way.pop_front();
  CHECK(std::ssize(results) == t.rows, "{} results of {} rows", results.size(), t.rows);
  const auto* chosen = reinterpret_cast<const SampledToken*>(t.down.data());
  const auto* tops = reinterpret_cast<const TokenLogprob*>(t.down.data() + t.tops_at);
  for (size_t r = 0; r < results.size(); ++r) {
    results[r] = {.token = chosen[r].token, .logprob = chosen[r].logprob, .top = {}};
    if (chosen[r].token < 0 || t.n_top[r] <= 0) continue;
    results[r].top.assign(tops + t.top_begin[r], tops + t.top_begin[r] + t.n_top[r]);
  }
}

void prepare(Sample&, Prepare&) {}

// For tests and simple callers: an engine keeps a sampler.
void run(const Sample& op, Ctx& ctx) {
  CHECK(op.rows.size() == op.results.size(), "{} rows, {} results", op.rows.size(), op.results.size());
  if (op.rows.empty()) return;
  DeviceSampler sampler(static_cast<int>(op.rows.size()), op.logits.cols);
  sampler.launch(op.rows, op.logits, ctx);
  Event end;
  end.record(ctx.stream);
  end.synchronize();
  sampler.collect(op.results);
}

}  // namespace ingot::cuda
