// The forms in which files hold the experts of a layer, made into one matrix for each.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked_size.h"
#include "base/error.h"
#include "tensor/memory.h"
#include "weights/random_values.h"
#include "weights/scale_blocks.h"
#include "weights/weights.h"

namespace ingot {

// A tensor of all experts of a layer, of which some rows, or columns, are wanted.
struct Weights::Stack {
  std::string name;
  int64_t count = 0;
  bool transposed = false;
  // Of the stored rows, which is `rows` · `step` of each expert, row n of what is wanted is first + n · step.
  int64_t stored_rows = 0, first = 0, step = 1;

  int64_t row(int64_t n) const { return first + n * step; }
};

namespace {

// What files call the parts, where each expert is a tensor, or all are one.
constexpr std::array<const char*, 2> kNames[] = {{"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};
// Gate and up in one tensor, and the down that goes with it.
constexpr std::array<const char*, 2> kJoined = {"gate_up_proj", "input_linear"};
constexpr std::array<const char*, 2> kDowns = {"down_proj", "output_linear"};

std::string expert_name(const std::string& path, int64_t e, const char* part) {
  return fmt::format("{}.{}.{}.weight", path, e, part);
}

}  // namespace

// Scales beside a stack: [E] one for each expert, [E, N / a, K / b] one for each block; turned as the stack is.
void Weights::stack_scales(std::vector<Weight>& all, const Stack& stack, int64_t cols) {
  const std::string scales = has(stack.name + "_scale_inv") ? stack.name + "_scale_inv" : stack.name + "_scale";
  if (!has(scales)) return;
  const StoredWeight& stored = *source_->find(scales, {});
  std::vector<int64_t> shape = stored.shape;
  shape.resize(3, 1);
  const int64_t down = shape[stack.transposed ? 2 : 1], across = shape[stack.transposed ? 1 : 2];
  if (stored.shape.empty() || stored.shape.size() > 3 || shape[0] != stack.count || down < 1 || across < 1 ||
      down > stack.stored_rows || across > cols || format_block(stored.format) != 1) {
    throw Error("[weights] '{}' is [{}] in {}, which does not fit {} experts of [{}, {}]", scales,
                fmt::join(stored.shape, ", "), format_name(stored.format), stack.count, stack.stored_rows, cols);
  }
  const int64_t block = scale_block(scales, stack.stored_rows, down), of_expert = down * across;
  if (down > 1 && block % stack.step && block != 1)
    throw Error("[weights] '{}': blocks of {} rows do not fit every {}th", scales, block, stack.step);
  taken_.insert(scales);
  const std::string_view name = stack.name;
  taken_.insert(std::string(name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name) + ".input_scale");
  // A row more: where every second is passed over, the last one's is copied with what follows it.
  const CheckedSize checked(stack.count, "[weights] scales of a tensor");
  const int64_t all_values = (checked * of_expert + across).as_int64();
  auto* values = reinterpret_cast<float*>(allocate(((checked * of_expert + across) * sizeof(float)).as_int64()));
  std::fill_n(values + all_values - across, across, 0.0f);
  std::vector<float> row(static_cast<size_t>(of_expert));
  for (int64_t e = 0; e < stack.count; ++e, values += of_expert) {
    const std::byte* from = stored.data + e * of_expert * format_block_bytes(stored.format);
    format_decode(stored.format, from, row.data(), of_expert);
    for (int64_t d = 0; d < down; ++d)
      for (int64_t a = 0; a < across; ++a)
        values[d * across + a] = row[static_cast<size_t>(stack.transposed ? a * down + d : d * across + a)];
    Weight& weight = all[static_cast<size_t>(e)];
    check_scales(scales, weight.format, of_expert, row);
    Weight whole = weight;
    whole.rows = stack.stored_rows;
    whole.scale = values;
    whole.scale_rows = block;
    whole.scale_cols = scale_block(scales, cols, across);
    whole.scale_stride = across;
    if (down > 1) cut_scales(whole, stack.first);
    weight.scale_cols = whole.scale_cols;
    // Of every second row a block has half as many; where each row has its own, every second is passed over.
    const bool passed = whole.scale_rows % stack.step != 0;
    weight.scale_stride = passed ? across * stack.step : across;
    weight.scale_rows = down == 1 ? weight.rows : passed ? 1 : whole.scale_rows / stack.step;
    weight.scale = whole.scale + (down == 1 ? 0 : stack.first / whole.scale_rows * across);
  }
}

// Experts as they lie in the tensor, without a copy.
std::vector<Weight> Weights::cut_stack(const Stack& stack, int64_t rows, int64_t cols) {
  const StoredWeight& stored = find(stack.name, {stack.count, stack.stored_rows, cols});
  if (cols % format_block(stored.format)) {
    throw Error("[weights] '{}': rows of {} are no multiple of the block of {}", stack.name, cols,
                format_name(stored.format));
  }
  const int64_t row_bytes = format_row_bytes(stored.format, cols);
  std::vector<Weight> all;
  for (int64_t e = 0; e < stack.count; ++e) {
    Weight weight;
    weight.name = fmt::format("{}[{}]", stack.name, e);
    weight.format = stored.format;
    weight.rows = rows;
    weight.cols = cols;
    weight.row_bytes = row_bytes;
    weight.data = stored.data + (e * stack.stored_rows + stack.first) * row_bytes;
    weight.mapped = stored.mapped;
    weight.random = stored.random;
    weight.random.key = expert_key(stored.random.key, e);
    align(weight);
    all.push_back(std::move(weight));
  }
  stack_scales(all, stack, cols);
  return all;
}

// Turned around, or rows taken out of their order: one copy for all.
std::vector<Weight> Weights::turn_stack(const Stack& stack, int64_t rows, int64_t cols) {
  const std::vector<int64_t> shape = stack.transposed ? std::vector{stack.count, cols, stack.stored_rows}
                                                      : std::vector{stack.count, stack.stored_rows, cols};
  const StoredWeight& stored = find(stack.name, shape);
  if (format_block(stored.format) != 1 || stored.random) {
    throw Error("[weights] '{}' is stored in another order in {}: not supported", stack.name,
                format_name(stored.format));
  }
  const int64_t size = format_block_bytes(stored.format), expert = rows * cols * size;
  std::byte* out = allocate((CheckedSize(stack.count, "[weights] bytes of a tensor") * rows * cols * size).as_int64());
  std::vector<Weight> all;
  for (int64_t e = 0; e < stack.count; ++e) {
    const std::byte* from = stored.data + e * stack.stored_rows * cols * size;
    const auto copy = [&](int64_t n, int64_t k) {
      const int64_t at = stack.transposed ? k * stack.stored_rows + stack.row(n) : stack.row(n) * cols + k;
      std::memcpy(out + e * expert + (n * cols + k) * size, from + at * size, static_cast<size_t>(size));
    };
    // In tiles: a column of single values would take a line of the cache for each.
    constexpr int64_t kTile = 32;
    for (int64_t n0 = 0; n0 < rows; n0 += kTile)
      for (int64_t k0 = 0; k0 < cols; k0 += kTile)
        for (int64_t k = k0; k < std::min(cols, k0 + kTile); ++k)
          for (int64_t n = n0; n < std::min(rows, n0 + kTile); ++n) copy(n, k);
    Weight weight;
    weight.name = fmt::format("{}[{}]", stack.name, e);
    weight.format = stored.format;
    weight.rows = rows;
    weight.cols = cols;
    weight.row_bytes = cols * size;
    weight.data = out + e * expert;
    all.push_back(std::move(weight));
  }
  if (stored.mapped) give_back_pages(stored.data, stack.count * stack.stored_rows * cols * size);
  stack_scales(all, stack, cols);
  return all;
}

// MXFP4 as it is published beside other formats: [E, N, K / 32, 16] bytes of nibbles, value 2i in the low one of byte
// i, and [E, N, K / 32] exponents. Here a block's exponent lies before its nibbles, and the low ones are its first
// half.
std::vector<Weight> Weights::join_blocks(const Stack& stack, int64_t rows, int64_t cols) {
  constexpr int64_t kBlock = MXFP4::kBlock, kNibbles = kBlock / 2;
  if (cols % kBlock) throw Error("[weights] '{}': rows of {} are no multiple of {}", stack.name, cols, kBlock);
  const int64_t blocks = cols / kBlock;
  const auto bytes_of = [&](const std::string& name, const std::vector<int64_t>& shape) {
    const StoredWeight* stored = source_->find(name, shape);
    if (stored == nullptr) throw Error("[weights] '{}' is missing", name);
    if (!stored->bytes || stored->shape != shape) {
      throw Error("[weights] '{}' is [{}], expected bytes of [{}]", name, fmt::join(stored->shape, ", "),
                  fmt::join(shape, ", "));
    }
    CheckedSize n(1, "[weights] bytes of a tensor");
    for (const int64_t d : shape) n *= d;
    if (taken_.insert(name).second) taken_bytes_ += n.as_int64();
    return stored->data;
  };
  const std::byte* nibbles = bytes_of(stack.name + "_blocks", {stack.count, stack.stored_rows, blocks, kNibbles});
  const std::byte* exponents = bytes_of(stack.name + "_scales", {stack.count, stack.stored_rows, blocks});
  const int64_t row_bytes = blocks * MXFP4::kBytes;
  std::byte* out = allocate((CheckedSize(stack.count, "[weights] bytes of a tensor") * rows * row_bytes).as_int64());
  std::vector<Weight> all;
  for (int64_t e = 0; e < stack.count; ++e) {
    Weight weight;
    weight.name = fmt::format("{}[{}]", stack.name, e);
    weight.format = Format::kMXFP4;
    weight.rows = rows;
    weight.cols = cols;
    weight.row_bytes = row_bytes;
    weight.data = out;
    for (int64_t n = 0; n < rows; ++n) {
      const int64_t from = (e * stack.stored_rows + stack.row(n)) * blocks;
      for (int64_t b = from; b < from + blocks; ++b, out += MXFP4::kBytes) {
        const auto* in = reinterpret_cast<const uint8_t*>(nibbles + b * kNibbles);
        auto* to = reinterpret_cast<uint8_t*>(out);
        to[0] = static_cast<uint8_t>(exponents[b]);
        const auto nibble = [&](int64_t i) { return static_cast<unsigned>(in[i / 2] >> (i % 2 * 4) & 15); };
        for (int64_t i = 0; i < kNibbles; ++i) to[1 + i] = static_cast<uint8_t>(nibble(i) | nibble(i + kNibbles) << 4);
      }
    }
    all.push_back(std::move(weight));
  }
  return all;
}

std::vector<Weight> Weights::experts(const std::string& path, ExpertPart part, int64_t count, int64_t rows,
                                     int64_t cols, const ExpertForm& form) {
  const auto p = static_cast<size_t>(part);
  for (const char* name : kNames[p]) {
    if (!has(expert_name(path, 0, name))) continue;
    std::vector<Weight> all;
    for (int64_t e = 0; e < count; ++e) all.push_back(take(expert_name(path, e, name), rows, cols));
    return all;
  }
  const bool down = part == ExpertPart::kDown;
  const std::string own = fmt::format("{}.{}.weight", path, kNames[p][0]);
  if (has(own)) return cut_stack({.name = own, .count = count, .stored_rows = rows}, rows, cols);
  Stack stack{.name = {}, .count = count, .transposed = form.transposed, .stored_rows = down ? rows : 2 * rows};
  if (!down) {
    stack.first = form.interleaved ? (part == ExpertPart::kUp ? 1 : 0) : (part == ExpertPart::kUp ? rows : 0);
    stack.step = form.interleaved ? 2 : 1;
  }
  for (const char* name : down ? kDowns : kJoined) {
    for (const char* suffix : {"", ".weight"}) {
      stack.name = fmt::format("{}.{}{}", path, name, suffix);
      if (has(stack.name + "_blocks")) return join_blocks(stack, rows, cols);
      if (!has(stack.name)) continue;
      return stack.transposed || stack.step != 1 ? turn_stack(stack, rows, cols) : cut_stack(stack, rows, cols);
    }
  }
  return cut_stack({.name = own, .count = count, .stored_rows = rows}, rows, cols);
}

Weight Weights::expert_bias(const std::string& path, ExpertPart part, int64_t count, int64_t rows,
                            const ExpertForm& form) {
  const auto p = static_cast<size_t>(part);
  const bool down = part == ExpertPart::kDown;
  std::string name = fmt::format("{}.{}.bias", path, kNames[p][0]);
  int64_t stored_rows = rows, first = 0, step = 1;
  const std::string joined = fmt::format("{}.{}_bias", path, down ? kDowns[0] : kJoined[0]);
  if (!has(name) && has(joined)) {
    name = joined;
    stored_rows = down ? rows : 2 * rows;
    step = form.interleaved && !down ? 2 : 1;
    if (part == ExpertPart::kUp) first = form.interleaved ? 1 : rows;
  }
  const StoredWeight& stored = find(name, {count, stored_rows});
  if (format_block(stored.format) != 1) {
    throw Error("[weights] bias '{}' is stored as {}", name, format_name(stored.format));
  }
  Weight weight;
  weight.name = name;
  weight.rows = 1;
  weight.cols = count * rows;
  weight.row_bytes = weight.cols * static_cast<int64_t>(sizeof(float));
  auto* values = reinterpret_cast<float*>(allocate(weight.row_bytes));
  std::vector<float> row(static_cast<size_t>(stored_rows));
  for (int64_t e = 0; e < count; ++e) {
    const int64_t bytes = format_row_bytes(stored.format, stored_rows);
    format_decode(stored.format, stored.data + e * bytes, row.data(), stored_rows);
    for (int64_t n = 0; n < rows; ++n) values[e * rows + n] = row[static_cast<size_t>(first + n * step)];
  }
  weight.data = reinterpret_cast<const std::byte*>(values);
  return weight;
}

}  // namespace ingot
