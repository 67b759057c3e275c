#include "serve/answer/custom_input.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

std::string read(std::string_view arguments, size_t cut) {
  CustomInput input;
  std::string text;
  for (size_t at = 0; at < arguments.size(); at += cut) text += input.push(arguments.substr(at, cut));
  return text;
}

TEST(CustomInput, TakesTheTextOutHoweverItIsCut) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"input": "ls -l"})", "ls -l"},
      {R"({ "input" :"a\"b\\c\n\u00e4\ud83d\ude00ü"})", "a\"b\\c\n\u00e4\U0001F600ü"},
      {R"({"input":""})", ""},
      {R"({"input":"cut sh)", "cut sh"},
      {R"({"input":"half \ud83d"})", "half \uFFFD"},
      {R"({"input":"half \ud83d\n"})", "half \uFFFD\n"},
      {R"({"input":"half \ud83dx"})", "half \uFFFDx"},
      {R"({"input":"two \ud83d\ud83d\ude00"})", "two \uFFFD\U0001F600"},
      {R"({"input":"other half \ude00."})", "other half \uFFFD."},
      {R"({"input":"no \uzzzz."})", "no \uFFFD."},
      {"", ""},
  };
  for (const auto& [arguments, expected] : cases) {
    for (size_t cut = 1; cut < 8; ++cut) EXPECT_EQ(read(arguments, cut), expected) << arguments << " by " << cut;
  }
}

}  // namespace
}  // namespace ingot
