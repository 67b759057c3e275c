#include "cli/chat/conversation.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace ingot {
namespace {

class ConversationTest : public testing::Test {
 protected:
  std::string write(const std::string& text) const {
    std::ofstream(path_) << text;
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "conversation_test.json";
};

std::string contents(const JsonArray& messages) {
  std::string all;
  for (const Json& message : messages) all += as_string(message.at("content"), "content");
  return all;
}

TEST_F(ConversationTest, HidesWholeTurns) {
  Conversation c;
  c.set_system("S");
  EXPECT_FALSE(c.hide_oldest_turn());
  c.add_user("a");
  c.add_answer("b");
  c.add_answer("c");
  c.add_user("d");
  EXPECT_EQ(contents(c.visible()), "Sabcd");
  EXPECT_TRUE(c.hide_oldest_turn());
  EXPECT_EQ(contents(c.visible()), "Sd");
  EXPECT_EQ(c.hidden(), 3u);
  EXPECT_FALSE(c.hide_oldest_turn());
  EXPECT_EQ(contents(c.visible()), "Sd");
  c.reset();
  EXPECT_EQ(contents(c.visible()), "S");
  EXPECT_EQ(c.hidden(), 0u);
}

TEST_F(ConversationTest, SaveAndLoad) {
  Conversation c;
  c.set_system("S");
  c.add_user("a \"ü\"\n");
  c.add_answer("b");
  c.add_user("c");
  c.hide_oldest_turn();
  c.save(path_);
  Conversation d;
  d.add_user("gone");
  d.load(path_);
  EXPECT_EQ(contents(d.visible()), "Sa \"ü\"\nbc");
  EXPECT_EQ(d.system(), "S");
  d.load(write(R"([{"role": "user", "content": "x"}])"));
  EXPECT_EQ(contents(d.visible()), "x");
  EXPECT_EQ(d.system(), "");
}

TEST_F(ConversationTest, WrongFilesChangeNothing) {
  Conversation c;
  c.add_user("a");
  for (const char* text : {"", "{", "3", "{}", R"({"messages": 3})", "[1]", R"([{"role": "user"}])",
                           R"([{"role": "user", "content": 1}])", R"([{"role": "tool", "content": ""}])",
                           R"([{"role": "user", "content": ""}, {"role": "system", "content": ""}])"}) {
    EXPECT_THROW(c.load(write(text)), Error) << text;
    EXPECT_EQ(contents(c.visible()), "a");
  }
  EXPECT_THROW(c.load("/nonexistent/file"), Error);
  EXPECT_THROW(c.save("/nonexistent/file"), Error);
}

}  // namespace
}  // namespace ingot
