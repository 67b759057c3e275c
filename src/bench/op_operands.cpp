#include "bench/op_operands.h"

#include <unistd.h>

#include <cstring>

namespace ingot::op_bench {

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

std::byte* Bench::take(int64_t bytes) {
  constexpr int64_t kHuge = 2 << 20, kPiece = 32 << 20;
  bytes = (bytes + 63) / 64 * 64;
  if (bytes > left) {
    memory.push_back(Memory::huge(std::max(kPiece, (bytes + kHuge - 1) / kHuge * kHuge)));
    left = memory.back().bytes();
  }
  left -= bytes;
  return memory.back().data() + memory.back().bytes() - left - bytes;
}

std::byte* Bench::copy(const std::byte* from, int64_t bytes) {
  std::byte* to = take(bytes);
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return to;
}

Tensor Bench::tensor(const Rows& kind, int64_t rows, int64_t cols) {
  Tensor t;
  t.rows = kind;
  t.cols = t.stride = cols;
  t.data = take(rows * cols * 4);
  Numbers numbers;
  for (int64_t i = 0; i < rows * cols; ++i) t.f32(0)[i] = numbers.next();
  return t;
}

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

int64_t rotation_bytes() {
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::clamp<int64_t>(3 * cache, int64_t{96} << 20, int64_t{1} << 30);
}

size_t copies(double bytes) {
  return static_cast<size_t>(std::clamp(static_cast<double>(rotation_bytes()) / std::max(bytes, 1.0), 2.0, 10000.0));
}

}  // namespace ingot::op_bench
