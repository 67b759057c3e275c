#include "cli/bench/trace/trace_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/data_test_support.h"
#include "base/error.h"

namespace ingot {
namespace {

const std::string kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

std::string error_of(const std::string& text) {
  try {
    parse_trace(text, "file");
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(TraceFile, Azure) {
  const Trace trace = parse_trace(kHeader +
                                      "2023-11-16 23:59:59.5000000,374,44\r\n"
                                      "\n"
                                      "2023-11-17 00:00:01,396,0\n"
                                      "2023-11-17T00:00:00.25+00:00,0,9",
                                  "file");
  EXPECT_EQ(trace.kind, "azure");
  ASSERT_EQ(trace.requests.size(), 3u);
  EXPECT_EQ(trace.requests[0].arrival, 0);
  EXPECT_EQ(trace.requests[0].prompt, 374);
  EXPECT_EQ(trace.requests[0].output, 44);
  EXPECT_NEAR(trace.requests[1].arrival, 0.75, 1e-6);  // sorted by arrival
  EXPECT_EQ(trace.requests[1].output, 9);
  EXPECT_NEAR(trace.requests[2].arrival, 1.5, 1e-6);
  EXPECT_TRUE(trace.requests[0].blocks.empty());
}

TEST(TraceFile, Mooncake) {
  const Trace trace = parse_trace(R"({"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [7, 8]})"
                                  "\n"
                                  R"({"timestamp": 5500, "input_length": 3, "output_length": 1, "hash_ids": []})"
                                  "\n"
                                  R"({"timestamp": 5500, "input_length": 3, "output_length": 1, "more": null})",
                                  "file");
  EXPECT_EQ(trace.kind, "mooncake");
  ASSERT_EQ(trace.requests.size(), 3u);
  EXPECT_EQ(trace.requests[0].arrival, 0);
  EXPECT_EQ(trace.requests[0].blocks, (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(trace.requests[1].arrival, 2.5);
  EXPECT_TRUE(trace.requests[1].blocks.empty());
}

TEST(TraceFile, LimitStopsBeforeLaterLines) {
  const std::string text = kHeader + "2023-11-16 18:15:46,1,2\nnonsense\n";
  EXPECT_EQ(parse_trace(text, "file", 1).requests.size(), 1u);
  EXPECT_THROW(parse_trace(text, "file", 2), Error);
}

TEST(TraceFile, HostileAzureLines) {
  const std::string good = "2023-11-16 18:15:46.5";
  for (const std::string& line : {good,
                                  good + ",1",
                                  good + ",1,2,3",
                                  good + ",-1,2",
                                  good + ",1,-2",
                                  good + ",1.5,2",
                                  good + ", 1,2",
                                  good + ",1,",
                                  good + ",,1",
                                  good + ",99999999999999999999,1",
                                  good + ",16777217,1",
                                  good + ",1,0x10",
                                  std::string("2023-13-16 18:15:46,1,2"),
                                  std::string("2023-02-30 18:15:46,1,2"),
                                  std::string("2023-11-16 24:15:46,1,2"),
                                  std::string("2023-11-16 18:60:46,1,2"),
                                  std::string("2023-11-16 18:15:99,1,2"),
                                  std::string("2023-11-16,1,2"),
                                  std::string("1700000000,1,2"),
                                  std::string("2023-11-16 18:15:46.,1,2"),
                                  std::string("2023-11-16 18:15:46.1234567890,1,2"),
                                  std::string("2023-11-16 18:15:46x5,1,2"),
                                  std::string("2023-11-16 18:15:46.-5,1,2"),
                                  std::string(",,"),
                                  std::string("+023-11-16 18:15:46,1,2"),
                                  std::string(1, '\0')}) {
    const std::string error = error_of(kHeader + "2023-11-16 18:15:40,1,2\n" + line + "\n");
    EXPECT_NE(error.find("[trace] file line 3: "), std::string::npos) << line << " gives: " << error;
  }
}

TEST(TraceFile, HostileMooncakeLines) {
  const std::string good = R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]})";
  for (const std::string line :
       {"[1]", "{", "{}", "nonsense", "{\"timestamp\": 0}",
        R"({"timestamp": -1, "input_length": 1, "output_length": 1})",
        R"({"timestamp": 1e300, "input_length": 1, "output_length": 1})",
        R"({"timestamp": "0", "input_length": 1, "output_length": 1})",
        R"({"timestamp": null, "input_length": 1, "output_length": 1})",
        R"({"timestamp": 0, "input_length": -1, "output_length": 1})",
        R"({"timestamp": 0, "input_length": 1e12, "output_length": 1})",
        R"({"timestamp": 0, "input_length": 1.5, "output_length": 1})",
        R"({"timestamp": 0, "input_length": 1, "output_length": 99999999999999999999})",
        R"({"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]})",
        R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": 1})",
        R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": null})",
        R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["a"]})",
        R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [-1]})",
        R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [[[[[1]]]]]})"}) {
    const std::string error = error_of(good + "\n" + line + "\n");
    EXPECT_NE(error.find("[trace] file line 2"), std::string::npos) << line << " gives: " << error;
  }
}

TEST(TraceFile, NotATrace) {
  EXPECT_NE(error_of("").find("is empty"), std::string::npos);
  EXPECT_NE(error_of("\n \r\n").find("is empty"), std::string::npos);
  EXPECT_NE(error_of("Dear diary,\n").find("line 1: expected the header"), std::string::npos);
  EXPECT_NE(error_of(kHeader).find("no requests"), std::string::npos);
  EXPECT_NE(error_of(kHeader + std::string(2 << 20, '1')).find("line 2: 2097152 bytes"), std::string::npos);
  EXPECT_THROW(read_trace("/nonexistent/trace.csv"), Error);
}

TEST(TraceFile, PublishedTraces) {
  const Trace azure = read_trace(test_data("traces/AzureLLMInferenceTrace_conv.csv"));
  EXPECT_EQ(azure.requests.size(), 19366u);
  EXPECT_NEAR(azure.requests[1].arrival, 4.314579, 1e-6);
  const Trace mooncake = read_trace(test_data("traces/mooncake_conversation_trace.jsonl"), 100);
  EXPECT_EQ(mooncake.requests.size(), 100u);
  EXPECT_EQ(mooncake.requests[0].blocks.size(), 14u);
}

}  // namespace
}  // namespace ingot
