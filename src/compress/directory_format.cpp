#include "compress/directory_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "quant/fields.h"

namespace ingot {
namespace {

using Kind = DirectoryFormat::Kind;

constexpr int64_t kFp8Block = 128;
constexpr float kLargestFp8 = 448;  // of E4M3

constexpr std::array kFormats = {
    DirectoryFormat{"bf16", Kind::kFloat, Format::kBF16},
    DirectoryFormat{"f16", Kind::kFloat, Format::kF16},
    DirectoryFormat{"f32", Kind::kFloat, Format::kF32},
    DirectoryFormat{"int4", Kind::kInt4, Format::kINT4, 128},
    DirectoryFormat{"int4_g64", Kind::kInt4, Format::kINT4, 64},
    DirectoryFormat{"int4_g32", Kind::kInt4, Format::kINT4, 32},
    DirectoryFormat{"int4_asym", Kind::kInt4, Format::kINT4_ASYM, 128, true},
    DirectoryFormat{"int4_asym_g64", Kind::kInt4, Format::kINT4_ASYM, 64, true},
    DirectoryFormat{"int4_asym_g32", Kind::kInt4, Format::kINT4_ASYM, 32, true},
    DirectoryFormat{"int8", Kind::kInt8, Format::kINT8},
    DirectoryFormat{"fp8", Kind::kFp8, Format::kF8_E4M3},
    DirectoryFormat{"fp8_block", Kind::kFp8Block, Format::kF8_E4M3},
};

void append_scale(std::vector<std::byte>& out, float x, ScaleType type) {
  CHECK(is_scale(x, type), "a scale of {} in {}", x, scale_dtype(type));
  std::byte bytes[4];
  std::memcpy(bytes, &x, 4);
  if (type == ScaleType::kF32) {
    out.insert(out.end(), bytes, bytes + 4);
  } else if (type == ScaleType::kBF16) {
    out.insert(out.end(), bytes + 2, bytes + 4);
  } else {
    uint8_t half[2];
    store_f16(x, half);
    out.insert(out.end(), reinterpret_cast<std::byte*>(half), reinterpret_cast<std::byte*>(half) + 2);
  }
}

size_t scale_bytes(ScaleType type) { return type == ScaleType::kF32 ? 4 : 2; }

void write_rows(const PartFiles& files, const PartRange& part, int64_t first_row, std::span<const std::byte> bytes,
                int64_t row_bytes) {
  files.write(part.file, part.offset + static_cast<uint64_t>(first_row * row_bytes), bytes);
}

// A group of int4: its scale, zero point (8 where there is none) and codes 0…15.
struct Group {
  float d = 0;
  int z = 8;
  uint8_t codes[128] = {};
};

// Groups of the formats' own size lie in a row as the format has them; smaller ones are rounded as rows of their own,
// which is the same to the format.
void read_group(const uint8_t* in, int64_t size, bool zero_points, Group& group) {
  group.d = load_f16(in);
  group.z = zero_points ? in[2] : 8;
  in += zero_points ? INT4_ASYM::kHead : INT4::kHead;
  for (int64_t k = 0; k < size; k += 32, in += 16) {
    for (int64_t i = 0; i < 16; ++i) {
      group.codes[k + i] = in[i] & 15;
      group.codes[k + i + 16] = in[i] >> 4;
    }
  }
}

void store_int4(const DirectoryFormat& format, const TensorJob& job, const Rounder& rounder, ScaleType scales,
                const PartItem& parts, const PartFiles& files) {
  const int64_t groups = job.cols / format.group, head = format.zero_points ? INT4_ASYM::kHead : INT4::kHead;
  const int64_t group_bytes = head + format.group / 2;
  std::vector<std::byte> encoded(static_cast<size_t>(job.rows * groups * group_bytes));
  TensorJob grouped = job;
  grouped.scales = scales;
  if (format.group != INT4::kGroup) grouped.group = format.group;
  rounder.round(grouped, encoded);
  const int64_t words = job.cols / 8, zero_rows = (job.rows + 7) / 8;
  std::vector<uint32_t> packed(static_cast<size_t>(job.rows * words)), zeros(static_cast<size_t>(zero_rows * groups));
  std::vector<std::byte> written;
  Group group;
  for (int64_t g = 0; g < job.rows * groups; ++g) {
    const int64_t row = g / groups, column = g % groups;
    read_group(reinterpret_cast<const uint8_t*>(encoded.data()) + g * group_bytes, format.group, format.zero_points,
               group);
    append_scale(written, group.d, scales);
    zeros[static_cast<size_t>(row / 8 * groups + column)] |= static_cast<uint32_t>(group.z) << row % 8 * 4;
    uint32_t* to = packed.data() + row * words + column * format.group / 8;
    for (int64_t k = 0; k < format.group; ++k) to[k / 8] |= static_cast<uint32_t>(group.codes[k]) << k % 8 * 4;
  }
  write_rows(files, parts[0], job.first_row, std::as_bytes(std::span(packed)), words * 4);
  write_rows(files, parts[1], job.first_row, written, groups * static_cast<int64_t>(scale_bytes(scales)));
  if (format.zero_points) write_rows(files, parts[2], job.first_row / 8, std::as_bytes(std::span(zeros)), groups * 4);
}

// A scale for each row.
void store_int8(const TensorJob& job, const Rounder& rounder, ScaleType scales, const PartItem& parts,
                const PartFiles& files) {
  const int64_t row_bytes = format_row_bytes(Format::kINT8, job.cols);
  std::vector<std::byte> encoded(static_cast<size_t>(job.rows * row_bytes)), codes, written;
  TensorJob scaled = job;
  scaled.scales = scales;
  rounder.round(scaled, encoded);
  codes.reserve(static_cast<size_t>(job.rows * job.cols));
  for (int64_t r = 0; r < job.rows; ++r) {
    const std::byte* row = encoded.data() + r * row_bytes;
    append_scale(written, INT8::scale(reinterpret_cast<const uint8_t*>(row)), scales);
    codes.insert(codes.end(), row + INT8::kHead, row + row_bytes);
  }
  write_rows(files, parts[0], job.first_row, codes, job.cols);
  write_rows(files, parts[1], job.first_row, written, static_cast<int64_t>(scale_bytes(scales)));
}

// `down` × `across` values share a scale.
void store_fp8(const TensorJob& job, std::span<float> values, const Rounder& rounder, ScaleType scales, int64_t down,
               int64_t across, const PartItem& parts, const PartFiles& files) {
  std::vector<std::byte> written;
  for (int64_t r0 = 0; r0 < job.rows; r0 += down) {
    const int64_t r1 = std::min(job.rows, r0 + down);
    for (int64_t c0 = 0; c0 < job.cols; c0 += across) {
      const int64_t c1 = std::min(job.cols, c0 + across);
      float largest = 0;
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c)
          largest = std::max(largest, std::abs(values[static_cast<size_t>(r * job.cols + c)]));
      const float d = scale_round_up(largest / kLargestFp8, scales);
      append_scale(written, d, scales);
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c) {
          float& x = values[static_cast<size_t>(r * job.cols + c)];
          x = d > 0 ? x / d : 0;
        }
    }
  }
  TensorJob scaled = job;
  scaled.values = values;
  std::vector<std::byte> encoded(static_cast<size_t>(job.rows * job.cols));
  rounder.round(scaled, encoded);
  write_rows(files, parts[0], job.first_row, encoded, job.cols);
  const int64_t row_scales = (job.cols + across - 1) / across;
  write_rows(files, parts[1], job.first_row / down, written, row_scales * static_cast<int64_t>(scale_bytes(scales)));
}

JsonObject activations(const char* type, const char* strategy, std::optional<int64_t> group) {
  return {{"dynamic", true},   {"group_size", group ? Json(*group) : Json(nullptr)},
          {"num_bits", 8},     {"strategy", strategy},
          {"symmetric", true}, {"type", type}};
}

}  // namespace

const DirectoryFormat* find_directory_format(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto it = std::ranges::find_if(kFormats, [&](const DirectoryFormat& f) { return f.name == lower; });
  return it == kFormats.end() ? nullptr : &*it;
}

std::vector<std::string> directory_formats() {
  std::vector<std::string> names;
  for (const DirectoryFormat& format : kFormats) names.emplace_back(format.name);
  return names;
}

std::optional<DirectoryFormat> format_for_rows(const DirectoryFormat& format, int64_t cols) {
  if (format.kind != Kind::kInt4) {
    const bool fits = format.kind != Kind::kInt8 || cols % INT8::kBlock == 0;
    return fits ? std::optional(format) : std::nullopt;
  }
  DirectoryFormat smaller = format;
  while (smaller.group > 32 && cols % smaller.group != 0) smaller.group /= 2;
  return cols % smaller.group == 0 ? std::optional(smaller) : std::nullopt;
}

std::string_view scale_dtype(ScaleType type) {
  return type == ScaleType::kBF16 ? "BF16" : type == ScaleType::kF16 ? "F16" : "F32";
}

std::vector<SafeTensorSpec> stored_parts(const DirectoryFormat& format, const std::string& module, int64_t rows,
                                         int64_t cols, ScaleType scales) {
  const std::string weight = module + ".weight", scale = module + ".weight_scale", dtype(scale_dtype(scales));
  switch (format.kind) {
    case Kind::kFloat:
      return {{weight,
               format.format == Format::kBF16  ? "BF16"
               : format.format == Format::kF16 ? "F16"
                                               : "F32",
               {rows, cols}}};
    case Kind::kInt4: {
      const int64_t groups = cols / format.group;
      std::vector<SafeTensorSpec> parts = {{module + ".weight_packed", "I32", {rows, cols / 8}},
                                           {scale, dtype, {rows, groups}}};
      if (format.zero_points) parts.push_back({module + ".weight_zero_point", "I32", {(rows + 7) / 8, groups}});
      parts.push_back({module + ".weight_shape", "I64", {2}});
      return parts;
    }
    case Kind::kInt8:
      return {{weight, "I8", {rows, cols}}, {scale, dtype, {rows, 1}}};
    case Kind::kFp8:
      return {{weight, "F8_E4M3", {rows, cols}}, {scale, dtype, {rows, 1}}};
    case Kind::kFp8Block:
      return {{weight, "F8_E4M3", {rows, cols}},
              {scale, dtype, {(rows + kFp8Block - 1) / kFp8Block, (cols + kFp8Block - 1) / kFp8Block}}};
  }
  return {};
}

int64_t slab_multiple(const DirectoryFormat& format) {
  return format.kind == Kind::kFp8Block ? kFp8Block : format.kind == Kind::kInt4 ? 8 : 1;
}

void store_slab(const DirectoryFormat& format, const TensorJob& job, std::span<float> values, const Rounder& rounder,
                ScaleType scales, const PartItem& parts, const PartFiles& files) {
  CHECK(job.first_row % slab_multiple(format) == 0, "a slab from row {} of {}", job.first_row, format.name);
  switch (format.kind) {
    case Kind::kFloat: {
      const int64_t row_bytes = format_row_bytes(format.format, job.cols);
      std::vector<std::byte> out(static_cast<size_t>(job.rows * row_bytes));
      rounder.round(job, out);
      return write_rows(files, parts[0], job.first_row, out, row_bytes);
    }
    case Kind::kInt4:
      return store_int4(format, job, rounder, scales, parts, files);
    case Kind::kInt8:
      return store_int8(job, rounder, scales, parts, files);
    case Kind::kFp8:
      return store_fp8(job, values, rounder, scales, 1, job.cols, parts, files);
    case Kind::kFp8Block:
      return store_fp8(job, values, rounder, scales, kFp8Block, kFp8Block, parts, files);
  }
}

std::string_view compression_name(const DirectoryFormat& format) {
  return format.kind == Kind::kInt4   ? "pack-quantized"
         : format.kind == Kind::kInt8 ? "int-quantized"
                                      : "float-quantized";
}

JsonObject config_group(const DirectoryFormat& format, JsonArray targets) {
  const bool ints = format.kind == Kind::kInt4 || format.kind == Kind::kInt8;
  const bool block = format.kind == Kind::kFp8Block;
  JsonObject weights{{"dynamic", false},
                     {"group_size", format.group > 0 ? Json(format.group) : Json(nullptr)},
                     {"num_bits", format.kind == Kind::kInt4 ? 4 : 8},
                     {"strategy", format.kind == Kind::kInt4 ? "group"
                                  : block                    ? "block"
                                                             : "channel"},
                     {"symmetric", !format.zero_points},
                     {"type", ints ? "int" : "float"}};
  if (block) weights["block_structure"] = JsonArray{kFp8Block, kFp8Block};
  Json inputs = nullptr;
  if (format.kind == Kind::kInt8) inputs = activations("int", "token", {});
  if (format.kind == Kind::kFp8) inputs = activations("float", "token", {});
  if (block) inputs = activations("float", "group", kFp8Block);
  return {{"format", compression_name(format)},
          {"input_activations", inputs},
          {"output_activations", nullptr},
          {"targets", std::move(targets)},
          {"weights", weights}};
}

}  // namespace ingot
