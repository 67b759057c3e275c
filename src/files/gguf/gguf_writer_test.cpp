#include "files/gguf/gguf_writer.h"

#include <gtest/gtest.h>

#include "files/files_test_support.h"

namespace ingot {
namespace {

TEST(GgufWriter, WhatIsWrittenIsRead) {
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> ints = {-1, 0, 1};
  const std::vector<std::byte> q8(68, std::byte{9});
  GgufWriter writer;
  writer.set("a.u8", uint8_t{1});
  writer.set("a.i8", int8_t{-1});
  writer.set("a.u16", uint16_t{2});
  writer.set("a.i16", int16_t{-2});
  writer.set("a.u32", uint32_t{3});
  writer.set("a.i32", int32_t{-3});
  writer.set("a.u64", uint64_t{4});
  writer.set("a.i64", int64_t{-4});
  writer.set("a.f32", 0.5f);
  writer.set("a.f64", 0.25);
  writer.set("a.bool", true);
  writer.set("a.string", "text");
  writer.set_array<int32_t>("a.ints", ints);
  writer.set_array<float>("a.floats", floats);
  writer.set_array("a.strings", std::vector<std::string>{"x", "", "yz"});
  writer.add_tensor("w", {3, 2}, kGgufF32, std::as_bytes(std::span(floats)));
  writer.add_tensor("q", {64}, kGgufQ8_0, [&](const GgufSink& sink) {
    sink(std::span(q8).first(10));
    sink(std::span(q8).subspan(10));
  });
  const TempDir dir;
  writer.write(dir / "a.gguf");
  const Gguf gguf = Gguf::open(dir / "a.gguf");
  EXPECT_EQ(gguf.metadata().size(), 15u);
  EXPECT_EQ(gguf.find("a.i16")->type_name(), "i16");
  EXPECT_EQ(gguf.get_i64("a.i64"), -4);
  EXPECT_EQ(gguf.find("a.f64")->text(), "0.25");
  EXPECT_TRUE(gguf.get_bool("a.bool"));
  EXPECT_EQ(gguf.get_string("a.string"), "text");
  EXPECT_EQ(gguf.get_i32_array("a.ints"), ints);
  EXPECT_EQ(gguf.get_f32_array("a.floats"), floats);
  EXPECT_EQ(gguf.get_string_array("a.strings"), (std::vector<std::string_view>{"x", "", "yz"}));
  ASSERT_EQ(gguf.tensors().size(), 2u);
  EXPECT_EQ(std::memcmp(gguf.tensors()[0].data, floats.data(), 24), 0);
  EXPECT_EQ(gguf.tensors()[0].dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(std::memcmp(gguf.tensors()[1].data, q8.data(), 68), 0);
  // Copied from a reader, byte for byte.
  GgufWriter copy;
  for (const GgufEntry& entry : gguf.metadata()) copy.set(entry.key, entry.value);
  for (const GgufTensor& t : gguf.tensors()) copy.add_tensor(t.name, t.dims, t.type, std::span(t.data, t.bytes));
  EXPECT_EQ(copy.bytes(), writer.bytes());
  EXPECT_EQ(std::filesystem::file_size(dir / "a.gguf"), writer.bytes().size());
  EXPECT_EQ(writer.bytes().size() % 32, 0u);
}

TEST(GgufWriter, WithoutTensors) {
  GgufWriter writer;
  writer.set("k", "v");
  const std::vector<std::byte> bytes = writer.bytes();
  EXPECT_EQ(Gguf::parse(bytes).get_string("k"), "v");
  EXPECT_EQ(Gguf::parse(GgufWriter().bytes()).metadata().size(), 0u);
}

TEST(GgufWriter, Refuses) {
  const std::vector<std::byte> data(64);
  GgufWriter writer;
  writer.set("k", true);
  writer.add_tensor("t", {16}, kGgufF32, data);
  const auto add = [&](std::string name, std::vector<int64_t> dims, uint32_t type) {
    return error_of([&] { writer.add_tensor(name, dims, type, data); });
  };
  EXPECT_TRUE(contains(error_of([&] { writer.set("k", true); }), "'k' is set twice"));
  EXPECT_TRUE(contains(error_of([&] { writer.set("", true); }), "empty"));
  EXPECT_TRUE(contains(error_of([&] { writer.set("general.alignment", uint32_t{64}); }), "32"));
  EXPECT_TRUE(contains(add("t", {16}, kGgufF32), "twice"));
  EXPECT_TRUE(contains(add("", {16}, kGgufF32), "no name"));
  EXPECT_TRUE(contains(add("a", {16}, 4), "cannot be written"));
  EXPECT_TRUE(contains(add("a", {16}, 99), "cannot be written"));
  EXPECT_TRUE(contains(add("a", {}, kGgufF32), "0 dimensions"));
  EXPECT_TRUE(contains(add("a", {1, 1, 1, 1, 1}, kGgufF32), "5 dimensions"));
  EXPECT_TRUE(contains(add("a", {-1}, kGgufF32), "dimension of -1"));
  EXPECT_TRUE(contains(add("a", {31}, kGgufQ8_0), "whole blocks"));
  EXPECT_TRUE(contains(add("a", {INT64_MAX, INT64_MAX}, kGgufF32), "overflows"));
}

TEST(GgufWriter, WrongNumberOfBytesLeavesNoFile) {
  const TempDir dir;
  const std::vector<std::byte> data(60);
  for (const int64_t n : {14, 16}) {
    GgufWriter writer;
    writer.add_tensor("t", {n}, kGgufF32, data);
    EXPECT_TRUE(contains(error_of([&] { writer.write(dir / "a.gguf"); }), "but 60 were given"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_TRUE(contains(error_of([&] { GgufWriter().write(dir / "no/a.gguf"); }), "[file] "));
  EXPECT_TRUE(contains(error_of([&] { GgufWriter().write("/dev/full/a.gguf"); }), "[file] "));
}

}  // namespace
}  // namespace ingot
