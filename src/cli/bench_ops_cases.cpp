// The operators and sizes of ingot bench ops: those of a model with 2048 columns, 32 heads of 64 and 8 KV heads.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "cli/bench_ops.h"
#include "ops/linear/packed_store.h"
#include "ops/op_list.inc"
#include "tensor/memory.h"

namespace ingot {
namespace {

constexpr int64_t kCols = 2048;
constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 64, kPageRows = 64;

// The same numbers in every run.
class Numbers {
 public:
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  uint64_t state_ = 1;
};

// Memory, batch and scratch of a case, alive as long as its function.
struct Bench {
  ThreadPool& pool;
  Batch batch;
  StepLimits limits;
  Prepare prepare;
  PackedStore packed;
  std::vector<Memory> memory;
  Memory scratch, shared;
  int64_t left = 0;  // bytes of the last piece of memory that nobody has yet
  size_t next = 0;

  Bench(ThreadPool& p, const std::vector<int>& rows, int past);

  // 64-byte aligned; small ones share huge pages.
  std::byte* take(int64_t bytes) {
    constexpr int64_t kHuge = 2 << 20, kPiece = 32 << 20;
    bytes = (bytes + 63) / 64 * 64;
    if (bytes > left) {
      memory.push_back(Memory::huge(std::max(kPiece, (bytes + kHuge - 1) / kHuge * kHuge)));
      left = memory.back().bytes();
    }
    left -= bytes;
    return memory.back().data() + memory.back().bytes() - left - bytes;
  }
  Tensor tensor(const Rows& kind, int64_t rows, int64_t cols) {
    Tensor t;
    t.rows = kind;
    t.cols = t.stride = cols;
    t.data = take(rows * cols * 4);
    Numbers numbers;
    for (int64_t i = 0; i < rows * cols; ++i) t.f32(0)[i] = numbers.next();
    return t;
  }
  Tensor tokens(int64_t cols) { return tensor(kTokenRows, batch.n_rows, cols); }
  Weight weight(Format format, int64_t rows, int64_t cols);
};

// Seqs of so many rows each, after `past` positions.
Bench::Bench(ThreadPool& p, const std::vector<int>& rows, int past) : pool(p), packed(0) {
  limits = {.rows = 0, .seqs = static_cast<int>(rows.size()), .logits = 0, .context = 1, .page_rows = kPageRows};
  for (const int n : rows) {
    limits.rows += n;
    limits.context = std::max(limits.context, past + n);
  }
  limits.logits = limits.rows;
  batch = Batch(limits, 1);
  batch.n_rows = batch.n_logits = limits.rows;
  batch.n_seqs = limits.seqs;
  for (size_t i = 0; i < batch.groups[0].page_table.size(); ++i) batch.groups[0].page_table[i] = static_cast<int>(i);
  int row = 0;
  for (size_t s = 0; s < rows.size(); ++s) {
    for (int i = 0; i < rows[s]; ++i, ++row) {
      const auto t = static_cast<size_t>(row);
      const int position = past + i;
      batch.position[t] = position;
      batch.seq[t] = static_cast<int>(s);
      batch.groups[0].slot[t] =
          batch.pages(0, static_cast<int>(s))[position / kPageRows] * kPageRows + position % kPageRows;
    }
    batch.q_start[s + 1] = row;
    batch.kv_len[s] = past + rows[s];
  }
  prepare = {.limits = limits, .threads = pool.threads(), .pool = &pool, .packed = &packed};
}

// Random rows; one in 64 is encoded, the others are its copies.
Weight Bench::weight(Format format, int64_t rows, int64_t cols) {
  Weight w{.name = "random", .format = format, .rows = rows, .cols = cols};
  w.row_bytes = format_row_bytes(format, cols);
  std::byte* data = take(w.bytes());
  Numbers numbers;
  std::vector<float> values(static_cast<size_t>(cols));
  for (int64_t n = 0; n < rows; ++n) {
    if (n < 64) {
      for (float& value : values) value = numbers.next();
      format_encode(format, values.data(), data + n * w.row_bytes, cols);
    } else {
      std::memcpy(data + n * w.row_bytes, data + n % 64 * w.row_bytes, static_cast<size_t>(w.row_bytes));
    }
  }
  w.data = data;
  return w;
}

// A function that runs one op after the other.
template <class Op>
std::function<void()> in_turn(std::shared_ptr<Bench> b, std::vector<Op> ops) {
  b->scratch = Memory(b->prepare.scratch_bytes * b->pool.threads());
  b->shared = Memory(b->prepare.shared_bytes);
  auto list = std::make_shared<std::vector<Op>>(std::move(ops));
  return [b, list] {
    Ctx ctx{.batch = b->batch,
            .pool = b->pool,
            .shape = {.tokens = b->batch.n_rows, .logits = b->batch.n_logits},
            .scratch = b->scratch.data(),
            .scratch_bytes = b->prepare.scratch_bytes,
            .shared = b->shared.data()};
    cpu::run((*list)[b->next], ctx);
    b->next = (b->next + 1) % list->size();
  };
}

size_t copies(double bytes) {
  return static_cast<size_t>(std::clamp(static_cast<double>(rotation_bytes()) / std::max(bytes, 1.0), 2.0, 10000.0));
}

// An op made of tensors alone, as often as fits. `make` gives one with operands of its own.
template <class Op, class Make>
OpCase row_case(const std::string& name, int rows, int64_t cols, const Make& make) {
  OpCase c{.op = name, .shape = fmt::format("{} x {}", rows, cols)};
  ThreadPool one(1);
  Bench probe(one, {rows}, 0);
  const Cost cost = make(probe).cost({.tokens = rows, .logits = rows});
  c.bytes = cost.bytes;
  c.flops = cost.flops;
  c.make = [rows, make, cost](ThreadPool& pool) {
    auto b = std::make_shared<Bench>(pool, std::vector<int>{rows}, 0);
    std::vector<Op> ops;
    for (size_t i = 0; i < copies(cost.bytes); ++i) {
      ops.push_back(make(*b));
      cpu::prepare(ops.back(), b->prepare);
    }
    return in_turn(b, std::move(ops));
  };
  return c;
}

OpCase linear_case(Format format, int rows) {
  const double bytes = static_cast<double>(kCols * format_row_bytes(format, kCols));
  OpCase c{.op = "linear", .shape = fmt::format("{} {}x{}, {} rows", format_name(format), kCols, kCols, rows)};
  c.bytes = bytes + 8.0 * rows * kCols;
  c.flops = 2.0 * rows * kCols * kCols;
  c.by = format == Format::kBF16 ? Multiplies::kBf16 : format == Format::kF16 ? Multiplies::kF32 : Multiplies::kInt8;
  c.make = [=](ThreadPool& pool) {
    auto b = std::make_shared<Bench>(pool, std::vector<int>{rows}, 0);
    Linear op;
    op.x = b->tokens(kCols);
    op.parts[0].weight = b->weight(format, kCols, kCols);
    op.parts[0].out = b->tokens(kCols);
    cpu::prepare(op, b->prepare);
    std::vector<Linear> ops{op};
    const PackedWeight* first = op.parts[0].packed;
    CHECK(first != nullptr, "{} has no panels", format_name(format));
    auto weights = std::make_shared<std::vector<PackedWeight>>(copies(bytes), *first);
    for (PackedWeight& w : *weights) {
      std::byte* data = b->take(w.bytes());
      std::memcpy(data, first->data, static_cast<size_t>(first->bytes()));
      w.data = data;
      op.parts[0].packed = &w;
      ops.push_back(op);
    }
    return [weights, run = in_turn(b, std::move(ops))] { run(); };
  };
  return c;
}

// `seqs` seqs with `rows` new rows each and `past` positions in the cache.
OpCase attention_case(int seqs, int rows, int past) {
  OpCase c{.op = "attention", .shape = fmt::format("{} x {} rows after {}", seqs, rows, past)};
  double seen = 0;  // positions, over all rows
  for (int i = 0; i < rows; ++i) seen += seqs * (past + i + 1.0);
  const double cache = 2.0 * seqs * (past + rows) * kKvHeads * kHeadDim * 4;
  c.bytes = cache + 2.0 * seqs * rows * kHeads * kHeadDim * 4;
  c.flops = 4 * seen * kHeads * kHeadDim;
  c.make = [=](ThreadPool& pool) {
    auto b = std::make_shared<Bench>(pool, std::vector<int>(static_cast<size_t>(seqs), rows), past);
    const auto pages = static_cast<int64_t>(b->batch.groups[0].page_table.size());
    std::vector<Attention> ops;
    for (size_t i = 0; i < copies(cache); ++i) {
      Attention op;
      op.q = b->tokens(kHeads * kHeadDim);
      op.out = b->tokens(kHeads * kHeadDim);
      op.heads = kHeads;
      op.scale = 0.125f;
      op.kv.group = 0;
      op.kv.kv_heads = kKvHeads;
      op.kv.k_dim = op.kv.v_dim = kHeadDim;
      op.kv.page_rows = kPageRows;
      op.kv.k = b->tensor({}, pages * kPageRows, kKvHeads * kHeadDim).data;
      op.kv.v = b->tensor({}, pages * kPageRows, kKvHeads * kHeadDim).data;
      cpu::prepare(op, b->prepare);
      ops.push_back(op);
    }
    return in_turn(b, std::move(ops));
  };
  return c;
}

OpCase sample_case(const std::string& how, const SamplingParams& params) {
  constexpr int64_t kVocab = 128'256;
  OpCase c{.op = "sample", .shape = fmt::format("{}, {} tokens", how, kVocab)};
  c.bytes = 4.0 * kVocab;
  c.make = [=](ThreadPool& pool) {
    auto b = std::make_shared<Bench>(pool, std::vector<int>{1}, 0);
    auto given = std::make_shared<SamplingParams>(params);
    auto rows = std::make_shared<std::vector<SampleRow>>(1);
    auto results = std::make_shared<std::vector<SampleResult>>(1);
    (*rows)[0].params = given.get();
    std::vector<Sample> ops;
    for (size_t i = 0; i < copies(4.0 * kVocab); ++i) {
      Sample op;
      op.logits = b->tensor(kLogitRows, 1, kVocab);
      op.rows = *rows;
      op.results = *results;
      cpu::prepare(op, b->prepare);
      ops.push_back(op);
    }
    return [given, rows, results, run = in_turn(b, std::move(ops))] { run(); };
  };
  return c;
}

void add_row_cases(std::vector<OpCase>& cases) {
  for (const int rows : {1, 16, 512}) {
    cases.push_back(row_case<RmsNorm>("rms_norm", rows, kCols, [](Bench& b) {
      return RmsNorm{.x = b.tokens(kCols),
                     .weight = b.weight(Format::kF32, 1, kCols),
                     .out = b.tokens(kCols),
                     .width = kCols,
                     .eps = 1e-5f};
    }));
    cases.push_back(row_case<AddRmsNorm>("add_rms_norm", rows, kCols, [](Bench& b) {
      return AddRmsNorm{.a = b.tokens(kCols),
                        .b = b.tokens(kCols),
                        .weight = b.weight(Format::kF32, 1, kCols),
                        .sum = b.tokens(kCols),
                        .out = b.tokens(kCols),
                        .eps = 1e-5f};
    }));
    cases.push_back(row_case<Glu>("glu", rows, 4 * kCols, [](Bench& b) {
      return Glu{.gate = b.tokens(4 * kCols), .up = b.tokens(4 * kCols), .out = b.tokens(4 * kCols)};
    }));
    cases.push_back(row_case<Rope>("rope", rows, (kHeads + kKvHeads) * kHeadDim, [](Bench& b) {
      return Rope{.q = b.tokens(kHeads * kHeadDim),
                  .k = b.tokens(kKvHeads * kHeadDim),
                  .table = b.tokens(kHeadDim),
                  .head_dim = kHeadDim};
    }));
  }
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (const Format format :
       {Format::kQ4_0, Format::kQ4_1, Format::kQ4_K, Format::kQ6_K, Format::kQ8_0, Format::kBF16, Format::kF16}) {
    for (const int rows : {1, 4, 16, 64, 512}) cases.push_back(linear_case(format, rows));
  }
  for (const int past : {127, 4095}) cases.push_back(attention_case(1, 1, past));
  cases.push_back(attention_case(16, 1, 511));
  cases.push_back(attention_case(1, 512, 0));
  cases.push_back(attention_case(1, 256, 2048));
  add_row_cases(cases);
  SamplingParams params;
  params.temperature = 0;
  cases.push_back(sample_case("greedy", params));
  params.temperature = 0.8f;
  params.top_k = 40;
  params.top_p = 0.95f;
  cases.push_back(sample_case("top-k 40", params));
  return cases;
}

}  // namespace

std::vector<OpCase> op_cases(const std::vector<std::string>& names) {
  std::vector<OpCase> all = all_cases();
  if (std::ranges::find(names, "ladder") != names.end()) std::ranges::move(ladder_cases(), std::back_inserter(all));
  std::set<std::string> known;
  for (const OpCase& c : all) known.insert(c.op);
  known.insert("ladder");
  for (const std::string& name : names) {
    if (!known.contains(name))
      throw Error("[bench] there is no operator '{}'; known are {}", name, fmt::join(known, ", "));
  }
  if (!names.empty()) {
    std::erase_if(all, [&](const OpCase& c) { return std::ranges::find(names, c.op) == names.end(); });
  }
  return all;
}

}  // namespace ingot
