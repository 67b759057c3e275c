#include "files/json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include "base/hash_collisions_test_support.h"
#include "base/utf8.h"

namespace ingot {
namespace {

std::string message_of(auto&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Json parse(std::string_view text, const JsonLimits& limits = {}) { return parse_json(text, "t", limits); }

TEST(Json, ParsesAndWrites) {
  const std::string text = R"({"a":[1,-2,3.5,true,null,"x\"\\\n\u0001é"],"b":{},"c":18446744073709551615})";
  EXPECT_EQ(to_json(parse(text)), text);
  EXPECT_EQ(to_json(parse(" [ ] \n")), "[]");
  EXPECT_EQ(to_json_pretty(parse(R"({"a":[1,2],"b":[]})")), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": []\n}");
}

TEST(Json, WritesNumbersThatReadBackTheSame) {
  for (const double value : {0.1, 1.0, -0.0, 1e300, 5e-324, 1.0 / 3, 123456789012345680.0}) {
    const std::string text = to_json(Json(value));
    EXPECT_TRUE(parse(text).is_double()) << text;
    EXPECT_EQ(parse(text).get_double(), value) << text;
  }
  EXPECT_EQ(to_json(Json(1.0)), "1.0");
  JsonArray strange = {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  EXPECT_EQ(to_json(strange), "[null,null,null]");
}

TEST(Json, ReadsTheNearestDouble) {
  EXPECT_EQ(parse("-1.4E-300").get_double(), -1.4e-300);
  EXPECT_EQ(parse("[0.1,7.2057594037927933e16]").at(1).get_double(), 7.2057594037927933e16);
  EXPECT_EQ(parse("9007199254740993.0").get_double(), 9007199254740992.0);
  EXPECT_EQ(parse("123456789012345678901234567890").get_double(), 123456789012345678901234567890.0);
  EXPECT_EQ(parse("1e-999").get_double(), 0.0);
  EXPECT_EQ(parse("-1e999").get_double(), -std::numeric_limits<double>::infinity());
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; i++) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(parse(to_json(Json(value))).get_double(), value);
  }
}

TEST(Json, WritesInvalidUtf8AsReplacementCharacters) {
  const std::string text = to_json(Json("a\xff\xe2\x82"));
  EXPECT_TRUE(utf8_valid(text));
  EXPECT_EQ(text, "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(Json, ErrorsSayWhereAndAtWhichByte) {
  EXPECT_EQ(message_of([] { parse(R"({"a": 1,})"); }).substr(0, 10), "[json] t: ");
  EXPECT_NE(message_of([] { parse(R"({"a": 1,})"); }).find("at byte 8"), std::string::npos);
  EXPECT_NE(message_of([] { parse("[1] x"); }).find("more text after the value at byte 4"), std::string::npos);
  for (const char* text : {"", "{", "[1,", "\"a", "nul", "{: \"model\"}", "NaN", "Infinity", "01", "\"\xff\"", "[1}"}) {
    EXPECT_THROW(parse(text), Error) << text;
  }
}

// Without any limit given: what a model's files say is bounded before a table is made of it.
TEST(Json, AnObjectHasAMillionMembersAtMost) {
  std::string text = "{\"a\":{";
  for (int i = 0; i <= 1 << 20; ++i) text += "\"\":0,";
  text.back() = '}';
  text += '}';
  EXPECT_NE(message_of([&] { parse(text); }).find("more than 1048576 members in an object at byte"), std::string::npos);
  EXPECT_THROW(parse(text), JsonLimitError);
}

TEST(Json, Limits) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse(nested(64)));
  EXPECT_THROW(parse(nested(65)), Error);
  EXPECT_THROW(parse(std::string(1'000'000, '[')), Error);
  EXPECT_THROW(parse("[1,2,3]", {.max_bytes = 6}), Error);
  EXPECT_NO_THROW(parse("[1,2,3]", {.max_values = 4}));
  EXPECT_NE(message_of([] { parse("[1,2,3]", {.max_values = 3}); }).find("more than 3 values"), std::string::npos);
  const std::string members = R"({"a":{"b":1},"c":[{"d":2}]})";
  EXPECT_NO_THROW(parse(members, {.max_members = 4}));
  EXPECT_NE(message_of([&] { parse(members, {.max_members = 3}); }).find("more than 3 members"), std::string::npos);
  // A limit is told from text that is no JSON.
  EXPECT_THROW(parse(members, {.max_members = 3}), JsonLimitError);
  EXPECT_THROW(parse("[1,2,3]", {.max_values = 3}), JsonLimitError);
  EXPECT_THROW(parse("[1,2,3]", {.max_bytes = 6}), JsonLimitError);
  EXPECT_THROW(parse(nested(65)), JsonLimitError);
  for (const char* text : {"[1,2", "x", ""}) {
    try {
      parse(text);
      ADD_FAILURE() << text;
    } catch (const JsonLimitError&) {
      ADD_FAILURE() << text;
    } catch (const Error&) {
    }
  }
}

TEST(Json, MembersOfOneObject) {
  const JsonLimits limits{.max_object_members = 2};
  EXPECT_NO_THROW(parse(R"([{"a":1,"b":2},{"c":{"d":3,"e":4}},{}])", limits));
  EXPECT_EQ(message_of([&] { parse(R"([{"a":1,"b":2,"c":3}])", limits); }),
            "[json] t: more than 2 members in an object at byte 19");
  EXPECT_THROW(parse(R"({"a":1,"b":2,"c":3})", limits), JsonLimitError);
}

TEST(Json, DuplicateKeys) {
  const JsonLimits strict = {.reject_duplicate_keys = true};
  EXPECT_EQ(get_int(parse(R"({"a":1,"a":2})").get_object(), "a"), 2);
  EXPECT_NE(message_of([&] { parse(R"({"a":1,"b":{"a":1},"a":2})", strict); }).find("duplicate key 'a' at byte"),
            std::string::npos);
  EXPECT_THROW(parse(R"({"a":1,"\u0061":2})", strict), Error);
  EXPECT_THROW(parse(R"([{"x":{"k":1,"k":1}}])", strict), Error);
  EXPECT_NO_THROW(parse(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]})", strict));
  const std::string long_key(5000, 'k');
  EXPECT_THROW(parse("{\"" + long_key + "\":1,\"" + long_key + "\":2}", strict), Error);
}

// With the standard library's hash 32,768 such keys take a minute; here a few milliseconds.
TEST(Json, KeysMadeToCollideAreReadAsFastAsOthers) {
  std::string text = "{";
  for (const std::string& key : HashCollisions::strings(15)) text += (text.size() > 1 ? ",\"" : "\"") + key + "\":1";
  text += "}";
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(parse(text, {.reject_duplicate_keys = true}).get_object().size(), size_t{1} << 15);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
}

// A table of the library's takes quadratic time for them: half a minute for 65,536.
TEST(Json, KeysThatFallIntoOnePlaceOfATableAreRefused) {
  for (uint64_t byte = 0; byte < 256; byte += 16) {  // of the table's address: memory is aligned to 16
    const std::string object = json_object_of(alike_json_keys(256, byte), "1");
    for (const std::string& text : {object, "[{\"a\":" + object + "}]", "{\"b\":1,\"a\":[" + object + "],\"c\":2}"}) {
      EXPECT_NE(message_of([&] { parse(text); }).find("keys of an object that fall into one place"), std::string::npos)
          << byte;
    }
  }
  // Spelt otherwise they are the same keys.
  std::string escaped = json_object_of(alike_json_keys(128), "{}");
  for (size_t at = escaped.find('b'); at != std::string::npos; at = escaped.find('b', at)) {
    escaped.replace(at, 1, "\\u0062");
  }
  EXPECT_THROW(parse(escaped), Error);
}

TEST(Json, KeysThatNobodyChoseForItAreRead) {
  const std::vector<std::string> few = alike_json_keys(64);
  EXPECT_EQ(parse(json_object_of(few, "1")).get_object().size(), 64u);
  for (const size_t n : {65, 1000, 4096, 50'000, 65'536, 262'144}) {
    std::vector<std::string> numbers, names, words;
    for (size_t i = 0; i < n; ++i) {
      numbers.push_back(std::to_string(i));
      names.push_back(fmt::format("model.layers.{}.mlp.experts.{}.down_proj.weight", i / 512, i % 512));
      words.push_back(fmt::format("\u0120{:x}", i * 2654435761));
    }
    for (const auto& keys : {numbers, names, words}) {
      const Json value = parse(json_object_of(keys, "1"), {.max_bytes = size_t{64} << 20});
      EXPECT_EQ(value.get_object().size(), n) << keys[0];
      EXPECT_NE(find(value.get_object(), keys[n / 2]), nullptr);
    }
  }
}

TEST(Json, NonFiniteAsPythonWritesThem) {
  const JsonLimits python = {.allow_nonfinite = true};
  const Json value = parse(R"({"a":[0.0,Infinity,-Infinity,NaN],"b":"NaN Infinity \" NaN"})", python);
  const JsonArray& a = value.at("a").get_array();
  EXPECT_EQ(a[1].get_double(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(a[2].get_double(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(a[3].is_null());
  EXPECT_EQ(get_string(value.get_object(), "b"), "NaN Infinity \" NaN");
  EXPECT_THROW(as_float(a[1], "a"), Error);
  EXPECT_THROW(parse("NaN NaN", python), Error);
  EXPECT_THROW(parse("\"NaN\\", python), Error);
}

TEST(Json, Getters) {
  const Json value = parse(R"({"i":7,"f":2.5,"w":4.0,"b":true,"s":"x","n":null,"a":[],"o":{},"u":18446744073709551615,
                               "e":1e30})");
  const JsonObject& o = value.get_object();
  EXPECT_EQ(get_int(o, "i"), 7);
  EXPECT_EQ(get_int(o, "w"), 4);
  EXPECT_EQ(get_int(o, "n", 9), 9);
  EXPECT_EQ(get_int(o, "absent", -3), -3);
  EXPECT_EQ(get_float(o, "f"), 2.5);
  EXPECT_EQ(get_float(o, "i", 0.0), 7.0);
  EXPECT_EQ(get_float(o, "u"), 18446744073709551615.0);
  EXPECT_EQ(get_float(o, "absent", 1.5), 1.5);
  EXPECT_TRUE(get_bool(o, "b"));
  EXPECT_FALSE(get_bool(o, "n", false));
  EXPECT_EQ(get_string(o, "s"), "x");
  EXPECT_EQ(get_string(o, "absent", "y"), "y");
  EXPECT_TRUE(find(o, "n")->is_null());
  EXPECT_EQ(find(o, "absent"), nullptr);
  EXPECT_NE(find_object(o, "o"), nullptr);
  EXPECT_EQ(find_object(o, "n"), nullptr);
  EXPECT_NE(find_array(o, "a"), nullptr);
  EXPECT_EQ(find_array(o, "absent"), nullptr);
}

TEST(Json, GettersNameKeyAndType) {
  const Json value = parse(R"({"i":7,"f":2.5,"s":"x","n":null,"a":[],"u":18446744073709551615,"e":1e30})");
  const JsonObject& o = value.get_object();
  EXPECT_EQ(message_of([&] { get_int(o, "s"); }), "[json] key 's' is a string, not an integer");
  EXPECT_EQ(message_of([&] { get_int(o, "a", 1); }), "[json] key 'a' is an array, not an integer");
  EXPECT_EQ(message_of([&] { get_int(o, "n"); }), "[json] key 'n' is missing");
  EXPECT_EQ(message_of([&] { get_int(o, "f"); }), "[json] key 'f' is 2.5, not an integer");
  EXPECT_EQ(message_of([&] { get_int(o, "i", 0, 0, 6); }), "[json] key 'i' is 7, not in [0, 6]");
  EXPECT_NE(message_of([&] { get_int(o, "u"); }).find("at most"), std::string::npos);
  EXPECT_NE(message_of([&] { get_int(o, "e"); }).find("not an integer"), std::string::npos);
  EXPECT_EQ(message_of([&] { get_float(o, "s"); }), "[json] key 's' is a string, not a number");
  EXPECT_EQ(message_of([&] { get_bool(o, "i"); }), "[json] key 'i' is an integer, not a bool");
  EXPECT_EQ(message_of([&] { get_string(o, "i"); }), "[json] key 'i' is an integer, not a string");
  EXPECT_EQ(message_of([&] { find_object(o, "a"); }), "[json] key 'a' is an array, not an object");
  EXPECT_EQ(message_of([&] { find_array(o, "s"); }), "[json] key 's' is a string, not an array");
  EXPECT_EQ(message_of([&] { get_bool(o, "k\n"); }), "[json] key 'k\\x0a' is missing");
}

TEST(Json, Files) {
  const std::string path = testing::TempDir() + "ingot_json_" + std::to_string(::getpid());
  std::ofstream(path) << R"({"a": Infinity})";
  EXPECT_EQ(read_text_file(path), R"({"a": Infinity})");
  EXPECT_TRUE(std::isinf(read_json_file(path).at("a").get_double()));
  EXPECT_THROW(read_text_file(path, 3), Error);
  ::unlink(path.c_str());
  EXPECT_THROW(read_json_file(path), Error);
}

}  // namespace
}  // namespace ingot
