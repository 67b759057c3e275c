#include "cli/chat/line_editor.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(MessageBuilder, OneLine) {
  MessageBuilder message;
  EXPECT_TRUE(message.add("hello"));
  EXPECT_FALSE(message.quoted());
  EXPECT_EQ(message.take(), "hello");
  EXPECT_TRUE(message.add(""));
  EXPECT_EQ(message.take(), "");
}

TEST(MessageBuilder, BackslashGoesOn) {
  MessageBuilder message;
  EXPECT_FALSE(message.add("one \\"));
  EXPECT_TRUE(message.open());
  EXPECT_FALSE(message.add("\\"));
  EXPECT_TRUE(message.add("two"));
  EXPECT_FALSE(message.open());
  EXPECT_EQ(message.take(), "one \n\ntwo");
}

TEST(MessageBuilder, QuotesKeepEverything) {
  MessageBuilder message;
  EXPECT_FALSE(message.add("\"\"\"first\\"));
  EXPECT_FALSE(message.add("/second"));
  EXPECT_FALSE(message.add(""));
  EXPECT_TRUE(message.add("last\"\"\""));
  EXPECT_TRUE(message.quoted());
  EXPECT_EQ(message.take(), "first\\\n/second\n\nlast");
  EXPECT_FALSE(message.quoted());
}

TEST(MessageBuilder, QuotesOnLinesOfTheirOwn) {
  MessageBuilder message;
  EXPECT_FALSE(message.add("\"\"\""));
  EXPECT_FALSE(message.add("a"));
  EXPECT_FALSE(message.add("b"));
  EXPECT_TRUE(message.add("\"\"\""));
  EXPECT_EQ(message.take(), "a\nb");
  EXPECT_TRUE(message.add("\"\"\"/x\"\"\""));
  EXPECT_TRUE(message.quoted());
  EXPECT_EQ(message.take(), "/x");
}

TEST(MessageBuilder, UnfinishedIsTakenAsFarAsItGoes) {
  MessageBuilder message;
  EXPECT_FALSE(message.add("\"\"\"a"));
  EXPECT_FALSE(message.add("b"));
  EXPECT_EQ(message.take(), "a\nb");
  EXPECT_FALSE(message.open());
}

}  // namespace
}  // namespace ingot
