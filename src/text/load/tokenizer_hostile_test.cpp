// Vocabularies made to break a reader: wrong lengths, ids twice or far away, merges of what is not there, wrong types,
// files cut short. Every one is refused with an Error that says what is wrong.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/hash_collisions_test_support.h"
#include "files/gguf/gguf.h"
#include "files/gguf/gguf_writer.h"
#include "text/load/tokenizer_load.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

// A vocabulary that loads, one part of which a test then spoils.
struct Spec {
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens = {"a", "b", "c", "ab", "abc", "<|end|>"};
  std::vector<int32_t> types = {1, 1, 1, 1, 1, 3};
  std::vector<float> scores = {-3, -4, -5, -1, -2, 0};
  std::vector<std::string> merges = {"a b", "ab c"};
  std::function<void(GgufWriter&)> more;
};

std::string load_error(const Spec& spec) {
  GgufWriter writer;
  writer.set("general.architecture", "llama");
  writer.set("tokenizer.ggml.model", spec.model);
  writer.set("tokenizer.ggml.pre", spec.pre);
  if (!spec.tokens.empty()) writer.set_array("tokenizer.ggml.tokens", spec.tokens);
  writer.set_array("tokenizer.ggml.token_type", std::span<const int32_t>(spec.types));
  if (!spec.scores.empty()) writer.set_array("tokenizer.ggml.scores", std::span<const float>(spec.scores));
  if (!spec.merges.empty()) writer.set_array("tokenizer.ggml.merges", spec.merges);
  if (spec.more) spec.more(writer);
  const std::vector<std::byte> bytes = writer.bytes();
  return error_from([&] { Tokenizer::from_gguf(Gguf::parse(bytes)); });
}

void expect_refused(const std::string& error, const std::string& what) {
  EXPECT_TRUE(error.starts_with("[tokenizer]") || error.starts_with("[gguf]") || error.starts_with("[json]") ||
              error.starts_with("[protobuf]"))
      << what << ": " << (error.empty() ? "was accepted" : error);
  EXPECT_LT(error.size(), 2000u) << what;
}

TEST(HostileVocabulary, TheUnspoiltLoads) {
  Spec bytes, pieces;
  EXPECT_EQ(load_error(bytes), "");
  pieces.model = "llama";
  EXPECT_EQ(load_error(pieces), "");
}

TEST(HostileVocabulary, GgufIds) {
  for (const std::string model : {"gpt2", "llama"}) {
    for (const char* key :
         {"bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id", "eot_token_id", "eom_token_id"}) {
      for (const uint32_t id : {6u, 7u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFEu}) {
        Spec spec;
        spec.model = model;
        spec.more = [&](GgufWriter& w) { w.set(std::string("tokenizer.ggml.") + key, id); };
        expect_refused(load_error(spec), fmt::format("{} {} {}", model, key, id));
      }
      Spec spec;
      spec.model = model;
      spec.more = [&](GgufWriter& w) { w.set(std::string("tokenizer.ggml.") + key, "one"); };
      expect_refused(load_error(spec), fmt::format("{} {} as a string", model, key));
      spec.more = [&](GgufWriter& w) { w.set(std::string("tokenizer.ggml.") + key, int32_t{-2}); };
      expect_refused(load_error(spec), fmt::format("{} {} below 0", model, key));
    }
  }
}

TEST(HostileVocabulary, GgufLists) {
  const auto refused = [](const std::string& what, const std::function<void(Spec&)>& spoil) {
    Spec spec;
    spoil(spec);
    expect_refused(load_error(spec), what);
  };
  refused("no tokens", [](Spec& s) { s.tokens.clear(); });
  refused("unknown model", [](Spec& s) { s.model = "none"; });
  refused("bert", [](Spec& s) { s.model = "bert"; });
  refused("unknown pre", [](Spec& s) { s.pre = "of tomorrow"; });
  refused("no merges", [](Spec& s) { s.merges.clear(); });
  for (const int32_t type : {-1, 7, 1000, INT32_MIN, INT32_MAX}) {
    refused("a type", [&](Spec& s) { s.types[2] = type; });
  }
  refused("fewer types", [](Spec& s) { s.types.pop_back(); });
  refused("more types", [](Spec& s) { s.types.push_back(1); });
  refused("a token twice", [](Spec& s) { s.tokens[4] = "a"; });
  for (const std::string merge : {"", " ", "a", "ab", "a ", " b", "a c", "x b", "a x", "abc a", "a b c", "ab", "\xFF b",
                                  "a\n b", "a \xC4", "\u4E2D b"}) {
    refused("merge '" + merge + "'", [&](Spec& s) { s.merges.push_back(merge); });
  }
  const auto spoil_pieces = [&](const std::string& what, const std::function<void(Spec&)>& spoil) {
    refused("llama " + what, [&](Spec& s) {
      s.model = "llama";
      spoil(s);
    });
  };
  for (const float score : {NAN, INFINITY, -INFINITY}) spoil_pieces("score", [&](Spec& s) { s.scores[1] = score; });
  spoil_pieces("no scores", [](Spec& s) { s.scores.clear(); });
  spoil_pieces("fewer scores", [](Spec& s) { s.scores.pop_back(); });
  spoil_pieces("more scores", [](Spec& s) { s.scores.push_back(0); });
  spoil_pieces("a token twice", [](Spec& s) { s.tokens[1] = "abc"; });
  spoil_pieces("a long control token", [](Spec& s) { s.tokens[5] = std::string(100000, 'x'); });
  spoil_pieces("a control token of bytes", [](Spec& s) { s.tokens[5] = "\xFF\xFE"; });
}

std::string json_error(const std::string& json) {
  return error_from([&] { parse_tokenizer_json(json, "/nonexistent/tokenizer.json"); });
}

// `key` of a small tokenizer.json that loads, replaced by `value`.
std::string spoilt_json(const std::string& key, const std::string& value) {
  const std::vector<std::pair<std::string, std::string>> members = {
      {"type", R"("BPE")"}, {"vocab", R"({"a":0,"b":1,"ab":2})"}, {"merges", R"(["a b"])"}, {"unk_token", R"("a")"}};
  std::string model;
  for (const auto& [name, text] : members) model += fmt::format("\"{}\":{},", name, name == key ? value : text);
  model.pop_back();
  const std::vector<std::pair<std::string, std::string>> roots = {
      {"model", "{" + model + "}"},
      {"added_tokens", R"([{"id":3,"content":"<x>","special":true}])"},
      {"normalizer", "null"},
      {"pre_tokenizer", R"({"type":"Metaspace","replacement":"_"})"},
      {"decoder", R"({"type":"Fuse"})"},
      {"post_processor", "null"}};
  std::string json;
  for (const auto& [name, text] : roots) json += fmt::format("\"{}\":{},", name, name == key ? value : text);
  json.pop_back();
  return "{" + json + "}";
}

TEST(HostileVocabulary, Json) {
  ASSERT_EQ(json_error(spoilt_json("", "")), "");
  for (const std::string id : {"-1", "2147483648", "4294967296", "9223372036854775807", "18446744073709551615", "1e9",
                               "0.5", "\"0\"", "null", "[0]", "100000", "70000", "true", "-9223372036854775808"}) {
    expect_refused(json_error(spoilt_json("vocab", R"({"a":0,"b":1,"ab":)" + id + "}")), "vocab id " + id);
    expect_refused(json_error(spoilt_json("added_tokens", R"([{"id":)" + id + R"(,"content":"<x>"}])")),
                   "added id " + id);
  }
  for (const std::string merges :
       {"[\"a\"]", "[\"a b a\"]", "[\"\"]", "[\" b\"]", "[\"b a\"]", "[\"x b\"]", "[[\"a\"]]", "[[\"a\",\"b\",\"a\"]]",
        "[[\"a\",1]]", "[1]", "[null]", "{}", "\"a b\"", "1", "[[\"a\",\"a\"]]", "[[\"\",\"a\"]]", "null"}) {
    expect_refused(json_error(spoilt_json("merges", merges)), "merges " + merges);
  }
  for (const std::string vocab : {"{}", "[]", "1", "null", "\"a\"", R"({"a":0,"b":0,"ab":2})", R"({"a":0,"b":1})"}) {
    expect_refused(json_error(spoilt_json("vocab", vocab)), "vocab " + vocab);
  }
  for (const std::string added :
       {"{}", "1", "\"x\"", "[1]", "[{}]", R"([{"id":3}])", R"([{"id":0,"content":"<x>"}])",
        R"([{"id":3,"content":""}])", R"([{"id":3,"content":1}])", R"([{"id":3,"content":"x","special":1}])",
        R"([{"id":3,"content":"x","lstrip":"no"}])"}) {
    expect_refused(json_error(spoilt_json("added_tokens", added)), "added_tokens " + added);
  }
  for (const std::string key : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
    for (const std::string value : {"1", "[]", "\"NFC\"", "{}", R"({"type":1})", R"({"type":"Zip"})",
                                    R"({"type":"Sequence"})", R"({"type":"Sequence","normalizers":1})", "true"}) {
      expect_refused(json_error(spoilt_json(key, value)), key + " " + value);
    }
  }
  for (const std::string model : {"1", "[]", "null", "{}", R"({"type":"Unigram"})", R"({"type":"BPE"})"}) {
    expect_refused(json_error(spoilt_json("model", model)), "model " + model);
  }
  expect_refused(json_error(spoilt_json("unk_token", "\"zzz\"")), "unk_token");
  for (const std::string type : {"\"Markov\"", "\"\"", "1", "\"Unigram\""})
    expect_refused(json_error(spoilt_json("type", type)), type);
  expect_refused(json_error("[]"), "an array");
}

// A vocabulary and its added tokens, whose keys fall into one place of the library's table or of one with the standard
// hash: refused, or read as fast as others. 16,384 of them would take a quarter of a minute.
TEST(HostileVocabulary, TokensMadeToCollide) {
  const std::string refusal = json_error(spoilt_json("vocab", json_object_of(alike_json_keys(256), "0")));
  EXPECT_NE(refusal.find("keys of an object that fall into one place"), std::string::npos) << refusal;
  const std::vector<std::string> alike = HashCollisions::strings(14);
  std::string vocab = R"({"a":0,"b":1,"ab":2)", added;
  for (size_t i = 0; i < alike.size(); ++i) {
    vocab += fmt::format(",\"{}\":{}", alike[i], i + 4);
    if (i < 4096) added += fmt::format(R"({}{{"id":{},"content":"<{}>"}})", i ? "," : "", i + 3, alike[i]);
  }
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(json_error(spoilt_json("vocab", vocab + "}")), "");
  EXPECT_EQ(json_error(spoilt_json("added_tokens", "[" + added + "]")), "");
  Spec spec;
  spec.tokens.insert(spec.tokens.end(), alike.begin(), alike.end());
  spec.types.resize(spec.tokens.size(), 1);
  spec.scores.resize(spec.tokens.size(), -9);
  EXPECT_EQ(load_error(spec), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(8));
}

// Ids leave a gap from 3 to 7.
TEST(HostileVocabulary, JsonPostProcessorOfAbsentTokens) {
  const auto error = [](const std::string& cls, const std::string& sep, const std::string& ids) {
    const std::string start = R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},)"
                              R"("added_tokens":[{"id":8,"content":"<s>","special":true}],"post_processor":)";
    const std::string pair = R"({"type":"RobertaProcessing","cls":["<s>",)" + cls + R"(],"sep":["<s>",)" + sep + "]}";
    const std::string single = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},)"
                               R"({"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[)" +
                               ids + "]}}}";
    return json_error(start + R"({"type":"Sequence","processors":[)" + pair + "," + single + "]}}");
  };
  EXPECT_EQ(error("8", "8", "8,0"), "");
  EXPECT_EQ(error("4", "8", "8"), "[tokenizer] cls: no token has the id 4");
  EXPECT_EQ(error("8", "7", "8"), "[tokenizer] sep: no token has the id 7");
  EXPECT_EQ(error("8", "8", "8,3"), "[tokenizer] an id of TemplateProcessing: no token has the id 3");
  expect_refused(error("9", "8", "8"), "cls 9");
}

TEST(HostileVocabulary, JsonCutShort) {
  const std::string whole = read_text_file(fixture("llama2_like.json"));
  for (size_t n = 0; n + 1 < whole.size(); n += 1 + n / 50) {
    expect_refused(json_error(whole.substr(0, n)), fmt::format("{} bytes", n));
  }
}

// A SentencePiece file, field by field.
std::string field(int number, int wire, std::string_view bytes) {
  std::string out(1, static_cast<char>(number << 3 | wire));
  if (number > 15) out = std::string{static_cast<char>((number << 3 | wire) | 0x80), static_cast<char>(number >> 4)};
  if (wire == 2) out.push_back(static_cast<char>(bytes.size()));
  return out.append(bytes);
}

std::string piece(std::string_view text, float score, char type) {
  const auto bits = std::bit_cast<uint32_t>(score);
  std::string bytes;
  for (int i = 0; i < 4; i++) bytes.push_back(static_cast<char>(bits >> (8 * i)));
  return field(1, 2, field(1, 2, text) + field(2, 5, bytes) + field(3, 0, std::string(1, type)));
}

std::string pieces_file() {
  std::string file = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\u2581", -1, 1);
  file += piece("a", -2, 1) + piece("\u2581a", -1, 1) + piece("  ", -1, 4);
  file += field(2, 2, field(3, 0, "\x02")) + field(3, 2, field(4, 0, std::string(1, '\0')));
  return file;
}

std::string model_error(const std::string& bytes) {
  return error_from([&] { parse_sentencepiece_model(bytes, "/nonexistent/tokenizer.model"); });
}

TEST(HostileVocabulary, SentencePiece) {
  ASSERT_EQ(model_error(pieces_file()), "");
  const auto tokenizer = parse_sentencepiece_model(pieces_file(), "/nonexistent/tokenizer.model");
  EXPECT_EQ(tokenizer->encode("a a"), (std::vector<Token>{5, 5}));
  EXPECT_EQ(tokenizer->encode("a", {.add_special = true}), (std::vector<Token>{1, 5}));
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{1, 5, 5}), "a a");

  const std::string whole = pieces_file();
  for (size_t n = 0; n < whole.size() - 6; n++) expect_refused(model_error(whole.substr(0, n)), fmt::format("{}", n));
  expect_refused(model_error(whole + piece("a", 0, 1)), "a piece twice");
  expect_refused(model_error(whole + piece("b", NAN, 1)), "a score");
  for (const char type : {'\0', '\7', '\x7F'}) expect_refused(model_error(whole + piece("b", 0, type)), "a type");
  expect_refused(model_error(whole + field(3, 2, field(2, 2, "map"))), "a charsmap");
  expect_refused(model_error(whole + field(2, 2, field(3, 0, "\x03"))), "word");
  expect_refused(model_error(whole + "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"), "a length of 2^63");
  expect_refused(model_error(whole + "\x0A\xFF\xFF\xFF\xFF\x07"), "a length of 2^31");
  expect_refused(model_error(whole + std::string(12, '\xFF')), "a varint without end");
  for (const char wire : {'\3', '\4', '\6', '\7'}) expect_refused(model_error(whole + std::string(1, wire)), "a wire");
  expect_refused(model_error(whole + field(1, 0, "\x01")), "a piece as a number");
}

TEST(HostileVocabulary, Llama2c) {
  const std::string whole = read_text_file(fixture("tok512.bin"));
  const auto error = [](const std::string& bytes) { return error_from([&] { parse_llama2c(bytes, "tok512.bin"); }); };
  ASSERT_EQ(error(whole), "");
  for (size_t n = 0; n < 1000; n += 7) expect_refused(error(whole.substr(0, n)), fmt::format("{}", n));
  for (const uint32_t length : {0xFFFFFFFFu, 0x80000000u, 0x7FFFFFFFu, 1000u}) {
    std::string bytes = whole;
    for (size_t i = 0; i < 4; i++) bytes[8 + i] = static_cast<char>(length >> (8 * i));
    expect_refused(error(bytes), fmt::format("length {}", length));
  }
}

// Whatever a bit or a byte becomes: an Error, or a tokenizer that works.
TEST(HostileVocabulary, DamagedFiles) {
  std::mt19937 rng(5);
  const auto damage = [&](std::string bytes) {
    for (size_t i = 0; i <= rng() % 3; i++) bytes[rng() % bytes.size()] ^= static_cast<char>(1 << rng() % 8);
    return bytes;
  };
  const auto survives = [](const std::function<std::unique_ptr<Tokenizer>()>& load) {
    try {
      const auto tokenizer = load();
      const std::vector<Token> ids = tokenizer->encode("The king's <|im_end|> 中文\n", {.parse_special = true});
      tokenizer->decode(ids, true);
    } catch (const Error&) {
    }
  };
  const std::string json = read_text_file(fixture("llama2_like.json"));
  const std::string model = pieces_file();
  const std::string bin = read_text_file(fixture("tok512.bin"));
  for (int i = 0; i < 300; i++) {
    survives([&] { return parse_tokenizer_json(damage(json), "/nonexistent/tokenizer.json"); });
    survives([&] { return parse_sentencepiece_model(damage(model), "/nonexistent/tokenizer.model"); });
    survives([&] { return parse_llama2c(damage(bin), "tok512.bin"); });
  }
}

}  // namespace
}  // namespace ingot
