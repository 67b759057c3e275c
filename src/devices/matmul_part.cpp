#include "devices/matmul_part.h"

#include <map>
#include <vector>

#include "matmul/cpu/matmul.h"
#include "tensor/memory.h"
#include "weights/random_values.h"

namespace ingot {
namespace {

constexpr uint64_t kKeyX = uint64_t{1} << 40, kKeyW = uint64_t{2} << 40;

// Some outputs, whose weights are packed once.
struct Ready {
  Product product;
  Memory scratch, shared;
  int64_t scratch_bytes = 0;
};

}  // namespace

struct CpuMatmul::State {
  ThreadPool& pool;
  MatmulPart part;
  Weight weight;
  Memory x, w;
  PackedStore packed{0};
  std::map<std::pair<int64_t, int64_t>, std::pair<Weight, Ready>> ready;  // by first output and count
};

CpuMatmul::CpuMatmul(ThreadPool& pool, Format format, const MatmulPart& part)
    : state_(new State{
          .pool = pool, .part = part, .weight = {}, .x = {}, .w = {}, .packed = PackedStore(0), .ready = {}}) {
  State& s = *state_;
  const int64_t cols = part.k.count();
  s.x = Memory::huge(part.m.count() * cols * 4);
  auto* x = reinterpret_cast<float*>(s.x.data());
  pool.run(part.m.count(), [&](int64_t i, int) {
    for (int64_t c = 0; c < cols; ++c)
      x[i * cols + c] = random_value(kKeyX, part.m.begin + i, part.k.begin + c, part.whole.k, 1.0f);
  });
  s.weight = {.name = "random", .format = format, .rows = part.n.count(), .cols = cols};
  s.weight.row_bytes = format_row_bytes(format, cols);
  s.w = Memory::huge(s.weight.bytes());
  // Rows come again after kRandomRows of them: each is encoded once.
  const int64_t row_bytes = s.weight.row_bytes;
  std::vector<std::byte> rows(static_cast<size_t>(kRandomRows * row_bytes));
  pool.run(kRandomRows, [&](int64_t r, int) {
    std::vector<float> values(static_cast<size_t>(cols));
    for (int64_t c = 0; c < cols; ++c)
      values[static_cast<size_t>(c)] = random_value(kKeyW, r, part.k.begin + c, part.whole.k, 0.05f);
    format_encode(format, values.data(), rows.data() + r * row_bytes, cols);
  });
  pool.run(part.n.count(), [&](int64_t i, int) {
    const std::byte* from = rows.data() + (part.n.begin + i) % kRandomRows * row_bytes;
    std::copy_n(from, row_bytes, s.w.data() + i * row_bytes);
  });
  s.weight.data = s.w.data();
}

CpuMatmul::~CpuMatmul() = default;

void CpuMatmul::run(int64_t first, int64_t count, float* out, int64_t stride) {
  State& s = *state_;
  auto& [weight, ready] = s.ready[{first, count}];
  const int64_t rows = s.part.m.count();
  const auto matrix = [](float* data, int64_t cols, int64_t step) {
    Matrix m;
    m.data = reinterpret_cast<std::byte*>(data);
    m.cols = cols;
    m.stride = step;
    return m;
  };
  if (ready.scratch_bytes == 0) {
    weight = s.weight;
    weight.rows = count;
    weight.data = s.weight.data + first * s.weight.row_bytes;
    ready.product.input.x = matrix(reinterpret_cast<float*>(s.x.data()), weight.cols, weight.cols);
    ready.product.parts[0].weight = &weight;
    ready.product.parts[0].out = matrix(out, count, stride);
    cpu::pack(ready.product, s.packed, s.pool);
    const cpu::ProductNeeds needs = cpu::product_needs(ready.product, rows, s.pool.threads());
    ready.scratch_bytes = (needs.scratch + 64) / 64 * 64;
    ready.scratch = Memory(ready.scratch_bytes * s.pool.threads());
    ready.shared = Memory(needs.shared);
  }
  ready.product.parts[0].out = matrix(out, count, stride);
  cpu::multiply(ready.product, rows, s.pool,
                {.scratch = ready.scratch.data(), .scratch_bytes = ready.scratch_bytes, .shared = ready.shared.data()});
}

}  // namespace ingot
