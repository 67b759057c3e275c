#include "quant/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "quant/grid.h"
#include "quant/lanes.h"

namespace ingot {
namespace {

constexpr int64_t kPart = 64;    // columns of L that are made at a time
constexpr int64_t kTask = 32;    // rows that a thread brings up to date at a time
constexpr int64_t kWidth = 8;    // columns of a tile there
constexpr int64_t kHeight = 4;   // and rows: 16 registers of sums
constexpr int64_t kBlock = 128;  // columns after whose rounding all later ones are brought up to date
constexpr int64_t kNear = 16;    // and those of the block
constexpr int64_t kRows = 8;     // rows that are rounded side by side

// A symmetric matrix that becomes its lower Cholesky factor, in double; `size` is a multiple of kPart.
struct Factor {
  int64_t size;
  std::vector<double> a;
  explicit Factor(int64_t n) : size(n), a(static_cast<size_t>(n * n)) {}
  double* row(int64_t i) { return a.data() + i * size; }
};

// The block on the diagonal from `j0` on. False where a pivot is not positive against what stood there before.
bool factor_block(Factor& f, int64_t j0, const std::vector<double>& diagonal) {
  for (int64_t j = j0; j < j0 + kPart; ++j) {
    double* row_j = f.row(j);
    double pivot = row_j[j];
    for (int64_t p = j0; p < j; ++p) pivot -= row_j[p] * row_j[p];
    if (!(pivot > 1e-9 * diagonal[static_cast<size_t>(j)])) return false;
    row_j[j] = std::sqrt(pivot);
    for (int64_t i = j + 1; i < j0 + kPart; ++i) {
      double* row_i = f.row(i);
      double sum = row_i[j];
      for (int64_t p = j0; p < j; ++p) sum -= row_i[p] * row_j[p];
      row_i[j] = sum / row_j[j];
    }
  }
  return true;
}

// Four rows from `i` on: their sums do not wait for each other.
void solve_rows(Factor& f, int64_t j0, int64_t i) {
  double* row[kHeight];
  for (int64_t r = 0; r < kHeight; ++r) row[r] = f.row(i + r) + j0;
  for (int64_t c = 0; c < kPart; ++c) {
    const double* of_c = f.row(j0 + c) + j0;
    double sum[kHeight];
    for (int64_t r = 0; r < kHeight; ++r) sum[r] = row[r][c];
    for (int64_t p = 0; p < c; ++p)
      for (int64_t r = 0; r < kHeight; ++r) sum[r] -= row[r][p] * of_c[p];
    for (int64_t r = 0; r < kHeight; ++r) row[r][c] = sum[r] / of_c[c];
  }
}

// A[i…, j…] −= L[i…, part] · L[j…, part]ᵀ for a tile; `turned` is [kPart, size], the part's columns of L as rows.
void update_tile(Factor& f, int64_t j0, int64_t i, int64_t j, const double* turned) {
  Double2 sum[kHeight][kWidth / 2];
  const double* left[kHeight];
  for (int64_t r = 0; r < kHeight; ++r) {
    left[r] = f.row(i + r) + j0;
    for (int64_t c = 0; c < kWidth / 2; ++c) sum[r][c] = load_lanes<Double2>(f.row(i + r) + j + 2 * c);
  }
  for (int64_t p = 0; p < kPart; ++p) {
    const double* right = turned + p * f.size + j;
    Double2 column[kWidth / 2];
    for (int64_t c = 0; c < kWidth / 2; ++c) column[c] = load_lanes<Double2>(right + 2 * c);
    for (int64_t r = 0; r < kHeight; ++r)
      for (int64_t c = 0; c < kWidth / 2; ++c) sum[r][c] = fma_lanes(column[c], -left[r][p], sum[r][c]);
  }
  for (int64_t r = 0; r < kHeight; ++r)
    for (int64_t c = 0; c < kWidth / 2; ++c) store_lanes(f.row(i + r) + j + 2 * c, sum[r][c]);
}

bool factorize(Factor& f, ThreadPool& pool) {
  std::vector<double> diagonal(static_cast<size_t>(f.size));
  for (int64_t i = 0; i < f.size; ++i) diagonal[static_cast<size_t>(i)] = f.row(i)[i];
  std::vector<double> turned(static_cast<size_t>(kPart * f.size));
  for (int64_t j0 = 0; j0 < f.size; j0 += kPart) {
    if (!factor_block(f, j0, diagonal)) return false;
    const int64_t next = j0 + kPart;
    const auto solve = [&](int64_t task, int) {
      const int64_t first = next + task * kTask, last = first + kTask;
      for (int64_t i = first; i < last; i += kHeight) solve_rows(f, j0, i);
      for (int64_t p = 0; p < kPart; ++p)
        for (int64_t i = first; i < last; ++i) turned[static_cast<size_t>(p * f.size + i)] = f.row(i)[j0 + p];
    };
    const auto update = [&](int64_t task, int) {
      const int64_t i0 = next + task * kTask;
      for (int64_t j = next; j < i0 + kTask; j += kWidth)
        for (int64_t i = i0; i < i0 + kTask; i += kHeight)
          if (j < i + kHeight) update_tile(f, j0, i, j, turned.data());
    };
    const int64_t tasks = (f.size - next) / kTask;
    if (tasks > 0) pool.run(tasks, solve);
    if (tasks > 0) pool.run(tasks, update);
  }
  return true;
}

// H in the order of columns turned around, with what is added to its diagonal, filled up by ones on it.
void fill(Factor& f, const std::vector<float>& h, int64_t cols, const std::vector<int32_t>& order, double own,
          double common, ThreadPool& pool) {
  const auto fill_row = [&](int64_t i, int) {
    double* row = f.row(i);
    std::fill_n(row, f.size, 0.0);
    if (i >= cols) {
      row[i] = 1;
      return;
    }
    const int64_t a = order[static_cast<size_t>(cols - 1 - i)];
    for (int64_t k = 0; k <= i; ++k) {
      const int64_t b = order[static_cast<size_t>(cols - 1 - k)];
      row[k] = h[static_cast<size_t>(std::min(a, b) * cols + std::max(a, b))];
    }
    row[i] = row[i] > 0 ? row[i] * (1 + own) + common : 1.0;
  };
  pool.run(f.size, fill_row);
}

struct Rounded {  // kRows rows side by side: [cols][kRows], in the order of columns
  std::vector<float> given, wanted, error;
  explicit Rounded(int64_t cols)
      : given(static_cast<size_t>(cols * kRows)), wanted(given.size()), error(given.size()) {}
};

// The errors of one rounded column into the next ones.
void spread(const float* factors, int64_t from, int64_t to, int64_t i, Rounded& r) {
  const Float4 low = load_lanes<Float4>(&r.error[static_cast<size_t>(i * kRows)]);
  const Float4 high = load_lanes<Float4>(&r.error[static_cast<size_t>(i * kRows + 4)]);
  float* out = &r.wanted[static_cast<size_t>(from * kRows)];
  for (int64_t k = from; k < to; ++k, out += kRows) {
    store_lanes(out, fma_lanes(low, factors[k], load_lanes<Float4>(out)));
    store_lanes(out + 4, fma_lanes(high, factors[k], load_lanes<Float4>(out + 4)));
  }
}

// The errors of columns [begin, end) into `kTile` columns after them.
template <int64_t kTile>
void spread_tile(const Feedback& feedback, int64_t begin, int64_t end, int64_t k, Rounded& r) {
  Float4 sum[kTile][2];
  float* out = &r.wanted[static_cast<size_t>(k * kRows)];
  for (int64_t c = 0; c < kTile; ++c)
    for (int64_t h = 0; h < 2; ++h) sum[c][h] = load_lanes<Float4>(out + c * kRows + 4 * h);
  const float* factor = feedback.factors.data() + begin * feedback.cols + k;
  const float* error = &r.error[static_cast<size_t>(begin * kRows)];
  for (int64_t i = begin; i < end; ++i, factor += feedback.cols, error += kRows) {
    const Float4 low = load_lanes<Float4>(error), high = load_lanes<Float4>(error + 4);
    for (int64_t c = 0; c < kTile; ++c) {
      sum[c][0] = fma_lanes(low, factor[c], sum[c][0]);
      sum[c][1] = fma_lanes(high, factor[c], sum[c][1]);
    }
  }
  for (int64_t c = 0; c < kTile; ++c)
    for (int64_t h = 0; h < 2; ++h) store_lanes(out + c * kRows + 4 * h, sum[c][h]);
}

// The same into columns [from, to). The order of additions to a column is that of spread().
void spread_block(const Feedback& feedback, int64_t begin, int64_t end, int64_t from, int64_t to, Rounded& r) {
  int64_t k = from;
  for (; k + 12 <= to; k += 12) spread_tile<12>(feedback, begin, end, k, r);  // 24 registers of sums
  for (; k + 4 <= to; k += 4) spread_tile<4>(feedback, begin, end, k, r);
  for (; k < to; ++k) spread_tile<1>(feedback, begin, end, k, r);
}

void round_rows(const Feedback& feedback, std::vector<RowGrid>& grids, int64_t rows, Rounded& r) {
  const int64_t cols = feedback.cols;
  for (int64_t begin = 0; begin < cols; begin += kBlock) {
    const int64_t end = std::min(cols, begin + kBlock);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t near = std::min(end, i / kNear * kNear + kNear);
      const int64_t column = feedback.order[static_cast<size_t>(i)];
      const size_t at = static_cast<size_t>(i * kRows);
      for (int64_t n = 0; n < rows; ++n) {
        const size_t here = at + static_cast<size_t>(n);
        r.error[here] = r.given[here] - grids[static_cast<size_t>(n)].choose(column, r.wanted[here]);
      }
      spread(feedback.factors.data() + i * cols, i + 1, near, i, r);
      if (i + 1 == near) spread_block(feedback, i / kNear * kNear, near, near, end, r);
    }
    spread_block(feedback, begin, end, end, cols, r);
  }
}

}  // namespace

Feedback make_feedback(std::vector<float> h, int64_t cols, const GptqOptions& options, ThreadPool& pool) {
  CHECK(static_cast<int64_t>(h.size()) == cols * cols && cols > 0, "{} values of {} columns", h.size(), cols);
  const auto diagonal = [&](int64_t k) { return h[static_cast<size_t>(k * cols + k)]; };
  double mean = 0;
  for (int64_t k = 0; k < cols; ++k) mean += static_cast<double>(diagonal(k)) / static_cast<double>(cols);
  for (int64_t i = 0; i < cols; ++i)
    for (int64_t k = i; k < cols; ++k)
      if (!std::isfinite(h[static_cast<size_t>(i * cols + k)]))
        throw Error("[gptq] the inputs of a matrix of {} columns are not finite", cols);
  Feedback feedback{.cols = cols, .order = std::vector<int32_t>(static_cast<size_t>(cols)), .factors = {}};
  std::iota(feedback.order.begin(), feedback.order.end(), 0);
  if (!options.in_order)
    std::ranges::stable_sort(feedback.order, [&](int32_t a, int32_t b) { return diagonal(a) > diagonal(b); });
  Factor factor((cols + kPart - 1) / kPart * kPart);
  for (double damping = options.damping;; damping = std::max(4 * damping, 1e-6)) {
    CHECK(damping < 1e6, "damping {}", damping);
    feedback.damping = damping;
    fill(factor, h, cols, feedback.order, options.of_mean ? 0 : damping, options.of_mean ? damping * mean : 0, pool);
    if (factorize(factor, pool)) break;
  }
  const auto take = [&](int64_t i, int) {
    float* out = h.data() + i * cols;
    const double* row = factor.row(cols - 1 - i);
    std::fill_n(out, i + 1, 0.0f);
    for (int64_t k = i + 1; k < cols; ++k) {
      const int64_t at = cols - 1 - k;
      out[k] = static_cast<float>(row[at] / factor.row(at)[at]);
    }
  };
  pool.run(cols, take);
  feedback.factors = std::move(h);
  return feedback;
}

void gptq_round(const Feedback& feedback, Format format, std::span<const float> values, int64_t rows, int64_t cols,
                std::span<std::byte> encoded, int64_t segment) {
  const int64_t part = segment > 0 ? segment : cols, row_bytes = cols / part * format_row_bytes(format, part);
  CHECK(cols == feedback.cols && static_cast<int64_t>(values.size()) == rows * cols &&
            static_cast<int64_t>(encoded.size()) == rows * row_bytes,
        "{} rows of {}, {} values, {} bytes", rows, cols, values.size(), encoded.size());
  std::vector<RowGrid> grids(kRows, RowGrid(format, cols, part));
  Rounded r(cols);
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(kRows, rows - first);
    for (int64_t n = 0; n < count; ++n) grids[static_cast<size_t>(n)].read(encoded.data() + (first + n) * row_bytes);
    for (int64_t i = 0; i < cols; ++i) {
      const float* from = values.data() + first * cols + feedback.order[static_cast<size_t>(i)];
      for (int64_t n = 0; n < kRows; ++n)
        r.given[static_cast<size_t>(i * kRows + n)] = n < count ? from[n * cols] : 0.0f;
    }
    r.wanted = r.given;
    std::ranges::fill(r.error, 0.0f);
    round_rows(feedback, grids, count, r);
    for (int64_t n = 0; n < count; ++n) grids[static_cast<size_t>(n)].write(encoded.data() + (first + n) * row_bytes);
  }
}

}  // namespace ingot
