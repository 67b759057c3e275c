#include "serve/responses/custom_text.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

std::string read(std::string_view arguments, size_t cut) {
  CustomText input;
  std::string text;
  for (size_t at = 0; at < arguments.size(); at += cut) text += input.push(arguments.substr(at, cut));
  return text + input.finish();
}

TEST(CustomText, TakesTheTextOutHoweverItIsCut) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"input": "ls -l"})", "ls -l"},
      {R"({ "input" :"a\"b\\c\n\u00e4\ud83d\ude00ü"})", "a\"b\\c\n\u00e4\U0001F600ü"},
      {R"({"input":""})", ""},
      {R"({"input":"cut sh)", "cut sh"},
      {R"({"input":"half \ud83d)", "half \uFFFD"},
      {R"({"input":"half \ud83d\n"})", "half \uFFFD\n"},
      {R"({"input":"two \ud83d\ud83d\ude00"})", "two \uFFFD\uFFFD\uFFFD"},
      {R"({"cmd": "ls"})", R"({"cmd": "ls"})"},
      {R"({"input": 3})", R"({"input": 3})"},
      {"plain", "plain"},
      {"", ""},
  };
  for (const auto& [arguments, expected] : cases) {
    for (size_t cut = 1; cut < 8; ++cut) EXPECT_EQ(read(arguments, cut), expected) << arguments << " by " << cut;
  }
}

}  // namespace
}  // namespace ingot
