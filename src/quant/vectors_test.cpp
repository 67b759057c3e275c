// Every format against blocks and values made by other implementations: tests/data/quant.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "quant/fields.h"
#include "quant/format.h"

namespace ingot {
namespace {

struct Record {
  bool decode = false;  // else encode
  std::string name;
  int64_t blocks = 0, block = 0, bytes = 0;  // of whole rows, a block is a row
  std::vector<uint8_t> data;                 // [blocks · bytes]
  std::vector<float> values;                 // [blocks · block]
};

uint32_t load_u32(const uint8_t* in) {
  return static_cast<uint32_t>(load_u16(in)) | (static_cast<uint32_t>(load_u16(in + 2)) << 16);
}

// The layout is described in tools/make_quant_vectors.py.
std::vector<Record> read_records() {
  std::ifstream file(INGOT_SOURCE_DIR "/tests/data/quant/vectors.bin", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* end = at + text.size();
  std::vector<Record> records;
  while (end - at >= 28) {
    Record r;
    r.decode = std::memcmp(at, "dec ", 4) == 0;
    const char* name = reinterpret_cast<const char*>(at + 4);
    r.name.assign(name, strnlen(name, 12));
    r.blocks = load_u32(at + 16);
    r.block = load_u32(at + 20);
    r.bytes = load_u32(at + 24);
    at += 28;
    if (end - at < r.blocks * (r.bytes + 4 * r.block)) break;
    r.data.assign(at, at + r.blocks * r.bytes);
    at += r.blocks * r.bytes;
    for (int64_t i = 0; i < r.blocks * r.block; ++i, at += 4) r.values.push_back(std::bit_cast<float>(load_u32(at)));
    records.push_back(std::move(r));
  }
  EXPECT_EQ(at, end) << "the file is whole";
  return records;
}

TEST(Vectors, DecodeBitForBit) {
  for (const Record& r : read_records()) {
    if (!r.decode) continue;
    SCOPED_TRACE(r.name);
    const std::optional<Format> format = format_by_name(r.name);
    ASSERT_TRUE(format.has_value());
    if (!format_whole_rows(*format)) {
      ASSERT_EQ(format_block(*format), r.block);
    }
    ASSERT_EQ(format_row_bytes(*format, r.block), r.bytes);
    std::vector<float> out(r.values.size(), -1.0f);
    for (int64_t b = 0; b < r.blocks; ++b)
      format_decode(*format, r.data.data() + b * r.bytes, out.data() + b * r.block, r.block);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(r.values[i]))
          << "value " << i << ": " << out[i] << ", expected " << r.values[i];
    }
  }
}

TEST(Vectors, EncodeByteForByte) {
  int formats = 0;
  for (const Record& r : read_records()) {
    if (r.decode) continue;
    SCOPED_TRACE(r.name);
    const std::optional<Format> format = format_by_name(r.name);
    ASSERT_TRUE(format.has_value());
    std::vector<uint8_t> out(r.data.size(), 0xaa);
    format_encode(*format, r.values.data(), out.data(), r.blocks * r.block);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto byte = static_cast<int64_t>(i);
      ASSERT_EQ(out[i], r.data[i]) << "block " << byte / r.bytes << " byte " << byte % r.bytes;
    }
    ++formats;
  }
  EXPECT_EQ(formats, 9);
}

TEST(Vectors, EveryFormatHasSome) {
  std::set<std::string> names = {"f32"};  // copied, nothing to compare
  for (const Record& r : read_records()) {
    if (r.decode) names.insert(r.name);
  }
#define X(NAME) EXPECT_TRUE(names.contains(NAME::kName)) << NAME::kName << ": add it to tools/make_quant_vectors.py";
  INGOT_FORMATS(X)
#undef X
}

// The conversion without branches is the plain one, for all 65536 halves.
TEST(Fields, LoadF16IsF16ToF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint8_t bytes[2] = {static_cast<uint8_t>(bits & 0xff), static_cast<uint8_t>(bits >> 8)};
    ASSERT_EQ(std::bit_cast<uint32_t>(load_f16(bytes)),
              std::bit_cast<uint32_t>(f16_to_f32(static_cast<uint16_t>(bits))))
        << bits;
  }
}

}  // namespace
}  // namespace ingot
