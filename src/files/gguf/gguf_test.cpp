#include "files/gguf/gguf.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "base/hash_collisions_test_support.h"
#include "files/files_test_support.h"
#include "files/gguf/gguf_writer.h"

namespace ingot {
namespace {

Gguf parse(const std::string& bytes) { return Gguf::parse(bytes_of(bytes), "x.gguf"); }

TEST(GgufTypes, Table) {
  EXPECT_STREQ(gguf_type_info(kGgufQ4_K)->name, "Q4_K");
  EXPECT_EQ(gguf_type_info(kGgufMXFP4)->bytes, 17);
  EXPECT_EQ(gguf_type_info(4)->block, 0);
  EXPECT_EQ(gguf_type_info(1000), nullptr);
  for (uint32_t type = 0; gguf_type_info(type) != nullptr; type++) {
    EXPECT_EQ(gguf_type_info(type)->type, type);
    EXPECT_EQ(gguf_type_by_name(gguf_type_info(type)->name), gguf_type_info(type));
  }
  EXPECT_EQ(gguf_type_by_name("iq4_nl"), gguf_type_info(kGgufIQ4_NL));
  EXPECT_EQ(gguf_type_by_name("q9"), nullptr);
  EXPECT_STREQ(gguf_kind_name(static_cast<GgufKind>(13)), "?");
  EXPECT_EQ(gguf_kind_bytes(static_cast<GgufKind>(13)), 0);
}

// In tables with the standard library's hash 32,768 such names take a minute.
TEST(Gguf, NamesMadeToCollideAreReadAsFastAsOthers) {
  const std::vector<std::string> names = HashCollisions::strings(15);
  GgufBytes file;
  file.bytes = "GGUF";
  file.number("version", uint32_t{3});
  file.number("tensors", uint64_t{names.size()});
  file.number("keys", uint64_t{names.size()});
  for (const std::string& name : names) {
    file.key(name, GgufKind::kU8);
    file.number(name, uint8_t{1});
  }
  uint64_t at = 0;
  for (const std::string& name : names) {
    file.string("name", name);
    file.number("dimensions", uint32_t{1});
    file.number("size", uint64_t{1});
    file.number("type", uint32_t{kGgufF32});
    file.number("offset", uint64_t{32 * at++});
  }
  file.bytes.resize((file.bytes.size() + 31) / 32 * 32 + 32 * names.size());
  const auto begun = std::chrono::steady_clock::now();
  const std::string error = error_of([&] {
    const Gguf gguf = parse(file.bytes);
    EXPECT_EQ(gguf.tensors().size(), names.size());
    for (const std::string& name : names) {
      ASSERT_NE(gguf.find_tensor(name), nullptr);
      ASSERT_EQ(gguf.get_u64(name), 1u);
    }
  });
  EXPECT_EQ(error, "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

TEST(Gguf, ReadsEveryKind) {
  const GgufBytes file = small_gguf();
  EXPECT_NEAR(static_cast<double>(file.bytes.size()), 4096, 600);
  const Gguf gguf = parse(file.bytes);
  EXPECT_EQ(gguf.version(), 3u);
  EXPECT_EQ(gguf.metadata().size(), 17u);
  EXPECT_EQ(gguf.get_u64("t.u8"), 200u);
  EXPECT_EQ(gguf.get_i64("t.i8"), -100);
  EXPECT_EQ(gguf.get_u64("t.u16"), 60000u);
  EXPECT_EQ(gguf.get_i64("t.i16"), -30000);
  EXPECT_EQ(gguf.get_u64("t.u32"), 4000000000u);
  EXPECT_EQ(gguf.get_i64("t.i32"), -2000000000);
  EXPECT_EQ(gguf.get_u64("t.u64"), ~uint64_t{0});
  EXPECT_EQ(gguf.get_i64("t.i64"), INT64_MIN);
  EXPECT_EQ(gguf.get_f32("t.f32"), 1.5f);
  EXPECT_EQ(gguf.get_f32("t.f64"), 0.1f);
  EXPECT_EQ(gguf.get_f32("t.u8"), 200.0f);
  EXPECT_TRUE(gguf.get_bool("t.bool"));
  EXPECT_EQ(gguf.get_string("t.string"), "héllo");
  EXPECT_EQ(gguf.get_string_array("t.strings").at(39), "token39");
  EXPECT_EQ(gguf.get_f32_array("t.floats").at(9), 9.0f);
  EXPECT_EQ(gguf.get_bool_array("t.bools"), (std::vector<bool>{false, true, false}));
  EXPECT_TRUE(gguf.get_i64_array("t.empty").empty());
  EXPECT_TRUE(gguf.get_u64_array("t.empty").empty());
  EXPECT_TRUE(gguf.get_i32_array("t.empty").empty());
  ASSERT_EQ(gguf.tensors().size(), 4u);
  for (size_t i = 0; i < 4; i++) {
    const GgufTensor* tensor = gguf.find_tensor(fmt::format("t{}", i));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(reinterpret_cast<const char*>(tensor->data), file.bytes.data() + file.data[i].first);
    EXPECT_EQ(tensor->bytes, file.data[i].second - file.data[i].first);
  }
  EXPECT_EQ(gguf.tensors()[3].dims, (std::vector<int64_t>{16, 2, 2, 2}));
  EXPECT_EQ(gguf.find_tensor("t4"), nullptr);
}

TEST(Gguf, Fallbacks) {
  const std::string bytes = small_gguf().bytes;
  const Gguf gguf = parse(bytes);
  EXPECT_EQ(gguf.get_u64("no", 7), 7u);
  EXPECT_EQ(gguf.get_u64("t.u8", 7), 200u);
  EXPECT_EQ(gguf.get_i64("no", -7), -7);
  EXPECT_EQ(gguf.get_f32("no", 0.5f), 0.5f);
  EXPECT_TRUE(gguf.get_bool("no", true));
  EXPECT_EQ(gguf.get_string("no", "x"), "x");
  EXPECT_EQ(gguf.get_string("t.string", "x"), "héllo");
}

TEST(Gguf, GettersNameKeyAndType) {
  const std::string bytes = small_gguf().bytes;
  const Gguf gguf = parse(bytes);
  EXPECT_EQ(error_of([&] { gguf.get_u64("no"); }), "[gguf] x.gguf: key 'no' is missing");
  EXPECT_EQ(error_of([&] { gguf.get_u64("t.i8"); }),
            "[gguf] x.gguf: key 't.i8' is -100, which does not fit in 64 unsigned bits");
  EXPECT_NE(error_of([&] { gguf.get_i64("t.u64"); }), "");
  EXPECT_EQ(error_of([&] { gguf.get_u64("t.f32"); }), "[gguf] x.gguf: key 't.f32' is f32, not an integer");
  EXPECT_EQ(error_of([&] { gguf.get_u64("t.string", 1); }), "[gguf] x.gguf: key 't.string' is string, not a number");
  EXPECT_EQ(error_of([&] { gguf.get_f32("t.bool"); }), "[gguf] x.gguf: key 't.bool' is bool, not a number");
  EXPECT_EQ(error_of([&] { gguf.get_bool("t.u8"); }), "[gguf] x.gguf: key 't.u8' is u8, not a bool");
  EXPECT_EQ(error_of([&] { gguf.get_bool("t.strings"); }),
            "[gguf] x.gguf: key 't.strings' is array of string, not a bool");
  EXPECT_EQ(error_of([&] { gguf.get_string("t.u8"); }), "[gguf] x.gguf: key 't.u8' is u8, not a string");
  EXPECT_EQ(error_of([&] { gguf.get_string_array("t.floats"); }),
            "[gguf] x.gguf: key 't.floats' is array of f32, not an array of strings");
  EXPECT_EQ(error_of([&] { gguf.get_f32_array("t.strings"); }),
            "[gguf] x.gguf: key 't.strings' is array of string, not an array of numbers");
  EXPECT_NE(error_of([&] { gguf.get_i32_array("t.floats"); }), "");
  EXPECT_NE(error_of([&] { gguf.get_bool_array("t.floats"); }), "");
}

TEST(Gguf, ValuesAsText) {
  const std::string bytes = small_gguf().bytes;
  const Gguf gguf = parse(bytes);
  EXPECT_EQ(gguf.find("t.f32")->text(), "1.5");
  EXPECT_EQ(gguf.find("t.bool")->text(), "true");
  EXPECT_EQ(gguf.find("t.string")->text(), "\"héllo\"");
  EXPECT_EQ(gguf.find("t.strings")->text(2), "[\"token0\", \"token1\", … 40 in all]");
  EXPECT_EQ(gguf.find("t.empty")->text(), "[]");
}

TEST(Gguf, WhatIsNoGguf) {
  EXPECT_EQ(error_of([] { parse(""); }), "[gguf] x.gguf: the file is empty");
  EXPECT_EQ(error_of([] { parse("Hello, world"); }), "[gguf] x.gguf: is not a GGUF file: it begins with \"Hell\"");
  EXPECT_NE(error_of([] { parse("GGUF"); }), "");
  std::string big = small_gguf().bytes;
  std::swap(big[4], big[7]);
  EXPECT_TRUE(contains(error_of([&] { parse(big); }), "big-endian"));
  std::string old = small_gguf().bytes;
  old[4] = 1;
  EXPECT_TRUE(contains(error_of([&] { parse(old); }), "version 1"));
  old[4] = 2;
  EXPECT_EQ(parse(old).version(), 2u);
  EXPECT_NE(error_of([] { Gguf::open("/no/such.gguf"); }), "");
}

TEST(Gguf, Duplicates) {
  std::string bytes = small_gguf().bytes;
  bytes.replace(bytes.find("t.i16"), 5, "t.u16");
  EXPECT_EQ(error_of([&] { parse(bytes); }), "[gguf] x.gguf: key 't.u16' is there twice");
  bytes = small_gguf().bytes;
  bytes.replace(bytes.rfind("t3"), 2, "t1");
  EXPECT_EQ(error_of([&] { parse(bytes); }), "[gguf] x.gguf: tensor 't1' is there twice");
}

GgufWriter part(int no, int count, int tensors_in_all) {
  GgufWriter writer;
  writer.set("general.architecture", no == 0 ? "llama" : "");
  writer.set("split.no", static_cast<uint16_t>(no));
  writer.set("split.count", static_cast<uint16_t>(count));
  writer.set("split.tensors.count", static_cast<int32_t>(tensors_in_all));
  return writer;
}

TEST(Gguf, SplitFiles) {
  const TempDir dir;
  const std::vector<float> data(8, 1.0f);
  const auto path = [&](int i) { return dir / fmt::format("m-{:05}-of-00003.gguf", i + 1); };
  for (int i = 0; i < 3; i++) {
    GgufWriter writer = part(i, 3, 3);
    writer.add_tensor(fmt::format("t{}", i), {8}, kGgufF32, std::as_bytes(std::span(data)));
    writer.write(path(i));
  }
  for (int i = 0; i < 3; i++) {
    const Gguf gguf = Gguf::open(path(i));
    EXPECT_EQ(gguf.get_string("general.architecture"), "llama");
    ASSERT_EQ(gguf.tensors().size(), 3u);
    ASSERT_EQ(gguf.files().size(), 3u);
    for (int t = 0; t < 3; t++) EXPECT_EQ(gguf.find_tensor(fmt::format("t{}", t))->file_index, t);
    walk(gguf);
  }
  std::filesystem::copy(path(1), dir / "other.gguf");
  EXPECT_TRUE(contains(error_of([&] { Gguf::open(dir / "other.gguf"); }), "does not end in \"-00002-of-00003.gguf\""));
  std::filesystem::remove(path(1));
  EXPECT_EQ(error_of([&] { Gguf::open(path(0)); }), "[gguf] m-00002-of-00003.gguf: part 2 of 3 is missing");
  std::filesystem::copy(path(2), path(1));
  EXPECT_TRUE(contains(error_of([&] { Gguf::open(path(0)); }), "does not say that it is part 2 of 3"));
  GgufWriter twice = part(1, 3, 3);
  twice.add_tensor("t0", {8}, kGgufF32, std::as_bytes(std::span(data)));
  twice.write(path(1));
  EXPECT_TRUE(contains(error_of([&] { Gguf::open(path(0)); }), "tensor 't0' is there twice"));
  part(1, 3, 3).write(path(1));
  EXPECT_TRUE(contains(error_of([&] { Gguf::open(path(0)); }), "'split.tensors.count' is 3"));
  part(7, 3, 3).write(path(1));
  EXPECT_TRUE(contains(error_of([&] { Gguf::open(path(1)); }), "cannot be part 7 of 3"));
}

TEST(Gguf, OpensEveryFileOfTheTestData) {
  for (const std::string& file : data_files(".gguf")) {
    const Gguf gguf = Gguf::open(file);
    EXPECT_NE(gguf.get_string("general.architecture"), "") << file;
  }
  EXPECT_FALSE(data_files(".gguf").empty());
}

}  // namespace
}  // namespace ingot
