#include "files/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/hash_collisions_test_support.h"
#include "files/files_test_support.h"
#include "files/json.h"

namespace ingot {
namespace {

const std::string kGood =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
    R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"s":{"dtype":"I64","shape":[],"data_offsets":[28,36]},)"
    R"("e":{"dtype":"U8","shape":[0,7],"data_offsets":[4,4]},"f":{"dtype":"F4","shape":[4],"data_offsets":[36,38]}}   )";
constexpr size_t kGoodData = 38;

std::string outcome(std::string_view bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  const auto view = std::as_bytes(std::span(exact));
  AllocationProbe::start();
  const std::string message = error_of([&] { walk(SafeTensors::parse(view, "x.safetensors")); });
  EXPECT_LE(AllocationProbe::total(), size_t{1} << 20);  // of a file of a few hundred bytes
  if (!message.empty()) {
    EXPECT_TRUE(message.starts_with("[safetensors] x.safetensors: ")) << message;
  }
  return message;
}

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets, size_t data) {
  return safetensors_bytes(
      fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets), data);
}

TEST(SafeTensors, Reads) {
  const std::string bytes = safetensors_bytes(kGood, kGoodData);
  const SafeTensors file = SafeTensors::parse(bytes_of(bytes));
  ASSERT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  std::vector<std::string> names;
  for (const SafeTensor& tensor : file.tensors()) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "e", "b", "s", "f"}));
  const SafeTensor* b = file.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, "F32");
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b->bytes, 24u);
  EXPECT_EQ(reinterpret_cast<const char*>(b->data), bytes.data() + 8 + kGood.size() + 4);
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(safetensors_dtype_bits("F8_E4M3"), 8);
  EXPECT_EQ(safetensors_dtype_bits("F128"), 0);
  EXPECT_EQ(outcome(safetensors_bytes("{}", 0)), "");
}

TEST(SafeTensors, TruncationAtEveryByte) {
  const std::string bytes = safetensors_bytes(kGood, kGoodData);
  for (size_t n = 0; n < bytes.size(); n++) ASSERT_NE(outcome(bytes.substr(0, n)), "") << n;
  for (const size_t missing : {1, 2}) {
    EXPECT_TRUE(contains(outcome(bytes.substr(0, bytes.size() - missing)), "tensor 'f'"));
  }
  EXPECT_TRUE(contains(outcome(bytes.substr(0, bytes.size() - 11)), "cut short"));
}

TEST(SafeTensors, BitFlipsInTheHeader) {
  const std::string good = safetensors_bytes(kGood, kGoodData);
  std::mt19937 random(7);
  for (int i = 0; i < 1000; i++) {
    std::string bytes = good;
    const size_t bit = random() % ((8 + kGood.size()) * 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    outcome(bytes);
  }
}

// Six classes of bad files, twenty of each.
constexpr size_t kFiles = 20;

TEST(SafeTensorsDamage, HeaderLength) {
  const std::string good = safetensors_bytes(kGood, kGoodData);
  const uint64_t rest = good.size() - 8;
  const std::vector<uint64_t> lengths = {0,          1,          2,           kGood.size() - 4, kGood.size() + 8,
                                         rest - 1,   rest,       rest + 1,    rest + 8,         1000,
                                         65536,      99'999'999, 100'000'000, 100'000'001,      1ull << 31,
                                         1ull << 32, 1ull << 62, 1ull << 63,  ~0ull - 7,        ~0ull};
  ASSERT_EQ(lengths.size(), kFiles);
  for (const uint64_t length : lengths) {
    std::string bytes = good;
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_NE(outcome(bytes), "") << length;
  }
}

TEST(SafeTensorsDamage, DuplicateKeys) {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const std::string b = R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})";
  std::vector<std::string> headers = {"{" + a + "," + a + "}",
                                      "{" + a + "," + b + "," + a + "}",
                                      "{" + b + "," + a + "," + b + "}",
                                      "{" + a + R"(,"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                      R"({"__metadata__":{"k":"1","k":"2"},)" + a + "}",
                                      R"({"__metadata__":{},"__metadata__":{},)" + a + "}",
                                      R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                      R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})",
                                      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"data_offsets":[0,1]}})",
                                      R"({"a":{"dtype":"F32","dtype":"U8","shape":[1],"data_offsets":[0,1]}})"};
  for (size_t i = headers.size(); i < kFiles; i++) {
    // A long list with one name twice, at another place each time.
    std::string header = "{";
    for (size_t t = 0; t < 30; t++) {
      const size_t name = t == i + 5 ? i : t;
      header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", t > 0 ? "," : "", name, t,
                            t + 1);
    }
    headers.push_back(header + "}");
  }
  ASSERT_EQ(headers.size(), kFiles);
  for (const std::string& header : headers) {
    for (const size_t data : {1, 2, 30}) {
      EXPECT_TRUE(contains(outcome(safetensors_bytes(header, data)), "duplicate key")) << header;
    }
  }
}

// Of a header and of an index: a table of them would take quadratic time.
TEST(SafeTensorsDamage, NamesMadeToCollide) {
  const std::vector<std::string> names = alike_json_keys(256);
  const std::string header = json_object_of(names, R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
  EXPECT_TRUE(contains(outcome(safetensors_bytes(header, 0)), "keys of an object that fall into one place"));
  const TempDir dir;
  dir.write("model.safetensors.index.json", "{\"weight_map\":" + json_object_of(names, "\"a.safetensors\"") + "}");
  EXPECT_TRUE(contains(error_of([&] { SafeTensors::open(dir.path()); }), "keys of an object that fall into one place"));
}

TEST(SafeTensorsDamage, Offsets) {
  const std::vector<std::string> offsets = {"[1,0]",
                                            "[4,0]",
                                            "[0,5]",
                                            "[1,5]",
                                            "[4,8]",
                                            "[5,9]",
                                            "[-4,0]",
                                            "[-1,3]",
                                            "[0,-4]",
                                            "[0]",
                                            "[]",
                                            "[0,4,4]",
                                            "[\"0\",\"4\"]",
                                            "[0.5,4.5]",
                                            "[null,4]",
                                            "{}",
                                            "[9223372036854775803,9223372036854775807]",
                                            "[18446744073709551612,18446744073709551615]",
                                            "[18446744073709551615,3]",
                                            "[0,1e300]"};
  ASSERT_EQ(offsets.size(), kFiles);
  for (const std::string& pair : offsets) {
    EXPECT_TRUE(contains(outcome(one("F32", "[1]", pair, 4)), "tensor 't'")) << pair;
  }
}

TEST(SafeTensorsDamage, Sizes) {
  struct Case {
    const char *dtype, *shape;
  };
  const std::vector<Case> cases = {{"F32", "[3]"},
                                   {"F32", "[]"},
                                   {"F32", "[0]"},
                                   {"F16", "[3]"},
                                   {"BF16", "[8]"},
                                   {"F64", "[2]"},
                                   {"U8", "[7]"},
                                   {"U8", "[9]"},
                                   {"F4", "[3]"},
                                   {"F4", "[15]"},
                                   {"F8_E4M3", "[2,3]"},
                                   {"I64", "[2,1,1]"},
                                   {"U8", "[-8]"},
                                   {"U8", "[-2,-4]"},
                                   {"U8", "[18446744073709551615]"},
                                   {"U8", "[4294967296,4294967296,8]"},
                                   {"F32", "[4611686018427387906]"},
                                   {"U8", "[2305843009213693953]"},
                                   {"U8", "[8.5]"},
                                   {"U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,8]"}};
  ASSERT_EQ(cases.size(), kFiles);
  for (const Case& c : cases)
    EXPECT_TRUE(contains(outcome(one(c.dtype, c.shape, "[0,8]", 8)), "tensor 't'")) << c.shape;
  EXPECT_EQ(outcome(one("U8", "[8]", "[0,8]", 8)), "");
}

TEST(SafeTensorsDamage, OverlapsAndGaps) {
  const auto three = [](std::vector<size_t> starts, size_t data) {
    std::string header = "{";
    for (size_t i = 0; i < starts.size(); i++) {
      header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}})", i > 0 ? "," : "", i,
                            starts[i], starts[i] + 4);
    }
    return outcome(safetensors_bytes(header + "}", data));
  };
  EXPECT_EQ(three({0, 4, 8}, 12), "");
  EXPECT_EQ(three({8, 0, 4}, 12), "");
  size_t files = 0;
  for (const size_t first : {0, 1, 2, 3}) {
    for (const size_t second : {0, 3, 4, 5}) {
      if (first == 0 && second == 4) continue;
      EXPECT_NE(three({first, second, 8}, 12), "") << first << " " << second;
      files++;
    }
  }
  for (const size_t third : {7, 9, 0}) {
    EXPECT_NE(three({0, 4, third}, 13), "") << third;
    files++;
  }
  EXPECT_TRUE(contains(three({0, 4, 8}, 13), "the last 1 bytes belong to no tensor"));
  EXPECT_TRUE(contains(three({}, 1), "belong to no tensor"));
  EXPECT_GE(files + 2, kFiles);
}

TEST(SafeTensorsDamage, Dtypes) {
  const std::vector<std::string> dtypes = {"",        "f32",  "F31",   "float32", "F32 ",     " F32",    "F32\\u0000",
                                           "F128",    "I4",   "U4",    "Q4_0",    "F8",       "F8_E4M4", "BF32",
                                           "COMPLEX", "bool", "BOOL2", "int64",   "\\u0046x", "é"};
  ASSERT_EQ(dtypes.size(), kFiles);
  for (const std::string& dtype : dtypes) {
    EXPECT_TRUE(contains(outcome(one(dtype, "[1]", "[0,4]", 4)), "tensor 't' has the unknown dtype")) << dtype;
  }
}

TEST(SafeTensorsDamage, HeaderShapes) {
  for (const char* header :
       {"[]", "{", "{}x", "null", "{\"t\":1}", "{\"t\":[]}", "{\"t\":{}}", "{\"__metadata__\":3}",
        "{\"__metadata__\":{\"k\":3}}", "{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"offsets\":[0,0]}}",
        "{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1}}",
        "{\"t\":{\"dtype\":8,\"shape\":[0],\"data_offsets\":[0,0]}}", "{\"t\":{\"a\":{\"b\":{\"c\":{\"d\":{}}}}}}"}) {
    EXPECT_NE(outcome(safetensors_bytes(header, 0)), "") << header;
  }
}

std::string shard(const char* name) {
  return safetensors_bytes(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}}})", name), 2);
}

TEST(SafeTensors, Shards) {
  const TempDir dir;
  const std::string index = dir / "model.safetensors.index.json";
  dir.write("m-1.safetensors", shard("a"));
  dir.write("m-2.safetensors", shard("b"));
  const auto with_map = [&](std::string_view map) {
    dir.write("model.safetensors.index.json", fmt::format(R"({{"metadata":{{}},"weight_map":{}}})", map));
    return error_of([&] { SafeTensors::open(dir.path()); });
  };
  EXPECT_EQ(with_map(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})"), "");
  for (const std::string& path : {dir.path(), index}) {
    const SafeTensors file = SafeTensors::open(path);
    EXPECT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.find("b")->file_index, 1);
    EXPECT_EQ(file.files().size(), 2u);
  }
  EXPECT_TRUE(contains(with_map(R"({"a":"m-1.safetensors","b":"m-1.safetensors"})"), "tensor 'b' is not in"));
  EXPECT_TRUE(contains(with_map(R"({"a":"m-2.safetensors","b":"m-1.safetensors"})"), "tensor 'a' is not in"));
  EXPECT_TRUE(contains(with_map(R"({"a":"m-3.safetensors"})"), "shard 'm-3.safetensors' is missing"));
  for (const char* name : {"../m-1.safetensors", "/etc/passwd", "sub/m.safetensors", "..", "", ".hidden.safetensors",
                           "m-1.safetensors\\u0000", "m-1.bin", "a\\\\b.safetensors"}) {
    EXPECT_TRUE(contains(with_map(fmt::format(R"({{"a":"{}"}})", name)), "is no name of a shard")) << name;
  }
  EXPECT_NE(with_map(R"({"a":1})"), "");
  EXPECT_NE(with_map(R"({"a":"m-1.safetensors","a":"m-1.safetensors"})"), "");
  EXPECT_NE(with_map("null"), "");
  dir.write("m-2.safetensors", shard("a"));
  EXPECT_TRUE(
      contains(with_map(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})"), "tensor 'a' is in another file too"));
}

TEST(SafeTensors, WhatOpenTakes) {
  const TempDir dir;
  EXPECT_TRUE(contains(error_of([&] { SafeTensors::open(dir.path()); }), "has neither model.safetensors nor"));
  const std::string path = dir.write("weights.safetensors", shard("a"));
  EXPECT_EQ(SafeTensors::open(dir.path()).tensors().size(), 1u);
  EXPECT_EQ(SafeTensors::open(path).tensors().size(), 1u);
  dir.write("second.safetensors", shard("b"));
  EXPECT_NE(error_of([&] { SafeTensors::open(dir.path()); }), "");
  dir.write("model.safetensors", shard("c"));
  EXPECT_NE(SafeTensors::open(dir.path()).find("c"), nullptr);
  EXPECT_NE(error_of([&] { SafeTensors::open(dir / "no.safetensors"); }), "");
}

TEST(SafeTensors, OpensEveryFileOfTheTestData) {
  for (const std::string& file : data_files(".safetensors")) {
    EXPECT_GT(SafeTensors::open(file).tensors().size(), 0u) << file;
  }
  EXPECT_FALSE(data_files(".safetensors").empty());
}

}  // namespace
}  // namespace ingot
