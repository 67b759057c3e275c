#include "cli/load/load_answer.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

using State = LoadRecord::State;

// The record of an answer whose pieces come at 1, 2, 3 … s.
LoadRecord read(long status, std::initializer_list<std::string_view> pieces, std::string_view problem = {}) {
  LoadRecord record;
  record.status = status;
  AnswerReader reader(record);
  double at = 0;
  for (const std::string_view piece : pieces) reader.feed(piece, ++at);
  reader.end(++at, problem);
  return record;
}

TEST(AnswerReader, ChatWithUsage) {
  const LoadRecord record = read(200, {R"(data: {"choices":[{"delta":{"role":"assistant","content":""}}]})"
                                       "\n\n",
                                       R"(data: {"choices":[{"delta":{"content":"a"}}],"usage":null})"
                                       "\n\n",
                                       R"(data: {"choices":[{"delta":{"reasoning_content":"b"}}]})"
                                       "\n\ndata: {\"choi",
                                       "ces\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n",
                                       R"(data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}})"
                                       "\n\ndata: [DONE]\n\n"});
  EXPECT_EQ(record.state, State::kOk) << record.problem;
  EXPECT_EQ(record.first, 2);
  EXPECT_EQ(record.last, 3);
  EXPECT_EQ(record.end, 6);
  EXPECT_EQ(record.gaps, std::vector<float>{1});
  EXPECT_EQ(record.pieces, 2);
  EXPECT_EQ(record.tokens, 5);
  EXPECT_EQ(record.prompt_tokens, 7);
  EXPECT_EQ(record.finish, "length");
}

TEST(AnswerReader, CompletionWithoutUsage) {
  const LoadRecord record = read(200, {"data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n",
                                       "data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"stop\"}]}\n\n"});
  EXPECT_EQ(record.state, State::kOk) << record.problem;
  EXPECT_EQ(record.tokens, 2);
  EXPECT_FALSE(record.counted);
}

TEST(AnswerReader, HowAnswersEnd) {
  constexpr std::string_view kText = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
  constexpr std::string_view kDone = "data: [DONE]\n\n";
  EXPECT_EQ(read(200, {kText, kDone}).state, State::kOk);
  EXPECT_EQ(read(200, {kDone}).state, State::kOk);
  EXPECT_EQ(read(200, {kText}).state, State::kLost);
  EXPECT_EQ(read(200, {}).state, State::kLost);
  EXPECT_EQ(read(200, {kText, kDone}, "connection reset").problem, "the answer broke off: connection reset");
  EXPECT_EQ(read(200, {kText, "data: {\"error\":{\"message\":\"no\"}}\n\n"}).problem, "an event says: no");
  EXPECT_EQ(read(200, {kText, "data: {\n\n", kDone}).state, State::kFailed);
  EXPECT_EQ(read(200, {"data: {\"choices\":3}\n\n", kDone}).state, State::kFailed);
  EXPECT_EQ(read(0, {}, "refused").problem, "refused");
  EXPECT_EQ(read(0, {}, "refused").state, State::kFailed);
  EXPECT_EQ(read(429, {"{\"error\":{\"message\":\"later\",\"type\":\"x\"}}"}).state, State::kRejected);
  EXPECT_EQ(read(503, {}).state, State::kRejected);
  EXPECT_EQ(read(500, {"{\"error\":", "\"oh\"}"}).problem, "status 500: oh");
  EXPECT_EQ(read(500, {"{\"error\":", "\"oh\"}"}).state, State::kFailed);
}

TEST(AnswerReader, ErrorsAreOneShortLine) {
  EXPECT_EQ(error_text("Bad\r\nGateway"), "Bad  Gateway");
  EXPECT_EQ(error_text(R"({"message":"m"})"), "m");
  EXPECT_EQ(error_text(R"({"detail":[1]})"), R"({"detail":[1]})");
  EXPECT_EQ(error_text(std::string(5000, 'x')).size(), 200u);
  EXPECT_EQ(read(400, {std::string(100000, 'x'), "y"}).problem.size(), 12 + 200u);
}

}  // namespace
}  // namespace ingot
