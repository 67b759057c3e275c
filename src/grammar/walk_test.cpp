// Answers that logits lead astray: whatever is chosen among the allowed tokens, there is always a next one, until the
// answer ends; and the fast mask is the plain one wherever that leads. A part of it by default; INGOT_LONG=1 runs a
// million steps, and a thousand states of each schema.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/data_test_support.h"
#include "files/json.h"
#include "grammar/call_form.h"
#include "grammar/matcher_test_support.h"

namespace ingot::grammar {
namespace {

bool is_long() { return std::getenv("INGOT_LONG") != nullptr; }

struct Named {
  std::string name;
  Source source;
  std::shared_ptr<const Vocabulary> vocabulary = small_vocabulary();
};

// The sample of MaskBench; empty where it is not here.
std::vector<Named> schemas() {
  std::vector<Named> all;
  const std::string packed = test_data("json-schema/maskbench_sample.tar.gz");
  if (!std::filesystem::exists(packed)) return all;
  const std::string folder = ::testing::TempDir() + "/ingot_walks_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  if (std::system(("tar xzf '" + packed + "' -C '" + folder + "'").c_str()) == 0) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".json") continue;
      const Json file = parse_json(read_text_file(entry.path().string()), entry.path().filename().string());
      all.push_back({entry.path().filename().string(),
                     {.language = Language::kJsonSchema, .text = to_json(*find(file.get_object(), "schema"))}});
    }
  }
  std::filesystem::remove_all(folder);
  std::ranges::sort(all, {}, &Named::name);
  return all;
}

std::vector<Named> grammars() {
  std::vector<Named> all;
  for (const std::string& name : test_data_names("grammars", ".gbnf")) {
    all.push_back(
        {name, {.language = Language::kGbnf, .text = read_text_file(test_data("grammars/" + name + ".gbnf"))}});
  }
  const auto add = [&](Language language, std::string text) {
    all.push_back({text, {.language = language, .text = std::move(text)}});
  };
  add(Language::kJsonObject, "");
  add(Language::kLark,
      "start: expr\n?expr: expr \"+\" term | term\nterm: INT | \"(\" expr \")\"\n%import common.INT\n"
      "%ignore \" \"\n");
  add(Language::kRegex, "([a-z]+@[a-z]+\\.(com|org)|\\d{3}-\\d{4})(, .{0,40})?");
  add(Language::kStructuralTag,
      R"({"structures": [{"begin": "<tool>", "schema": {"type": "object", "properties": {"a": {"type": "integer"}},
          "required": ["a"]}, "end": "</tool>"}], "triggers": ["<tool>"]})");
  add(Language::kStructuralTag,
      R"({"format": {"type": "tag", "begin": "<|call|>", "content": {"type": "json_schema", "json_schema":
          {"type": "object", "properties": {"name": {"enum": ["f", "g"]}, "arguments": {"type": "object"}},
           "required": ["name", "arguments"], "additionalProperties": false}}, "end": "</tool>"}})");
  // Calls of tools as Hermes' and Mistral's models write them.
  add(Language::kGbnf,
      R"(root ::= call ("\n" call)*
call ::= "<tool_call>\n{\"name\": \"" [a-z]+ "\", \"arguments\": " object "}\n</tool_call>"
object ::= "{" (string ": " value (", " string ": " value)*)? "}"
value ::= string | object | "-"? [0-9]+ | "[" (value (", " value)*)? "]" | "true" | "null"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\/bfnrt])* "\"")");
  return all;
}

// The small vocabulary with the marks of a form as special tokens.
std::shared_ptr<const Vocabulary> vocabulary_of(const CallForm& form) {
  std::vector<Vocabulary::Token> tokens = small_tokens();
  const auto end = static_cast<int32_t>(tokens.size()) - 1;
  for (const std::string_view text : {form.open, form.close, form.call_open, form.call_close, form.id_close,
                                      form.name_close, form.key_open, form.value_close, form.quote}) {
    for (size_t i = 0; i < text.size(); i++) {
      const std::string name(text.substr(i, mark_size(text.substr(i))));
      const auto same = [&](const Vocabulary::Token& token) { return token.bytes == name; };
      if (!name.empty() && std::ranges::none_of(tokens, same)) tokens.push_back({name, true});
    }
  }
  return std::make_shared<const Vocabulary>(std::move(tokens), std::span(&end, 1));
}

// Calls of tools in every form, as each tool_choice asks for them. In the long run each is tried with all schemas of
// tools that the sample has, else with one of them.
std::vector<Named> calls() {
  std::vector<Named> tools = schemas();
  std::erase_if(tools, [](const Named& one) { return !one.name.starts_with("BFCL"); });
  if (tools.empty()) {
    tools.push_back({"own",
                     {.language = Language::kJsonSchema,
                      .text = R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},
                          "c":{"type":"array","items":{"enum":["x","y"]}}},"required":["a"]})"}});
  }
  struct Choice {
    const char* name;
    bool required, one;
    size_t tools;
    bool instead = false;
  };
  constexpr Choice kChoices[] = {{"auto", false, false, 2},    {"auto, one", false, true, 2},
                                 {"required", true, false, 2}, {"required, one", true, true, 2},
                                 {"named", true, true, 1},     {"auto beside a schema", false, false, 2, true}};
  std::vector<Named> all;
  size_t at = 0;
  for (const CallForm* form : call_forms()) {
    const auto marks = vocabulary_of(*form);
    for (const Choice& choice : kChoices) {
      const size_t count = is_long() ? tools.size() : 1;
      for (size_t i = 0; i < count; i++, at++) {
        JsonArray list;
        for (size_t k = 0; k < choice.tools; k++) {
          const std::string& schema = tools[(at + k * 7) % tools.size()].source.text;
          list.push_back(JsonObject{{"name", k == 0 ? "get_it" : "get"}, {"schema", parse_json(schema, "schema")}});
        }
        const JsonObject text{
            {"form", form->name}, {"required", choice.required}, {"one", choice.one}, {"tools", std::move(list)}};
        Source source{.language = Language::kCalls, .text = to_json(text)};
        if (choice.instead) source.instead.push_back(tools[(at + 3) % tools.size()].source);
        all.push_back({std::string(form->name) + ", " + choice.name + ", " + tools[at % tools.size()].name,
                       std::move(source), at % 2 == 0 ? marks : small_vocabulary()});
      }
    }
  }
  return all;
}

// What the logits want of the allowed tokens.
enum class Wish { kAny, kFirst, kLast, kLongest, kNoEnd, kOpen, kCount };

int32_t wished(Wish wish, const std::vector<int32_t>& allowed, const Vocabulary& vocabulary, std::mt19937& random) {
  const auto of = [&](auto&& better) {
    return *std::ranges::max_element(allowed, [&](int32_t a, int32_t b) { return better(a) < better(b); });
  };
  const int32_t any = allowed[random() % allowed.size()];
  switch (wish) {
    case Wish::kFirst:
      return random() % 8 ? allowed.front() : any;
    case Wish::kLast:
      return random() % 8 ? allowed.back() : any;
    case Wish::kLongest:
      return random() % 4 ? of([&](int32_t t) { return vocabulary.token_bytes(t).size(); }) : any;
    case Wish::kNoEnd:
      for (int i = 0; i < 20; i++) {
        const int32_t other = allowed[random() % allowed.size()];
        if (!vocabulary.is_end(other)) return other;
      }
      return any;
    case Wish::kOpen:  // as deep as it goes
      return random() % 4
                 ? of([&](int32_t t) { return vocabulary.token_bytes(t).find_first_of("{[(") != std::string::npos; })
                 : any;
    default:
      return any;
  }
}

// Steps that were made; a dead end or an empty mask is a failure. A limit that is reached ends the answer with a
// message, as it should.
int64_t astray(const Named& named, Wish wish, uint32_t seed, int steps) {
  const std::shared_ptr<const Compiled> compiled = compile(named.source, named.vocabulary);
  const Vocabulary& vocabulary = compiled->vocabulary();
  std::mt19937 random(seed);
  std::vector<uint32_t> words(vocabulary.words());
  auto matcher = std::make_unique<Matcher>(compiled);
  for (int step = 0, length = 0; step < steps; step++, length++) {
    if (matcher->complete() || length > 400) matcher = std::make_unique<Matcher>(compiled), length = 0;
    if (!matcher->mask(words)) {
      if (matcher->failure() == Matcher::kDeadEnd) ADD_FAILURE() << named.name << ", seed " << seed << ": a dead end";
      return step;
    }
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < vocabulary.size(); token++) {
      if (in_mask(words, token)) allowed.push_back(token);
    }
    if (allowed.empty()) {
      ADD_FAILURE() << named.name << ", seed " << seed << ": an empty mask";
      return step;
    }
    const int32_t token = wished(wish, allowed, vocabulary, random);
    if (!matcher->advance(token)) {
      EXPECT_TRUE(matcher->failed()) << named.name << ", seed " << seed << ": token " << token
                                     << " is in the mask alone";
      return step;
    }
  }
  return steps;
}

void expect_no_dead_end(const std::vector<Named>& all, int64_t goal, int each) {
  constexpr int kWishes = static_cast<int>(Wish::kCount);
  int64_t made = 0;
  size_t tried = 0;
  for (uint32_t round = 0; made < goal || tried < all.size(); round++) {
    const int64_t before = made;
    for (size_t i = 0; i < all.size() && (made < goal || tried < all.size()); i++, tried++) {
      const auto wish = static_cast<Wish>((round + i) % kWishes);
      made += astray(all[i], wish, round * 1000 + static_cast<uint32_t>(i), each);
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_GT(made, before);
  }
  std::printf("%zu sources, %lld steps, no dead end\n", all.size(), static_cast<long long>(made));
}

// Row 15 of what must not break: no dead end, whatever the logits are.
TEST(Robustness15, AdversarialLogitsMeetNoDeadEnd) {
  std::vector<Named> all = grammars();
  for (Named& one : schemas()) all.push_back(std::move(one));
  expect_no_dead_end(all, is_long() ? 1'000'000 : 20'000, is_long() ? 600 : 60);
}

TEST(Robustness15, AdversarialLogitsMeetNoDeadEndInCalls) {
  expect_no_dead_end(calls(), is_long() ? 1'000'000 : 10'000, is_long() ? 600 : 60);
}

// The fast mask is the plain one in random states of each schema of the sample, and of each grammar.
TEST(FastMask, IsThePlainOneInRandomStates) {
  std::vector<Named> all = grammars();
  for (Named& one : schemas()) all.push_back(std::move(one));
  const int states = is_long() ? 1000 : 3;
  for (size_t i = 0; i < all.size(); i++) {
    const auto compiled = compile(all[i].source, small_vocabulary());
    // A state after each few tokens, so that they lie apart.
    EXPECT_GE(random_walk(compiled, static_cast<uint32_t>(i), 5 * states, 5, 60), 0) << all[i].name;
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace ingot::grammar
