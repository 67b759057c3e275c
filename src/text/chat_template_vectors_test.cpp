// What jinja2, driven as the transformers library drives it, made of templates: tools/make_template_vectors.py.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <optional>

#include "base/data_test_support.h"
#include "text/chat_template.h"
#include "text/chat_template_input.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

std::string vectors(const std::string& name) { return INGOT_SOURCE_DIR "/tests/data/templates/" + name; }

// Nothing where the file is packed and there is no xz.
std::optional<Json> load(const std::string& path) {
  if (!path.ends_with(".xz")) return read_json_file(path);
  const std::string text = read_xz(path);
  if (text.empty()) return std::nullopt;
  return parse_json(text, path);
}

struct Outcome {
  bool raised = false;
  std::string text;  // of the error when it raised
};

template <class F>
Outcome outcome(F&& render) {
  try {
    return {false, render()};
  } catch (const Error& error) {
    return {true, error.what()};
  }
}

// Of jinja2 and refused here: filters that write HTML, print addresses or draw lots, methods that make bytes or need
// tables, two tags for inheritance. No published template has them. The error names them.
bool refused_on_purpose(const std::string& error) { return error.ends_with("is not supported"); }

struct Counts {
  size_t equal = 0, raised = 0, refused = 0;
};

// Every case of a file. Stops at the tenth difference.
Counts check_vectors(const JsonObject& root) {
  setenv("TZ", "UTC", 1);
  const RenderOptions options{static_cast<std::time_t>(get_int(root, "now"))};
  const JsonObject* sources = find_object(root, "templates");
  Counts counts;
  int different = 0;
  std::string parsed_name;
  std::optional<ChatTemplate> parsed;
  std::string parse_error;
  for (const Json& item : as_array(root.at("cases"), "cases")) {
    const JsonObject& test = as_object(item, "case");
    const std::string name = get_string(test, "template");
    const std::string chat = get_string(test, "chat", "");
    if (name != parsed_name) {
      parsed_name = name;
      parsed.reset();
      const Outcome parse = outcome([&] {
        parsed = ChatTemplate::parse(sources == nullptr ? name : get_string(*sources, name));
        return std::string();
      });
      parse_error = parse.text;
    }
    const Json& input = sources == nullptr ? root.at("input") : root.at("inputs").at(chat);
    const Outcome got = parsed ? outcome([&] { return parsed->render(input, options); }) : Outcome{true, parse_error};
    const bool expected = test.contains("expected");
    if (got.raised && expected && refused_on_purpose(got.text)) {
      counts.refused++;
      continue;
    }
    EXPECT_EQ(got.raised, !expected) << name << " / " << chat << ": " << got.text;
    if (!got.raised && expected) {
      EXPECT_EQ(got.text, get_string(test, "expected")) << name << " / " << chat;
    }
    const bool same = got.raised ? !expected : expected && got.text == get_string(test, "expected");
    if (!same && ++different == 10) break;
    got.raised ? ++counts.raised : ++counts.equal;
  }
  std::cout << counts.equal << " equal, " << counts.raised << " refused by both, " << counts.refused
            << " refused here on purpose\n";
  return counts;
}

TEST(ChatTemplateVectors, Conversations) {
  const std::optional<Json> file = load(vectors("chats.json.xz"));
  if (!file) GTEST_SKIP() << "no xz to unpack chats.json.xz";
  EXPECT_GE(file->at("templates").as_object().size(), 30u);
  EXPECT_GE(file->at("inputs").as_object().size(), 20u);
  const Counts counts = check_vectors(file->as_object());
  EXPECT_EQ(counts.refused, 0u);
  EXPECT_GE(counts.equal, 2000u);
}

TEST(ChatTemplateVectors, Mutations) {
  const std::optional<Json> file = load(vectors("mutations.json.xz"));
  if (!file) GTEST_SKIP() << "no xz to unpack mutations.json.xz";
  EXPECT_GE(file->at("templates").as_object().size(), 500u);
  const Counts counts = check_vectors(file->as_object());
  EXPECT_LE(counts.refused, counts.equal / 20);
}

TEST(ChatTemplateVectors, Snippets) {
  const Counts counts = check_vectors(load(vectors("snippets.json"))->as_object());
  EXPECT_EQ(counts.refused, 0u);
}

// A file of tools/make_template_vectors.py.
class FurtherVectors : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FurtherVectors);

TEST_P(FurtherVectors, EqualJinja) {
  const std::optional<Json> file = load(GetParam());
  ASSERT_TRUE(file.has_value());
  check_vectors(file->as_object());
}

INSTANTIATE_TEST_SUITE_P(Named, FurtherVectors, testing::ValuesIn(named_file("INGOT_TEMPLATE_VECTORS")));

TEST(ChatTemplateVectors, DrivenAsTransformersDrives) {
  const std::optional<Json> file = load(vectors("chats.json.xz"));
  if (!file) GTEST_SKIP() << "no xz to unpack chats.json.xz";
  const JsonObject& root = file->as_object();
  size_t equal = 0;
  for (const Json& item : root.at("driven").as_array()) {
    const JsonObject& test = item.as_object();
    const std::string name = get_string(test, "template");
    const ChatTemplate chat_template = ChatTemplate::parse(get_string(root.at("templates").as_object(), name));
    const Outcome got = outcome([&] {
      std::string text;
      for (const auto& piece : render_chat(chat_template, test.at("input").as_object())) text += piece.text;
      return text;
    });
    ASSERT_EQ(got.raised, !test.contains("expected")) << name << to_json(test.at("input")) << got.text;
    if (got.raised) continue;
    EXPECT_EQ(got.text, get_string(test, "expected")) << name << to_json(test.at("input"));
    equal++;
  }
  EXPECT_GE(equal, 100u);
}

}  // namespace
}  // namespace ingot
