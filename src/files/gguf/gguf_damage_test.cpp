// Damaged GGUF files: each is refused with an Error that names the place, or is a valid file; nothing crashes, reads
// outside of the file or allocates much.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <set>

#include "files/files_test_support.h"

namespace ingot {
namespace {

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// "" when the file is accepted (and all of it could be read), otherwise the message.
std::string outcome(const std::string& bytes) {
  // A copy of exact size, so that a sanitizer sees the first byte beyond it.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  const auto view = std::as_bytes(std::span(exact));
  const double start = thread_seconds();
  AllocationProbe::start();
  const std::string message = error_of([&] { walk(Gguf::parse(view, "x.gguf")); });
  EXPECT_LE(AllocationProbe::total(), bytes.size() + (size_t{64} << 20));
  EXPECT_LE(thread_seconds() - start, 0.05);
  if (!message.empty()) {
    EXPECT_TRUE(message.starts_with("[gguf] x.gguf: ")) << message;
  }
  return message;
}

TEST(GgufDamage, FieldMatrix) {
  const GgufBytes file = small_gguf();
  ASSERT_EQ(outcome(file.bytes), "");
  const std::vector<uint64_t> values = {0,
                                        1,
                                        ~uint64_t{0} - 1,
                                        ~uint64_t{0},
                                        uint64_t{1} << 31,
                                        uint64_t{1} << 32,
                                        uint64_t{1} << 63,
                                        (uint64_t{1} << 31) - 1};
  std::set<std::string> accepted;
  int cases = 0;
  for (const Field& field : file.fields) {
    for (const uint64_t value : values) {
      for (const bool signed_max : {false, true}) {
        // The largest value as an unsigned and as a signed number of the field's width.
        const uint64_t bits = signed_max ? value >> (65 - 8 * field.width) : value;
        std::string bytes = file.bytes;
        std::memcpy(bytes.data() + field.offset, &bits, field.width);
        cases++;
        const bool ok = outcome(bytes).empty();
        if (ok && bytes != file.bytes && !field.payload) {
          uint64_t shown = 0;
          std::memcpy(&shown, bytes.data() + field.offset, field.width);
          accepted.insert(fmt::format("{} = {}", field.name, shown));
        }
        EXPECT_TRUE(ok || !field.payload) << field.name;
      }
    }
  }
  EXPECT_GT(cases, 2000);
  // Files that are valid, if not what was meant: fewer tensors, a shorter last one, the other bool, another type of the
  // same width.
  const std::set<std::string> valid = {"tensor count = 0",
                                       "tensor count = 1",
                                       "dimension of t3 = 1",
                                       "value of t.bool = 0",
                                       "element of t.bools = 0",
                                       "element of t.bools = 1",
                                       "type of t.u8 = 1",
                                       "type of t.i8 = 0",
                                       "type of t.bool = 0",
                                       "type of t.bool = 1",
                                       "element type of t.bools = 0",
                                       "element type of t.bools = 1",
                                       "element type of t.empty = 0",
                                       "element type of t.empty = 1"};
  for (const std::string& change : accepted) EXPECT_TRUE(valid.contains(change)) << change;
}

TEST(GgufDamage, TruncationAtEveryByte) {
  const GgufBytes file = small_gguf();
  for (size_t n = 0; n < file.bytes.size(); n++) {
    ASSERT_NE(outcome(file.bytes.substr(0, n)), "") << n;
  }
}

TEST(GgufDamage, TruncatedDataNamesTheTensor) {
  const GgufBytes file = small_gguf();
  std::vector<size_t> cuts;
  for (const auto& [begin, end] : file.data) {
    for (const size_t n : {begin - 1, begin, begin + 1, end - 1, end, end + 1}) cuts.push_back(n);
  }
  std::mt19937 random(6);
  const size_t first = file.data.front().first;
  for (int i = 0; i < 200; i++) cuts.push_back(first + random() % (file.bytes.size() - first));
  const TempDir dir;
  for (const size_t n : cuts) {
    if (n >= file.bytes.size()) continue;
    const auto cut = std::ranges::find_if(file.data, [n](const auto& tensor) { return tensor.second > n; });
    const std::string name = fmt::format("tensor 't{}'", cut - file.data.begin());
    const std::string bytes = file.bytes.substr(0, n);
    const std::string read = outcome(bytes);
    EXPECT_TRUE(contains(read, name)) << n << ": " << read;
    const std::string path = dir.write("x.gguf", bytes);
    EXPECT_EQ(error_of([&] { Gguf::open(path); }), read);
  }
}

TEST(GgufDamage, TruncatedDescriptionsNameTheTensor) {
  const GgufBytes file = small_gguf();
  for (const Field& field : file.fields) {
    if (!field.name.starts_with("type of t") || field.name.starts_with("type of t.")) continue;
    const std::string tensor = fmt::format("tensor '{}'", field.name.substr(8));
    EXPECT_TRUE(contains(outcome(file.bytes.substr(0, field.offset + 1)), tensor));
  }
}

TEST(GgufDamage, BitFlipsInMetadata) {
  const GgufBytes file = small_gguf();
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 1000; i++) {
    std::string bytes = file.bytes;
    const size_t bit = random() % (file.data.front().first * 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    refused += outcome(bytes).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 300);
}

// Each rule of the tensors, by hand.
TEST(GgufDamage, TensorRules) {
  const GgufBytes file = small_gguf();
  const auto with = [&](std::string_view field_name, uint64_t value) {
    std::string bytes = file.bytes;
    const auto field = std::ranges::find_if(file.fields, [&](const Field& f) { return f.name == field_name; });
    std::memcpy(bytes.data() + field->offset, &value, field->width);
    return outcome(bytes);
  };
  EXPECT_TRUE(contains(with("dimensions of t1", 5), "tensor 't1' has 5 dimensions, 1 to 4 allowed"));
  EXPECT_TRUE(contains(with("dimensions of t1", 0), "tensor 't1' has 0 dimensions"));
  EXPECT_TRUE(contains(with("dimension of t1", 0), "tensor 't1' has a dimension of 0"));
  EXPECT_TRUE(contains(with("dimension of t1", 33), "tensor 't1' has rows of 33 values, not whole blocks of 32"));
  EXPECT_TRUE(contains(with("dimension of t3", uint64_t{1} << 62), "tensor 't3'"));
  EXPECT_TRUE(contains(with("type of t0", 5), "tensor 't0' has the type Q4_3, which is not supported"));
  EXPECT_TRUE(contains(with("type of t0", 77), "tensor 't0' has the unknown type 77"));
  EXPECT_TRUE(contains(with("offset of t1", 2049), "tensor 't1' begins at 2049, not a multiple of 64"));
  EXPECT_TRUE(contains(with("offset of t1", 1984), "tensor 't1' overlaps"));
  EXPECT_TRUE(contains(with("offset of t1", 64), "overlaps"));
  EXPECT_TRUE(contains(with("offset of t3", 2496), "cut short"));
  EXPECT_TRUE(contains(with("dimension of t0", 1), "tensor 't1' begins at 2048, but the one before it ends at 64"));
  EXPECT_TRUE(contains(with("value of general.alignment", 48), "not a power of two"));
  EXPECT_TRUE(contains(with("value of general.alignment", 4), "not a power of two in [8, 65536]"));
  EXPECT_TRUE(contains(with("type of general.alignment", 5), "'general.alignment' is i32, not u32"));
  EXPECT_TRUE(contains(with("element type of t.floats", 9), "key 't.floats' is an array of arrays"));
  EXPECT_TRUE(contains(with("type of t.u8", 13), "key 't.u8' has the unknown type 13"));
  EXPECT_TRUE(contains(with("count of t.strings", 1 << 20), "key 't.strings' cannot hold 1048576 strings"));
  EXPECT_TRUE(contains(with("count of t.floats", 1 << 20), "key 't.floats' needs 1048576 values of 4 bytes"));
  EXPECT_TRUE(contains(with("value of t.bool", 2), "key 't.bool' has a bool with the value 2"));
  EXPECT_TRUE(contains(with("key t.u8 length", 0), "key 0 is empty"));
  EXPECT_TRUE(contains(with("key t.u8 length", 65536), "key 0 is 65536 bytes long, at most 65535"));
  EXPECT_TRUE(contains(with("name of t0 length", 257), "the name of tensor 0 is 257 bytes long"));
  EXPECT_TRUE(contains(with("name of t0 length", 0), "tensor 0 has no name"));
  EXPECT_TRUE(contains(with("key count", 1000), "cannot hold 1000 keys"));
  EXPECT_TRUE(contains(with("tensor count", 1000), "cannot hold 1000 tensors"));
}

}  // namespace
}  // namespace ingot
