#include "weights/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "base/check.h"
#include "base/checked_size.h"
#include "base/error.h"
#include "tensor/memory.h"
#include "tensor/row_pages.h"
#include "weights/random_values.h"
#include "weights/scale_blocks.h"

namespace ingot {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t product(const std::vector<int64_t>& shape) {
  CheckedSize n(1, "[weights] values of a tensor");
  for (const int64_t d : shape) n *= d;
  return n.as_int64();
}

// Leading ones may be there or not: GGUF stores a matrix of one row as a vector, and some publish vectors as matrices.
bool same_shape(const std::vector<int64_t>& stored, const std::vector<int64_t>& wanted) {
  const auto without_ones = [](const std::vector<int64_t>& shape) {
    auto first = shape.begin();
    while (first != shape.end() && *first == 1) ++first;
    return std::vector<int64_t>(first, shape.end());
  };
  return stored == wanted || (stored.size() != wanted.size() && without_ones(stored) == without_ones(wanted));
}

bool plain(Format format) { return format_block(format) == 1; }

int64_t head_rows(const std::string& name, int64_t rows, int heads) {
  if (rows % (2 * heads)) throw Error("[weights] '{}': {} rows are not {} heads", name, rows, heads);
  return rows / heads;
}

// [cols, rows] values of kBytes to [rows, cols], in tiles: a column of single values would take a line of the cache for
// each, and a page of addresses.
template <size_t kBytes>
void turn_around(const std::byte* from, int64_t rows, int64_t cols, std::byte* out) {
  constexpr int64_t kTile = 32, kSize = kBytes;
  for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
    for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
      const int64_t c1 = std::min(cols, c0 + kTile), r1 = std::min(rows, r0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c)
          std::memcpy(out + (r * cols + c) * kSize, from + (c * rows + r) * kSize, kBytes);
      }
    }
  }
}

// The weight was copied: its pages of the file would be in memory beside the copy until all is loaded, 28 MB of a model
// of 270 MB in 16-bit floats.
void leave_file(Weight& weight) {
  if (weight.mapped) give_back_pages(weight.data, weight.bytes());
  weight.mapped = false;
}

}  // namespace

Weights::Weights(std::unique_ptr<WeightSource> source, int rank, int ranks)
    : source_(std::move(source)), ranks_(ranks) {
  CHECK(rank == 0 && ranks == 1, "rank {} of {}: one rank is supported", rank, ranks);
}

const StoredWeight& Weights::find(const std::string& name, const std::vector<int64_t>& wanted) {
  const StoredWeight* stored = source_->find(name, wanted);
  if (!stored) throw Error("[weights] '{}' {} is missing", name, shape_text(wanted));
  if (stored->bytes) throw Error("[weights] '{}' is stored as plain bytes, not as numbers", name);
  if (!same_shape(stored->shape, wanted)) {
    throw Error("[weights] '{}' is {}, expected {}", name, shape_text(stored->shape), shape_text(wanted));
  }
  const int64_t cols = wanted.empty() ? 1 : wanted.back();
  // Rows that are no whole number of blocks are refused by take().
  if (taken_.insert(name).second && cols > 0 && cols % format_block(stored->format) == 0) {
    taken_bytes_ += product(wanted) / cols * format_row_bytes(stored->format, cols);
  }
  return *stored;
}

std::byte* Weights::allocate(int64_t bytes) {
  memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes)));
  copied_bytes_ += bytes;
  return memory_.back().get();
}

Weight Weights::take(const std::string& name, int64_t rows, int64_t cols, const TakeOptions& options) {
  const int64_t stored_rows = options.stored_rows ? options.stored_rows : rows;
  CHECK(options.row_begin >= 0 && options.row_begin + rows <= stored_rows, "{}: rows {} + {} of {}", name,
        options.row_begin, rows, stored_rows);
  const StoredWeight& stored =
      find(name, options.transposed ? std::vector{cols, stored_rows} : std::vector{stored_rows, cols});
  Weight weight;
  weight.name = name;
  weight.rows = stored_rows;
  weight.cols = cols;
  weight.format = stored.format;
  weight.data = stored.data;
  weight.mapped = stored.mapped;
  weight.random = stored.random;
  // What is not there cannot be moved.
  CHECK(!stored.random || (!options.transposed && rows == stored_rows), "part of random '{}'", name);
  if (options.transposed) {
    transpose(weight, stored);
  } else {
    if (cols % format_block(weight.format)) {
      throw Error("[weights] '{}': rows of {} are no multiple of the block of {}", name, cols,
                  format_name(weight.format));
    }
    weight.row_bytes = format_row_bytes(weight.format, cols);
  }
  attach_scales(weight, name, options.row_begin, stored_rows);
  weight.data += options.row_begin * weight.row_bytes;
  weight.rows = rows;
  if (options.heads && source_->permuted_qk()) {
    if (weight.scale && weight.scale_rows < weight.rows)
      throw Error("[weights] '{}': rows in the order of rotation have scales of their own", name);
    CHECK(!options.transposed, "{}: permuted rows, transposed", name);
    weight.head_rows = head_rows(name, rows, options.heads);
  }
  align(weight);
  if (options.as_f32) decode(weight);
  return weight;
}

void Weights::decode(Weight& weight) {
  if (weight.format == Format::kF32 && weight.scale == nullptr) return;
  if (weight.random)
    throw Error("[weights] '{}' is random in {}, F32 is wanted", weight.name, format_name(weight.format));
  Weight f32;
  f32.name = weight.name;
  f32.rows = weight.rows;
  f32.cols = weight.cols;
  f32.row_bytes = weight.cols * static_cast<int64_t>(sizeof(float));
  std::byte* out = allocate(f32.bytes());
  for (int64_t r = 0; r < weight.rows; ++r) weight.decode_row(r, reinterpret_cast<float*>(out + r * f32.row_bytes));
  leave_file(weight);
  f32.data = out;
  weight = std::move(f32);
}

Weight Weights::vector(const std::string& name, int64_t n, float offset, const TakeOptions& options) {
  const int64_t stored_n = options.stored_rows ? options.stored_rows : n;
  const StoredWeight& stored = find(name, {stored_n});
  if (!plain(stored.format)) throw Error("[weights] vector '{}' is stored as {}", name, format_name(stored.format));
  Weight weight;
  weight.name = name;
  weight.rows = 1;
  weight.cols = n;
  weight.row_bytes = n * static_cast<int64_t>(sizeof(float));
  auto* values = reinterpret_cast<float*>(allocate(weight.row_bytes));
  const std::byte* from = stored.data + options.row_begin * format_block_bytes(stored.format);
  if (options.heads && source_->permuted_qk()) {
    // A bias has one value where the matrix has a row.
    std::vector<float> kept(static_cast<size_t>(n));
    format_decode(stored.format, from, kept.data(), n);
    Weight order;
    order.head_rows = head_rows(name, n, options.heads);
    for (int64_t i = 0; i < n; ++i) values[i] = kept[static_cast<size_t>(order.stored_row(i))];
  } else {
    format_decode(stored.format, from, values, n);
  }
  for (int64_t i = 0; i < n; ++i) values[i] += offset;
  weight.data = reinterpret_cast<const std::byte*>(values);
  return weight;
}

Weight Weights::ones(const std::string& name, int64_t n) {
  Weight weight;
  weight.name = name;
  weight.rows = 1;
  weight.cols = n;
  weight.row_bytes = n * static_cast<int64_t>(sizeof(float));
  auto* values = reinterpret_cast<float*>(allocate(weight.row_bytes));
  std::fill_n(values, n, 1.0f);
  weight.data = reinterpret_cast<const std::byte*>(values);
  return weight;
}

// Scales that Hugging Face stores beside 8-bit floats: one for the tensor, one for each row, or one for each block.
void Weights::attach_scales(Weight& weight, const std::string& name, int64_t row_begin, int64_t stored_rows) {
  if (!name.ends_with(".weight")) return;
  for (const char* suffix : {"_scale_inv", "_scale"}) {
    if (!source_->has(name + suffix)) continue;
    const StoredWeight* stored = source_->find(name + suffix, {});
    if (!plain(stored->format))
      throw Error("[weights] '{}' is stored as {}", stored->name, format_name(stored->format));
    const std::vector<int64_t>& shape = stored->shape;
    const int64_t n = product(shape);
    auto* values = reinterpret_cast<float*>(allocate(std::max<int64_t>(n, 1) * static_cast<int64_t>(sizeof(float))));
    format_decode(stored->format, stored->data, values, n);
    taken_.insert(stored->name);
    taken_.insert(name.substr(0, name.size() - 7) + ".input_scale");
    const int64_t down = shape.empty() ? 1 : shape[0];
    const int64_t across = shape.size() < 2 ? 1 : shape[1];
    if (shape.size() > 2 || down < 1 || across < 1 || down > stored_rows || across > weight.cols) {
      throw Error("[weights] '{}' is {}, which does not divide [{}, {}]", stored->name, shape_text(shape), stored_rows,
                  weight.cols);
    }
    check_scales(stored->name, weight.format, n, {values, static_cast<size_t>(n)});
    weight.scale = values;
    weight.scale_rows = scale_block(stored->name, stored_rows, down);
    weight.scale_cols = scale_block(stored->name, weight.cols, across);
    weight.scale_stride = across;
    if (down > 1) {
      cut_scales(weight, row_begin);
      weight.scale += row_begin / weight.scale_rows * across;
    }
    return;
  }
}

void Weights::cut_scales(Weight& weight, int64_t at) {
  if (weight.scale == nullptr || at % weight.scale_rows == 0) return;
  const int64_t unit = std::gcd(weight.scale_rows, at), down = (weight.rows + unit - 1) / unit,
                stride = weight.scale_stride;
  // A row more than there are, as stack_scales() has.
  const CheckedSize bytes = (CheckedSize(down, "[weights] scales of a tensor") + 1) * stride * sizeof(float);
  auto* finer = reinterpret_cast<float*>(allocate(bytes.as_int64()));
  for (int64_t r = 0; r < down; ++r)
    std::copy_n(weight.scale + r * unit / weight.scale_rows * stride, stride, finer + r * stride);
  std::fill_n(finer + down * stride, stride, 0.0f);
  weight.scale = finer;
  weight.scale_rows = unit;
}

Weight Weights::rows_of(const Weight& matrix, int64_t first, int64_t count) {
  CHECK(first >= 0 && count > 0 && first + count <= matrix.rows, "rows {} + {} of {}", first, count, matrix.rows);
  CHECK(matrix.head_rows == 0 || (first % matrix.head_rows == 0 && count % matrix.head_rows == 0),
        "rows {} + {} of heads of {}", first, count, matrix.head_rows);
  Weight part = matrix;
  part.rows = count;
  part.data += first * matrix.row_bytes;
  if (matrix.scale == nullptr || matrix.scale_rows >= matrix.rows) return part;
  part.rows = matrix.rows;
  cut_scales(part, first);
  part.rows = count;
  part.scale += first / part.scale_rows * part.scale_stride;
  return part;
}

Weight Weights::columns_of(const Weight& matrix, int64_t first, int64_t count) {
  const Format format = matrix.format;
  CHECK(first >= 0 && count > 0 && first + count <= matrix.cols && !format_whole_rows(format), "columns {} + {} of {}",
        first, count, matrix.cols);
  CHECK(first % format_block(format) == 0 && count % format_block(format) == 0, "columns {} + {} in blocks of {}",
        first, count, format_block(format));
  Weight part = matrix;
  part.cols = count;
  part.row_bytes = format_row_bytes(format, count);
  part.mapped = false;
  if (matrix.random) {
    // A device makes them, in rows of `count`: values of their own, no others' columns.
    part.data += first == 0 ? 0 : format_row_bytes(format, first);
    part.random.key += static_cast<uint64_t>(kRandomRows * first);
    return part;
  }
  std::byte* out = allocate((CheckedSize(part.rows, "[weights] bytes of a tensor") * part.row_bytes).as_int64());
  const std::byte* from = matrix.data + (first == 0 ? 0 : format_row_bytes(format, first));
  if (matrix.mapped) want_pages_of_rows(from, matrix.row_bytes, part.rows, part.row_bytes);
  for (int64_t r = 0; r < part.rows; ++r)
    std::memcpy(out + r * part.row_bytes, from + r * matrix.row_bytes, static_cast<size_t>(part.row_bytes));
  if (matrix.mapped) give_back_pages(matrix.data, matrix.bytes());
  part.data = out;
  if (matrix.scale == nullptr || matrix.scale_cols >= matrix.cols) return part;
  CHECK(first % matrix.scale_cols == 0, "columns from {} in scales of {}", first, matrix.scale_cols);
  part.scale += first / matrix.scale_cols;
  return part;
}

Weight Weights::blocks_of(const Weight& vector, int64_t width, std::span<const int32_t> blocks) {
  CHECK(vector.format == Format::kF32 && vector.rows == 1, "'{}' is no vector", vector.name);
  const int64_t bytes = width * static_cast<int64_t>(sizeof(float));
  Weight part = vector;
  part.cols = width * static_cast<int64_t>(blocks.size());
  part.row_bytes = bytes * static_cast<int64_t>(blocks.size());
  part.mapped = false;
  std::byte* values = allocate(part.row_bytes);
  part.data = values;
  for (const int32_t block : blocks) {
    CHECK(block >= 0 && (block + 1) * width <= vector.cols, "block {} of {} values", block, vector.cols);
    std::memcpy(values, vector.data + block * bytes, static_cast<size_t>(bytes));
    values += bytes;
  }
  return part;
}

Weight Weights::values_of(const Weight& vector, int64_t first, int64_t count, int64_t blocks) {
  const int64_t width = vector.cols / blocks, size = static_cast<int64_t>(sizeof(float));
  CHECK(vector.format == Format::kF32 && vector.rows == 1 && first + count <= width, "values {} + {} of {}", first,
        count, width);
  Weight part = vector;
  part.cols = count * blocks;
  part.row_bytes = part.cols * size;
  part.data += first * size;
  if (blocks == 1) return part;
  std::byte* values = allocate(part.row_bytes);
  for (int64_t b = 0; b < blocks; ++b)
    std::copy_n(vector.data + (b * width + first) * size, count * size, values + b * count * size);
  part.data = values;
  return part;
}

void Weights::transpose(Weight& weight, const StoredWeight& stored) {
  if (!plain(stored.format)) {
    throw Error("[weights] '{}' is stored transposed in {}: not supported", weight.name, format_name(stored.format));
  }
  const int64_t rows = weight.rows, cols = weight.cols, size = format_block_bytes(stored.format);
  std::byte* out = allocate((CheckedSize(rows, "[weights] bytes of a tensor") * cols * size).as_int64());
  const auto turn = [&](auto bytes) { turn_around<decltype(bytes)::value>(stored.data, rows, cols, out); };
  if (size == 1) turn(std::integral_constant<size_t, 1>{});
  if (size == 2) turn(std::integral_constant<size_t, 2>{});
  if (size == 4) turn(std::integral_constant<size_t, 4>{});
  CHECK(size == 1 || size == 2 || size == 4, "values of {} bytes", size);
  weight.row_bytes = cols * size;
  leave_file(weight);
  weight.data = out;
}

// Kernels read plain formats as arrays of their element: a file may place them on any byte.
void Weights::align(Weight& weight) {
  if (!plain(weight.format)) return;
  const auto address = reinterpret_cast<uintptr_t>(weight.data);
  if (address % static_cast<uintptr_t>(format_block_bytes(weight.format)) == 0) return;
  std::byte* out = allocate(weight.bytes());
  std::memcpy(out, weight.data, static_cast<size_t>(weight.bytes()));
  leave_file(weight);
  weight.data = out;
}

void Weights::finish() const {
  std::vector<std::string> unused;
  for (const std::string& name : source_->names()) {
    if (!taken_.contains(name)) unused.push_back(name);
  }
  if (unused.empty()) return;
  throw Error("[weights] {} stored weights are not part of this architecture, the first is '{}'", unused.size(),
              unused[0]);
}

}  // namespace ingot
