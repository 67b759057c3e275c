// Latent attention's up-projection: the rows of its heads apart, those of keys turned around.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked_size.h"
#include "base/error.h"
#include "weights/weights.h"

namespace ingot {

// A matrix of heads · rows that is stored so, or as [heads, rows, cols].
Weight Weights::stack(const std::string& name, int64_t heads, int64_t rows, int64_t cols) {
  const StoredWeight* stored = source_->find(name, {heads * rows, cols});
  const std::vector<int64_t> deep = {heads, rows, cols};
  if (stored == nullptr || stored->shape != deep) return take(name, heads * rows, cols);
  find(name, deep);
  Weight weight;
  weight.name = name;
  weight.format = stored->format;
  weight.rows = heads * rows;
  weight.cols = cols;
  weight.data = stored->data;
  weight.mapped = stored->mapped;
  if (cols % format_block(weight.format)) {
    throw Error("[weights] '{}': rows of {} are no multiple of the block of {}", name, cols,
                format_name(weight.format));
  }
  weight.row_bytes = format_row_bytes(weight.format, cols);
  align(weight);
  return weight;
}

// Of each head the rows [first, first + rows), as they are stored, in a copy.
Weight Weights::rows_of_heads(const Weight& all, int64_t heads, int64_t first, int64_t rows) {
  const int64_t head = all.rows / heads;
  Weight part = all;
  part.rows = heads * rows;
  part.mapped = false;
  std::byte* out = allocate((CheckedSize(part.rows, "[weights] bytes of a tensor") * all.row_bytes).as_int64());
  for (int64_t h = 0; h < heads; ++h)
    std::memcpy(out + h * rows * all.row_bytes, all.row(h * head + first), static_cast<size_t>(rows * all.row_bytes));
  part.data = out;
  if (all.scale == nullptr || all.scale_rows >= all.rows) return part;
  const int64_t blocks = rows / all.scale_rows, stride = all.scale_stride;
  const CheckedSize bytes = CheckedSize(heads, "[weights] scales of a tensor") * blocks * stride * sizeof(float);
  auto* scales = reinterpret_cast<float*>(allocate(bytes.as_int64()));
  for (int64_t h = 0; h < heads; ++h)
    std::copy_n(all.scale + (h * head + first) / all.scale_rows * stride, blocks * stride,
                scales + h * blocks * stride);
  part.scale = scales;
  return part;
}

// Of each head the first `rows`, turned around: [heads · cols, rows].
Weight Weights::turned_heads(const Weight& all, int64_t heads, int64_t rows) {
  const int64_t head = all.rows / heads, cols = all.cols;
  const bool blocks = all.scale != nullptr && (all.scale_rows < all.rows || all.scale_cols < cols);
  // Scales of whole blocks turn with them; of a row or of blocks that a head's border cuts they are multiplied in.
  const bool turns = blocks && all.scale_rows > 1 && rows % all.scale_rows == 0 && cols % all.scale_cols == 0;
  const bool plain = format_block(all.format) == 1 && (!blocks || turns);
  Weight turned = all;
  turned.rows = heads * cols;
  turned.cols = rows;
  turned.mapped = false;
  if (!plain) {
    turned.format = Format::kF32;
    turned.scale = nullptr;
  }
  const int64_t size = format_block_bytes(turned.format);
  turned.row_bytes = rows * size;
  std::byte* out = allocate((CheckedSize(turned.rows, "[weights] bytes of a tensor") * turned.row_bytes).as_int64());
  std::vector<float> values(static_cast<size_t>(cols));
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t r = 0; r < rows; ++r) {
      const std::byte* from = all.row(h * head + r);
      if (!plain) {
        all.decode_row(h * head + r, values.data());
        from = reinterpret_cast<const std::byte*>(values.data());
      }
      std::byte* to = out + (h * cols * rows + r) * size;
      for (int64_t c = 0; c < cols; ++c)
        std::memcpy(to + c * turned.row_bytes, from + c * size, static_cast<size_t>(size));
    }
  }
  turned.data = out;
  if (turned.scale == nullptr) return turned;
  if (!blocks) {  // one for all
    turned.scale_rows = turned.rows;
    turned.scale_cols = turned.cols;
    return turned;
  }
  const int64_t down = cols / all.scale_cols, across = rows / all.scale_rows;
  const CheckedSize bytes = CheckedSize(heads, "[weights] scales of a tensor") * down * across * sizeof(float);
  auto* scales = reinterpret_cast<float*>(allocate(bytes.as_int64()));
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t d = 0; d < down; ++d) {
      for (int64_t a = 0; a < across; ++a)
        scales[(h * down + d) * across + a] = all.scale[(h * head / all.scale_rows + a) * all.scale_stride + d];
    }
  }
  turned.scale = scales;
  turned.scale_rows = all.scale_cols;
  turned.scale_cols = all.scale_rows;
  turned.scale_stride = across;
  return turned;
}

UpProjection Weights::up_projection(const std::string& path, int heads, int64_t nope, int64_t v_dim, int64_t rank) {
  const std::string key = path + ".k_b_proj.weight", value = path + ".v_b_proj.weight";
  if (source_->generates() || has(key)) return {stack(key, heads, rank, nope), stack(value, heads, v_dim, rank)};
  Weight all = take(path + ".kv_b_proj.weight", heads * (nope + v_dim), rank);
  // Blocks of rows with one scale end where a head's keys end, and its values: 64 rows of 128 in heads of 192 + 256.
  if (all.scale_rows < all.rows) {
    cut_scales(all, nope);
    cut_scales(all, nope + v_dim);
  }
  return {turned_heads(all, heads, nope), rows_of_heads(all, heads, nope, v_dim)};
}

}  // namespace ingot
