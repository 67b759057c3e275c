// Two hundred damaged vocabularies in all containers but tokenizer.json, one table: each is refused with an Error, in
// less than a second and with little memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include "files/gguf/gguf.h"
#include "files/gguf/gguf_writer.h"
#include "text/load/tokenizer_load.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

struct Damage {
  std::string name;
  std::function<void()> load;
};
using Table = std::vector<Damage>;

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  return out + static_cast<char>(value);
}
std::string u32(uint32_t value) {
  std::string out;
  for (int i = 0; i < 4; i++) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}
std::string bytes_field(uint64_t number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
std::string number_field(uint64_t number, uint64_t value) { return varint(number << 3) + varint(value); }
std::string piece(std::string_view text, float score, uint64_t type) {
  return bytes_field(
      1, bytes_field(1, text) + varint(2 << 3 | 5) + u32(std::bit_cast<uint32_t>(score)) + number_field(3, type));
}
std::string trainer(uint64_t type) { return bytes_field(2, number_field(3, type)); }
std::string rules(std::string_view charsmap) { return bytes_field(3, bytes_field(2, charsmap)); }

void add_sentencepiece(Table& table) {
  const std::string pieces = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("\u2581", -1, 1) + piece("a", -2, 1);
  const auto add = [&](const std::string& name, const std::string& bytes) {
    table.push_back({"sentencepiece " + name, [bytes] { parse_sentencepiece_model(bytes, "/nonexistent/x.model"); }});
  };
  for (const uint64_t type : {1u, 2u, 4u}) {
    const std::string whole = pieces + trainer(type);
    ASSERT_EQ(error_from([&] { parse_sentencepiece_model(whole, "/nonexistent/x.model"); }), "");
    for (size_t n = 1; n < pieces.size(); n += 5) add(fmt::format("type {} cut at {}", type, n), pieces.substr(0, n));
    for (const uint64_t length : {uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX, uint64_t{7}}) {
      add(fmt::format("a length of {}", length), whole + "\x0A" + varint(length) + "abc");
      add(fmt::format("a text of {}", length), whole + bytes_field(1, "\x0A" + varint(length) + "abc"));
    }
    add("a piece twice", whole + piece("a", 0, 1));
    add("no unknown piece", piece("a", 0, 1) + trainer(type));
    add("two unknown pieces", whole + piece("<u>", 0, 2));
    for (const uint64_t kind : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40})
      add("a type", whole + piece("b", 0, kind));
    for (const float score : {NAN, INFINITY, -INFINITY}) add("a score", whole + piece("b", score, 1));
    add("a long user-defined piece",
        whole + rules(u32(4) + u32(0) + std::string(1, '\0')) + piece(std::string(100000, 'x'), 0, 4));
    add("a user-defined piece of bytes", whole + piece("\xFF\xFE", 0, 4));
  }
  for (const uint64_t type : {uint64_t{0}, uint64_t{3}, uint64_t{5}, UINT64_MAX}) {
    add(fmt::format("model type {}", type), pieces + trainer(type));
  }
  const std::string end(1, '\0');
  const std::vector<std::string> maps = {
      "x",
      "abc",
      u32(0),
      u32(0) + end,
      u32(3) + "abc" + end,
      u32(8) + u32(0),
      u32(0x80000000u) + u32(0) + end,
      u32(0xFFFFFFFFu) + end,
      u32(4) + u32(0),
      u32(4) + u32(0) + "abc",
      u32(4) + u32(0) + "\xFF" + end,
      u32(4) + u32(0x100) + end,                    // its value lies outside
      u32(8) + u32(0) + u32(0x7FFFFD00u) + end,     // far outside
      u32(8) + u32(0x500) + u32(0x80000009u) + end  // no such string
  };
  for (size_t i = 0; i < maps.size(); i++) add(fmt::format("charsmap {}", i), pieces + trainer(1) + rules(maps[i]));
  for (const char wire : {'\3', '\4', '\6', '\7'}) add("a wire", pieces + std::string(1, wire));
  for (const uint64_t number : {1u, 2u, 3u}) add("a message as a number", pieces + number_field(number, 1));
  add("a number without end", pieces + std::string(12, '\xFF'));
  add("a charsmap for decoding", pieces + bytes_field(5, bytes_field(2, "map")));
}

void add_tiktoken(Table& table) {
  const auto add = [&](const std::string& name, const std::string& text) {
    table.push_back({"tiktoken " + name, [text] { parse_tiktoken(text, "/nonexistent/cl100k_base.tiktoken"); }});
  };
  for (const std::string line : {"",
                                 "YQ==",
                                 "YQ== ",
                                 " 0",
                                 "YQ== x",
                                 "YQ== -1",
                                 "YQ== 1 2",
                                 "YQ==  1",
                                 "YQ 0",
                                 "YQ= 0",
                                 "Y=== 0",
                                 "*Q== 0",
                                 "YQ== 0x1",
                                 "YQ== 1e3",
                                 "YQ== 2147483648",
                                 "YQ== 4294967296",
                                 "YQ== 9223372036854775808",
                                 "YQ== 99999999999999999999",
                                 "YQ== 100000",
                                 "YQ==\t0",
                                 "\xFF\xFE 0",
                                 "YQ== 0\nYQ== 0",
                                 "YQ== 0\nYg== 0",
                                 "YQ== 0",
                                 "YQ== 0\nYQ== 1"}) {
    add("'" + line + "'", line + "\n");
  }
  add("a long line", std::string(10 << 20, 'A') + " 0\n");
  add("zeros", std::string(1000, '\0'));
  table.push_back({"tiktoken of an unknown name", [] { parse_tiktoken("YQ== 0\n", "/nonexistent/mine.tiktoken"); }});
}

void add_tekken(Table& table) {
  const std::string whole = read_text_file(fixture("tekken_small.json"));
  const auto add = [&](const std::string& name, const std::string& text) {
    table.push_back({"tekken " + name, [text] { parse_tekken(text, "/nonexistent/tekken.json"); }});
  };
  const auto swap = [&](std::string_view from, const std::string& to) {
    std::string text = whole;
    const size_t at = text.find(from);
    ASSERT_NE(at, text.npos) << from;
    add(fmt::format("{} -> {}", from, to), text.replace(at, from.size(), to));
  };
  for (const char* to :
       {"\"rank\":1", "\"rank\":-1", "\"rank\":2147483648", "\"rank\":\"0\"", "\"rank\":null", "\"r\":0"}) {
    swap("\"rank\":0", to);
  }
  for (const char* to : {"\"\"", "\"A\"", "\"AA\"", "\"AA=\"", "\"AQ==\"", "0", "null", "\"AAAA\"", "\"%%==\""}) {
    swap("\"AA==\"", to);
  }
  for (const char* to : {"0", "2", "1000000000", "-1", "2147483648", "\"24\"", "null", "65537"}) {
    swap("\"default_num_special_tokens\":24", fmt::format("\"default_num_special_tokens\":{}", to));
  }
  const size_t at = whole.find("\"default_vocab_size\":");
  const std::string size = whole.substr(at, whole.find(',', at) - at);
  for (const char* to :
       {"0", "24", "10", "-1", "100000", "2147483648", "9223372036854775807", "\"9\"", "null", "1e30"}) {
    swap(size, fmt::format("\"default_vocab_size\":{}", to));
  }
  swap("\"version\":\"v3\"", "\"version\":\"v13\"");
  swap("\"version\":\"v3\"", "\"version\":\"3\"");
  swap("\"version\":\"v3\"", "\"version\":3");
  swap("\"pattern\":", "\"p\":");
  swap("\"pattern\":\"", "\"pattern\":\"((((");
  swap("\"config\":", "\"c\":");
  swap("\"vocab\":", "\"v\":");
  for (const char* special :
       {"1", "{}", "[1]", "[{}]", R"([{"rank":0}])", R"([{"rank":24,"token_str":"x"}])",
        R"([{"rank":-1,"token_str":"x"}])", R"([{"rank":0,"token_str":""}])",
        R"([{"rank":0,"token_str":"x"},{"rank":0,"token_str":"y"}])",
        R"([{"rank":0,"token_str":"x"},{"rank":1,"token_str":"x"}])", R"([{"rank":0,"token_str":"<SPECIAL_5>"}])"}) {
    swap("{\"config\":", fmt::format("{{\"special_tokens\":{},\"config\":", special));
  }
  for (size_t n = 0; n < whole.size(); n += whole.size() / 12) add(fmt::format("cut at {}", n), whole.substr(0, n));
}

void add_gguf(Table& table) {
  struct Spec {
    std::string model;
    std::vector<std::string> tokens = {"<pad>", "</s>", "<unk>", "\u2581a", "b", "a"};
    std::vector<int32_t> types = {3, 3, 2, 1, 1, 1};
    std::vector<float> scores = {0, 0, 0, -1, -2, -3};
    std::vector<int32_t> charsmap = {};
  };
  const auto add = [&](const std::string& name, Spec spec) {
    table.push_back({"gguf " + spec.model + " " + name, [spec] {
                       GgufWriter writer;
                       writer.set("general.architecture", "t5");
                       writer.set("tokenizer.ggml.model", spec.model);
                       writer.set_array("tokenizer.ggml.tokens", spec.tokens);
                       writer.set_array("tokenizer.ggml.token_type", std::span<const int32_t>(spec.types));
                       writer.set_array("tokenizer.ggml.scores", std::span<const float>(spec.scores));
                       writer.set("tokenizer.ggml.unknown_token_id", uint32_t{2});
                       if (!spec.charsmap.empty()) {
                         writer.set_array("tokenizer.ggml.precompiled_charsmap",
                                          std::span<const int32_t>(spec.charsmap));
                       }
                       Tokenizer::from_gguf(Gguf::parse(writer.bytes()));
                     }});
  };
  for (const char* model : {"t5", "rwkv", "bert"}) {
    Table good;
    std::swap(good, table);
    add("", {.model = model});
    ASSERT_EQ(error_from(table[0].load), "") << model;
    std::swap(good, table);
    add("a token twice", {.model = model, .tokens = {"<pad>", "</s>", "<unk>", "b", "b", "a"}});
    add("a type", {.model = model, .types = {3, 3, 2, 1, 1, 9}});
    add("fewer types", {.model = model, .types = {3, 3, 2, 1, 1}});
  }
  for (const float score : {NAN, INFINITY, -INFINITY})
    add("a score", {.model = "t5", .scores = {0, 0, 0, score, -2, -3}});
  add("fewer scores", {.model = "t5", .scores = {0, 0, 0}});
  add("a long token", {.model = "t5", .tokens = {"<pad>", "</s>", "<unk>", std::string(100000, 'x'), "b", "a"}});
  add("a charsmap", {.model = "t5", .charsmap = {1, 2, 3, 4, 5}});
  add("a short charsmap", {.model = "t5", .charsmap = {1}});
  for (const char* token : {"\\", "\\x", "\\x1", "\\xZZ", "a\\"}) {
    add(token, {.model = "rwkv", .tokens = {"<pad>", "</s>", "<unk>", token, "b", "a"}});
  }
  for (const char* model : {"", "none", "plamo2", "hybriddna", "no_vocab"}) add("", {.model = model});
}

void add_old_files(Table& table) {
  const auto wordpiece = [&](const std::string& name, const std::string& text) {
    table.push_back({"vocab.txt " + name, [text] {
                       parse_tokenizer_json(wordpiece_as_json(text, {}, "vocab.txt"), "/nonexistent/vocab.txt");
                     }});
  };
  wordpiece("empty", "");
  wordpiece("twice", "[UNK]\n[CLS]\n[SEP]\na\na\n");
  wordpiece("bytes", "[UNK]\n[CLS]\n[SEP]\n\xFF\n");
  wordpiece("without [SEP]", "[UNK]\n[CLS]\na\n");
  wordpiece("without [UNK]", "[CLS]\n[SEP]\na\n");
  const auto gpt2 = [&](const std::string& vocab, const std::string& merges) {
    table.push_back({"vocab.json " + vocab + " " + merges, [vocab, merges] {
                       parse_tokenizer_json(gpt2_as_json(vocab, merges, {}, "vocab.json"), "/nonexistent/vocab.json");
                     }});
  };
  for (const char* vocab : {"", "[]", "{", "{}", "1", R"({"a":-1})", R"({"a":0,"b":0})", R"({"a":2147483648})"})
    gpt2(vocab, "");
  for (const char* merges : {"a", "a b c", "a x", "x b", " ", "a b\na"}) gpt2(R"({"a":0,"b":1})", merges);
}

TEST(DamagedVocabularies, AllAreRefused) {
  Table table;
  add_sentencepiece(table);
  add_tiktoken(table);
  add_tekken(table);
  add_gguf(table);
  add_old_files(table);
  EXPECT_GE(table.size(), 200u);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (const Damage& damage : table) {
    const auto start = std::chrono::steady_clock::now();
    const std::string error = error_from(damage.load);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(error.starts_with('[')) << damage.name << ": " << (error.empty() ? "was accepted" : error);
    EXPECT_LT(error.size(), 2000u) << damage.name;
    EXPECT_LT(took.count(), 1.0) << damage.name;
  }
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 256 << 10);
}

}  // namespace
}  // namespace ingot
