#include "quant/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "quant/gptq_tiles.h"
#include "quant/grid.h"

namespace ingot {
namespace {

constexpr int64_t kPart = 64;           // columns of L that are made at a time
constexpr int64_t kTask = kFactorSide;  // rows that a thread brings up to date at a time
constexpr int64_t kHeight = 4;          // rows whose columns are solved for at a time
constexpr int64_t kBlock = 128;         // columns after whose rounding all later ones are brought up to date
constexpr int64_t kNear = 16;           // and those of the block

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

bool factorize(Factor& f, const GptqTiles& tiles, ThreadPool& pool) {
  std::vector<double> diagonal(static_cast<size_t>(f.size));
  for (int64_t i = 0; i < f.size; ++i) diagonal[static_cast<size_t>(i)] = f.row(i)[i];
  std::vector<double> turned(static_cast<size_t>(kPart * f.size));  // [kPart, size] the part's columns of L as rows
  for (int64_t j0 = 0; j0 < f.size; j0 += kPart) {
    if (!factor_block(f, j0, diagonal)) return false;
    const int64_t next = j0 + kPart;
    const auto solve = [&](int64_t task, int) {
      const int64_t first = next + task * kTask, last = first + kTask;
      for (int64_t i = first; i < last; i += kHeight) solve_rows(f, j0, i);
      for (int64_t p = 0; p < kPart; ++p)
        for (int64_t i = first; i < last; ++i) turned[static_cast<size_t>(p * f.size + i)] = f.row(i)[j0 + p];
    };
    // A −= L[…, part] · L[…, part]ᵀ, on and below the diagonal.
    const auto update = [&](int64_t task, int) {
      const int64_t i0 = next + task * kTask;
      for (int64_t j = next; j < i0 + kTask; j += tiles.factor_width)
        for (int64_t i = i0; i < i0 + kTask; i += tiles.factor_height)
          if (j < i + tiles.factor_height)
            tiles.subtract(f.row(i) + j, f.row(i) + j0, turned.data() + j, f.size, kPart);
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

// kRows rows that are rounded side by side: [cols][kRows], in the order of columns.
template <int64_t kRows>
class Rounded {
 public:
  Rounded(const Feedback& feedback, Format format, int64_t segment, const GptqTiles& tiles)
      : feedback_(feedback),
        spread_(kRows == 16 ? tiles.spread_16 : tiles.spread_8),
        grids_(kRows, RowGrid(format, feedback.cols, segment)),
        given_(static_cast<size_t>(feedback.cols * kRows)),
        wanted_(given_.size()),
        error_(given_.size()) {}

  // `rows` rows, kRows at most.
  void round(const float* values, int64_t rows, std::byte* encoded, int64_t row_bytes) {
    const int64_t cols = feedback_.cols;
    for (int64_t n = 0; n < rows; ++n) grids_[static_cast<size_t>(n)].read(encoded + n * row_bytes);
    for (int64_t i = 0; i < cols; ++i) {
      const float* from = values + feedback_.order[static_cast<size_t>(i)];
      for (int64_t n = 0; n < kRows; ++n) given_[static_cast<size_t>(i * kRows + n)] = n < rows ? from[n * cols] : 0.0f;
    }
    wanted_ = given_;
    std::ranges::fill(error_, 0.0f);
    for (int64_t begin = 0; begin < cols; begin += kBlock) round_block(begin, std::min(cols, begin + kBlock), rows);
    for (int64_t n = 0; n < rows; ++n) grids_[static_cast<size_t>(n)].write(encoded + n * row_bytes);
  }

 private:
  void round_block(int64_t begin, int64_t end, int64_t rows) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t near = std::min(end, i / kNear * kNear + kNear);
      const int64_t column = feedback_.order[static_cast<size_t>(i)];
      const size_t at = static_cast<size_t>(i * kRows);
      for (int64_t n = 0; n < rows; ++n) {
        const size_t here = at + static_cast<size_t>(n);
        error_[here] = given_[here] - grids_[static_cast<size_t>(n)].choose(column, wanted_[here]);
      }
      spread(i, i + 1, i + 1, near);
      if (i + 1 == near) spread(i / kNear * kNear, near, near, end);
    }
    spread(begin, end, end, feedback_.cols);
  }

  // The errors of columns [begin, end) into columns [from, to).
  void spread(int64_t begin, int64_t end, int64_t from, int64_t to) {
    if (from == to) return;
    spread_(feedback_.factors.data() + begin * feedback_.cols + from, feedback_.cols, error_.data() + begin * kRows,
            end - begin, wanted_.data() + from * kRows, to - from);
  }

  const Feedback& feedback_;
  GptqTiles::Spread* const spread_;
  std::vector<RowGrid> grids_;
  std::vector<float> given_, wanted_, error_;
};

template <int64_t kRows>
void round_rows(const Feedback& feedback, Format format, int64_t segment, const float* values, int64_t rows,
                std::byte* encoded, int64_t row_bytes, const GptqTiles& tiles) {
  Rounded<kRows> together(feedback, format, segment, tiles);
  for (int64_t first = 0; first < rows; first += kRows)
    together.round(values + first * feedback.cols, std::min(kRows, rows - first), encoded + first * row_bytes,
                   row_bytes);
}

}  // namespace

Feedback make_feedback(std::vector<float> h, int64_t cols, const GptqOptions& options, ThreadPool& pool,
                       const GptqTiles& tiles) {
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
    if (factorize(factor, tiles, pool)) break;
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
                std::span<std::byte> encoded, int64_t segment, const GptqTiles& tiles) {
  const int64_t part = segment > 0 ? segment : cols, row_bytes = cols / part * format_row_bytes(format, part);
  CHECK(cols == feedback.cols && static_cast<int64_t>(values.size()) == rows * cols &&
            static_cast<int64_t>(encoded.size()) == rows * row_bytes,
        "{} rows of {}, {} values, {} bytes", rows, cols, values.size(), encoded.size());
  // Rows that do not fill sixteen places would take as long as those that do.
  const int64_t wide = rows % 16 > 8 ? rows : rows / 16 * 16, rest = rows - wide;
  if (wide > 0) round_rows<16>(feedback, format, part, values.data(), wide, encoded.data(), row_bytes, tiles);
  if (rest > 0)
    round_rows<8>(feedback, format, part, values.data() + wide * cols, rest, encoded.data() + wide * row_bytes,
                  row_bytes, tiles);
}

}  // namespace ingot
