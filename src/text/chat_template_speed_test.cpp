// A conversation of 20 messages is to be rendered in 100 µs once its template is loaded. The bound here is three times
// that, for slow and busy machines; the figure is printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "text/chat_template_input.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double kBound = 300;
#else
constexpr double kBound = std::numeric_limits<double>::infinity();
#endif

JsonObject twenty_messages(const Json& tools) {
  JsonArray messages{JsonObject{{"role", "system"}, {"content", "You are a helpful assistant."}}};
  for (int i = 1; i < 20; ++i) {
    messages.push_back(JsonObject{
        {"role", i % 2 == 1 ? "user" : "assistant"},
        {"content", fmt::format("This is number {}, a sentence or two, so that the text has a usual length. ", i)}});
  }
  return {{"messages", messages},
          {"tools", tools},
          {"add_generation_prompt", true},
          {"bos_token", "<s>"},
          {"eos_token", "</s>"}};
}

// The shortest of many, in microseconds: what else runs on the machine does not count.
template <class F>
double shortest(F&& f) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 400; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

TEST(ChatTemplateSpeed, TwentyMessages) {
  const std::string text = read_xz(INGOT_SOURCE_DIR "/tests/data/templates/chats.json.xz");
  if (text.empty()) GTEST_SKIP() << "no xz to unpack chats.json.xz";
  const Json file = parse_json(text, "chats.json.xz");
  const RenderOptions options{std::time_t{1'721'995'200}};
  for (const char* name : {"meta-llama-Llama-3.1-8B-Instruct", "Qwen-Qwen3-0.6B",
                           "mistralai-Mistral-Nemo-Instruct-2407", "openai-gpt-oss-120b"}) {
    const ChatTemplate chat_template = ChatTemplate::parse(get_string(file.at("templates").as_object(), name));
    const JsonObject input = twenty_messages(file.at("inputs").at("tools").at("tools"));
    const Json json = input;
    const double render = shortest([&] { chat_template.render_pieces(json, options); });
    const double chat = shortest([&] { render_chat(chat_template, input, options); });
    fmt::print("{}: {:.0f} us, from a request {:.0f} us\n", name, render, chat);
    EXPECT_LT(render, kBound) << name;
  }
}

}  // namespace
}  // namespace ingot
