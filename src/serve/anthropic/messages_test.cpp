// Anthropic's messages, embeddings, and what goes wrong inside one request.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "base/utf8.h"
#include "serve/answer/answer_run.h"
#include "serve/answer/embedding.h"
#include "serve/serving_test_support.h"

namespace ingot {
namespace {

constexpr const char* kMessages = "/v1/messages";
constexpr const char* kEmbeddings = "/v1/embeddings";

std::string text_of(const Json& value) { return {value.get_string().data(), value.get_string().size()}; }

std::string body(const std::string& more = "") {
  return R"({"max_tokens":24,"messages":[{"role":"user","content":"hello"}],"system":"s","seed":3,"temperature":1)" +
         more + "}";
}

TEST(Messages, WholeAndStreamedAreTheSame) {
  ToyServer server;
  const JsonObject whole = server.ok(kMessages, body());
  EXPECT_EQ(text_of(whole.at("type")), "message");
  EXPECT_EQ(text_of(whole.at("role")), "assistant");
  EXPECT_TRUE(text_of(whole.at("id")).starts_with("msg_"));
  std::string expected;
  for (const Json& block : whole.at("content").as_array()) expected += text_of(block.at("text"));

  std::string text;
  std::vector<std::string> types;
  JsonObject last;
  for (const Json& event : server.events(kMessages, body(R"(,"stream":true)"))) {
    types.push_back(text_of(event.at("type")));
    if (types.back() == "content_block_delta") text += text_of(event.at("delta").at("text"));
    if (types.back() == "message_delta") last = event.as_object();
  }
  EXPECT_EQ(text, expected);
  EXPECT_EQ(types.front(), "message_start");
  EXPECT_EQ(types.back(), "message_stop");
  EXPECT_EQ(std::ranges::count(types, "content_block_start"), std::ranges::count(types, "content_block_stop"));
  EXPECT_EQ(last.at("delta").at("stop_reason"), whole.at("stop_reason"));
  EXPECT_EQ(last.at("usage").at("output_tokens"), whole.at("usage").at("output_tokens"));
  server.expect_idle();
}

TEST(Messages, ReasonsToStop) {
  ToyServer server;
  const auto answer = [&](const std::string& more) {
    return server.ok(kMessages, R"({"messages":[{"role":"user","content":"a"}],"temperature":1,"seed":1)" + more + "}");
  };
  const JsonObject cut = answer(R"(,"max_tokens":1)");
  EXPECT_EQ(text_of(cut.at("stop_reason")), "max_tokens");
  EXPECT_TRUE(cut.at("stop_sequence").is_null());
  const std::string text = text_of(answer(R"(,"max_tokens":40)").at("content").as_array().at(0).at("text"));
  uint32_t first = 0;
  const std::string stop = text.substr(0, utf8_decode(text, 0, first));
  const JsonObject stopped = answer(R"(,"max_tokens":40,"stop_sequences":[)" + to_json(Json(stop)) + "]");
  EXPECT_EQ(text_of(stopped.at("stop_reason")), "stop_sequence");
  EXPECT_EQ(text_of(stopped.at("stop_sequence")), stop);
  EXPECT_TRUE(stopped.at("content").as_array().empty());
}

TEST(Messages, ErrorsHaveAnthropicsShape) {
  ToyServer server;
  const auto error = [&](const std::string& text) {
    const HttpResponse response = server.call(kMessages, text);
    EXPECT_EQ(response.status, 400) << response.body;
    const Json json = parse_json(response.body, "error");
    EXPECT_EQ(text_of(json.at("type")), "error");
    return text_of(json.at("error").at("message"));
  };
  EXPECT_EQ(error(R"({"messages":[{"role":"user","content":"a"}]})"), "max_tokens is required");
  EXPECT_NE(error(R"({"max_tokens":1,"messages":[{"role":"tool","content":"a"}]})").find("messages[0].role"),
            std::string::npos);
  EXPECT_EQ(error(body(R"(,"output_config":{"effort":"low","format":{"type":"json_schema"}})")),
            "output_config.format.schema is required");
  EXPECT_EQ(error(body(R"(,"tool_choice":{"type":"any"})")), "tool_choice asks for a call, and there are no tools");
  EXPECT_EQ(error(body(R"(,"tool_choice":{"type":"all"})")), "tool_choice.type must be one of auto|any|tool|none");
  EXPECT_EQ(
      error(R"({"max_tokens":1,"messages":[{"role":"system","content":[{"type":"tool_result","tool_use_id":"1"}]}]})"),
      "messages[0].content[0].type tool_result may stand in messages of the user only");
  EXPECT_NE(error(R"({"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})")
                .find("continued"),
            std::string::npos);
  EXPECT_NE(error(R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]})")
                .find("messages[0].content[0].type"),
            std::string::npos);
  EXPECT_NE(error(R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text"}]}]})")
                .find("messages[0].content[0].text"),
            std::string::npos);
}

TEST(Messages, BlocksBecomeTheTemplatesMessages) {
  const std::string shown =
      "{% for m in messages %}[{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}:{{ c.function.name }}"
      "{{ c.function.arguments.x }}{% endfor %}]{% endfor %}";
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16}, shown);
  const JsonObject count = server.ok("/v1/messages/count_tokens", R"({"system":[
      {"type":"text","text":"x-anthropic-billing-header: cch=fa690;"},{"type":"text","text":"s"}],"messages":[
      {"role":"user","content":"a"},
      {"role":"assistant","content":[{"type":"text","text":"b"},{"type":"tool_use","id":"1","name":"f","input":{"x":9}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"},{"type":"text","text":"c"}]}]})");
  // [system:s][user:a][assistant:b:f9][tool:r][user:c]
  EXPECT_EQ(count.at("input_tokens").as_int64(), 10 + 8 + 16 + 8 + 8);
  const JsonObject more = server.ok("/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"a"},
      {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"x":9},"toolset_name":"t"}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r","toolset_name":"t"}]},
      {"role":"system","content":"s"}]})");
  // [user:a][assistant::f9][tool:r][system:s]
  EXPECT_EQ(more.at("input_tokens").as_int64(), 8 + 15 + 8 + 10);
}

TEST(Messages, AResultThatIsAnErrorSaysSo) {
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16},
                   "{% for m in messages %}{{ m.content }}{% endfor %}");
  const auto count = [&](const std::string& result) {
    return server
        .ok("/v1/messages/count_tokens", R"({"messages":[{"role":"assistant","content":[{"type":"redacted_thinking",
            "data":"x"},{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{
            "type":"tool_result","tool_use_id":"1")" +
                                             result + "}]}]}")
        .at("input_tokens")
        .as_int64();
  };
  EXPECT_EQ(count(R"(,"content":"abc")"), 3);
  EXPECT_EQ(count(R"(,"content":"abc","is_error":false)"), 3);
  EXPECT_EQ(count(R"(,"content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}],"is_error":true)"), 11);
  EXPECT_EQ(count(R"(,"is_error":true)"), 5);
}

TEST(Messages, AnAnswerIsHeldToItsFormat) {
  ToyServer server;
  const std::string format = R"(,"output_config":{"format":{"type":"json_schema","schema":{"enum":["ab",7]}}})";
  const JsonObject whole = server.ok(kMessages, body(format));
  const std::string text = text_of(whole.at("content").as_array().at(0).at("text"));
  const Json value = parse_json(text, "answer");
  EXPECT_TRUE(value == Json("ab") || value == Json(7)) << text;
  EXPECT_EQ(text_of(whole.at("stop_reason")), "end_turn");
  const HttpResponse refused =
      server.call(kMessages, body(R"(,"output_config":{"format":{"type":"json_schema","schema":{"type":"x"}}})"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("output_config.format.schema"), std::string::npos) << refused.body;
}

// With tools an answer is a call or a text of the format; any seed gives one of them.
TEST(Messages, ToolsBesideAFormat) {
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 64, .page_rows = 16}, kHermesTemplate);
  int n_calls = 0, n_texts = 0;
  for (int seed = 1; seed <= 16; ++seed) {
    const JsonObject whole = server.ok(
        kMessages, fmt::format(R"({{"max_tokens":160,"messages":[{{"role":"user","content":"hello"}}],"temperature":1,
            "tools":[{{"name":"a","input_schema":{{"type":"object","properties":{{}},"additionalProperties":false}}}}],
            "tool_choice":{{"type":"auto","disable_parallel_tool_use":true}},"seed":{},
            "output_config":{{"format":{{"type":"json_schema","schema":{{"enum":["ab",7]}}}}}}}})",
                               seed));
    const JsonArray& content = whole.at("content").as_array();
    if (text_of(whole.at("stop_reason")) == "max_tokens") continue;  // random weights like white space
    ASSERT_EQ(content.size(), 1u);
    const bool call = text_of(content[0].at("type")) == "tool_use";
    EXPECT_EQ(text_of(whole.at("stop_reason")), call ? "tool_use" : "end_turn");
    if (!call) {
      const Json value = parse_json(text_of(content[0].at("text")), "answer");
      EXPECT_TRUE(value == Json("ab") || value == Json(7)) << value;
    }
    ++(call ? n_calls : n_texts);
  }
  EXPECT_GT(n_calls + n_texts, 0);
}

// Thoughts, text, a call, text again: the blocks of a stream are those of the whole answer.
TEST(Messages, BlocksKeepTheirOrder) {
  using Kind = AnswerPart::Kind;
  const std::vector<AnswerPart> parts = {
      {.kind = Kind::kReasoning, .text = "so", .id = {}},
      {.kind = Kind::kText, .text = "I look", .id = {}},
      {.kind = Kind::kCallBegin, .text = "f", .index = 0, .id = "call_1"},
      {.kind = Kind::kCallArguments, .text = "{\"x\":", .index = 0, .id = {}},
      {.kind = Kind::kCallArguments, .text = "1}", .index = 0, .id = {}},
      {.kind = Kind::kCallEnd, .text = {}, .index = 0, .id = {}},
      {.kind = Kind::kText, .text = "done", .id = {}},
  };
  const AnswerNames names{.model = "m", .fingerprint = "fp_1"};
  ChoiceAnswer answer;
  const auto stream = messages_writer(names);
  std::string bytes = stream->begin({});
  for (const AnswerPart& part : parts) {
    const ChoicePiece piece{.parts = {part}, .scores = {}};
    bytes += stream->piece(0, piece);
    answer.add(piece);
  }
  bytes += stream->end_choice(0, ChoiceEnd::kToolCalls, "");
  bytes += stream->end({.prompt = 3, .completion = 9});
  const Json whole = parse_json(messages_writer(names)->whole({answer}, {.prompt = 3, .completion = 9}), "answer");
  EXPECT_EQ(to_json(whole.at("content")),
            R"([{"type":"thinking","thinking":"so","signature":"fp_1"},{"type":"text","text":"I look"},)"
            R"({"type":"tool_use","id":"call_1","name":"f","input":{"x":1}},{"type":"text","text":"done"}])");
  size_t starts = 0, stops = 0;
  for (size_t at = 0; (at = bytes.find("event: content_block_start", at)) != std::string::npos; ++at) ++starts;
  for (size_t at = 0; (at = bytes.find("event: content_block_stop", at)) != std::string::npos; ++at) ++stops;
  EXPECT_EQ(starts, 4u);
  EXPECT_EQ(stops, 4u);
  const size_t thought = bytes.find("thinking_delta"), signature = bytes.find("signature_delta");
  EXPECT_LT(thought, signature);
  EXPECT_LT(signature, bytes.find("content_block_stop"));
}

TEST(Messages, VersionsThatHaveTheseMessages) {
  ToyServer server;
  const auto status = [&](const char* version) {
    HttpRequest request;
    request.head.path = "/v1/messages/count_tokens";
    request.head.headers = {{"anthropic-version", version}, {"anthropic-beta", "anything-2030-01-01"}};
    request.body = R"({"messages":[{"role":"user","content":"a"}]})";
    const auto responder = std::make_shared<TestResponder>();
    try {
      handle_count_tokens(server.context, std::move(request), responder);
      return responder->wait().status;
    } catch (const ApiError& error) {
      return error.status;
    }
  };
  EXPECT_EQ(status("2023-06-01"), 200);
  EXPECT_EQ(status("2026-10-21"), 200);
  EXPECT_EQ(status(""), 200);
  for (const char* wrong : {"2023-01-01", "2023-06-0x", "2023-06-011", "latest"})
    EXPECT_EQ(status(wrong), 400) << wrong;
}

TEST(Messages, EffortReachesTheTemplateAndARefusedSystemMessageIsToldSo) {
  const std::string strict =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
      "{{ m.content }}{% endfor %}{{ reasoning_effort }}";
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16}, strict);
  const JsonObject count =
      server.ok("/v1/messages/count_tokens",
                R"({"messages":[{"role":"user","content":"a"}],"output_config":{"effort":"xhigh"}})");
  EXPECT_EQ(count.at("input_tokens").as_int64(), 6);  // axhigh
  const HttpResponse refused =
      server.call(kMessages, R"({"max_tokens":1,"messages":[{"role":"system","content":"s"}]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("\"messages are not"), std::string::npos) << refused.body;
  EXPECT_NE(refused.body.find("System role not supported"), std::string::npos) << refused.body;
}

std::vector<double> vector_of(const JsonObject& answer, size_t i = 0) {
  std::vector<double> values;
  for (const Json& value : answer.at("data").as_array().at(i).at("embedding").as_array()) {
    values.push_back(value.to_number<double>());
  }
  return values;
}

TEST(Embeddings, PoolingsOfEachInput) {
  ToyServer server;
  const JsonObject both = server.ok(kEmbeddings, R"({"input":["first text","second"]})");
  const JsonObject second = server.ok(kEmbeddings, R"({"input":"second"})");
  EXPECT_EQ(both.at("data").as_array().size(), 2u);
  EXPECT_EQ(both.at("usage").at("prompt_tokens").as_int64(), 16);
  const std::vector<double> vector = vector_of(second);
  EXPECT_EQ(vector, vector_of(both, 1));
  EXPECT_EQ(vector.size(), static_cast<size_t>(server.model.hidden));
  double squares = 0;
  for (const double value : vector) squares += value * value;
  EXPECT_NEAR(squares, 1, 1e-5);
  // One token: all poolings are the same row.
  const JsonObject mean = server.ok(kEmbeddings, R"({"input":[100],"pooling":"mean","normalize":false})");
  EXPECT_EQ(vector_of(mean),
            vector_of(server.ok(kEmbeddings, R"({"input":[100],"pooling":"last","normalize":false})")));
  EXPECT_EQ(vector_of(mean), vector_of(server.ok(kEmbeddings, R"({"input":[100],"pooling":"cls","normalize":false})")));
  // The first row does not see what follows it.
  EXPECT_EQ(vector_of(mean),
            vector_of(server.ok(kEmbeddings, R"({"input":[100,101],"pooling":"cls","normalize":false})")));
  const std::vector<double> last =
      vector_of(server.ok(kEmbeddings, R"({"input":[100,101],"pooling":"last","normalize":false})"));
  const std::vector<double> middle =
      vector_of(server.ok(kEmbeddings, R"({"input":[100,101],"pooling":"mean","normalize":false})"));
  for (size_t i = 0; i < last.size(); ++i) EXPECT_NEAR(middle[i], (last[i] + vector_of(mean)[i]) / 2, 1e-5);
  server.expect_idle();
}

TEST(Embeddings, BadRequestsNameTheirField) {
  ToyServer server;
  const auto param = [&](const std::string& text) { return text_of(server.error(400, kEmbeddings, text).at("param")); };
  EXPECT_EQ(param(R"({"input":""})"), "input");
  EXPECT_EQ(param(R"({"input":[]})"), "input");
  EXPECT_EQ(param(R"({"input":[300]})"), "input[0]");
  EXPECT_EQ(param(R"({"input":"a","dimensions":3})"), "dimensions");
  EXPECT_EQ(param(R"({"input":"a","encoding_format":"hex"})"), "encoding_format");
  EXPECT_EQ(param(R"({"input":")" + std::string(ToyServer::kContext + 1, 'x') + "\"}"), "input");
}

TEST(Embeddings, Base64) {
  EXPECT_EQ(base64_floats(std::vector<float>{}), "");
  EXPECT_EQ(base64_floats(std::vector<float>{1.0f}), "AACAPw==");
  EXPECT_EQ(base64_floats(std::vector<float>{1.0f, -2.5f}), "AACAPwAAIMA=");
  EXPECT_EQ(base64_floats(std::vector<float>{1.0f, -2.5f, 0.0f}), "AACAPwAAIMAAAAAA");
  ToyServer server;
  const JsonObject answer = server.ok(kEmbeddings, R"({"input":"a","encoding_format":"base64"})");
  const std::string text = text_of(answer.at("data").as_array()[0].at("embedding"));
  EXPECT_EQ(text.size(), (static_cast<size_t>(server.model.hidden) * 4 + 2) / 3 * 4);
}

TEST(Embeddings, RowsThatComeAgainCountOnce) {
  PooledVector mean(Pooling::kMean, 2, 1);
  const float one = 1, three = 3, nan = std::nanf("");
  mean.take(0, {&one, 1});
  EXPECT_TRUE(mean.vector(false).empty());  // not whole yet
  mean.take(0, {&one, 1});
  mean.take(1, {&three, 1});
  mean.take(2, {&three, 1});
  EXPECT_EQ(mean.vector(false), std::vector<float>{2});
  PooledVector bad(Pooling::kLast, 1, 1);
  bad.take(0, {&nan, 1});
  EXPECT_TRUE(bad.vector(true).empty());
}

// Throws where it is told to.
class ThrowingWriter : public AnswerWriter {
 public:
  explicit ThrowingWriter(std::string where) : where_(std::move(where)) {}
  std::string begin(const Usage&) override { return at("begin"); }
  std::string piece(int, const ChoicePiece&) override { return at("piece"); }
  std::string end_choice(int, ChoiceEnd, const std::string&) override { return at("end_choice"); }
  std::string end(const Usage&) override { return at("end"); }
  std::string whole(const std::vector<ChoiceAnswer>&, const Usage&) override { return at("whole"); }

 private:
  std::string at(const std::string& place) const {
    if (place == where_) throw std::runtime_error("planted");
    return "x";
  }
  const std::string where_;
};

TEST(Answering, WhatThrowsEndsItsOwnRequestOnly) {
  ToyServer server;
  const std::string good = R"({"prompt":"abc","max_tokens":30,"seed":5,"temperature":1})";
  const std::string golden = text_of(server.ok("/v1/completions", good).at("choices").as_array()[0].at("text"));
  for (const char* where : {"begin", "piece", "end_choice", "end", "whole"}) {
    SCOPED_TRACE(where);
    const std::shared_ptr<TestResponder> neighbour = server.begin("/v1/completions", good);
    Generation generation;
    generation.prompts = {{100, 101}};
    generation.max_tokens = 5;
    generation.stream = std::string(where) != "whole";
    auto responder = std::make_shared<TestResponder>();
    HttpHead head;
    head.path = "/v1/completions";
    std::make_shared<AnswerRun>(server.context, head, generation, std::make_unique<ThrowingWriter>(where), responder)
        ->start();
    const HttpResponse response = responder->wait();
    if (response.status == 200) {
      EXPECT_NE(response.body.find("\"error\""), std::string::npos);
    } else {
      EXPECT_EQ(response.status, 500);
    }
    EXPECT_EQ(response.body.find("planted"), std::string::npos) << "an error tells of the inside";
    EXPECT_EQ(responder->answers(), 1);
    const Json other = parse_json(neighbour->wait().body, "answer");
    EXPECT_EQ(text_of(other.at("choices").as_array()[0].at("text")), golden);
  }
  server.expect_idle();
}

// A template that refuses a conversation, and a count that cannot be taken: the others are answered as ever.
TEST(Answering, ATemplateThatThrowsAndACountThatThrows) {
  int counted = 0;
  ToyServer server({.threads = 1, .max_seqs = 4, .step_rows = 64, .page_rows = 16},
                   "{% if messages[0]['content'] == 'bad' %}{{ raise_exception('planted') }}{% endif %}x",
                   [&](const StepFacts&) {
                     ++counted;
                     throw std::runtime_error("planted");
                   });
  const std::string good = R"({"prompt":"abc","max_tokens":30,"seed":5,"temperature":1})";
  const auto text = [](const std::shared_ptr<TestResponder>& responder) {
    return text_of(parse_json(responder->wait().body, "answer").at("choices").as_array()[0].at("text"));
  };
  const std::string golden = text(server.begin("/v1/completions", good));
  const std::shared_ptr<TestResponder> neighbour = server.begin("/v1/completions", good);
  const HttpResponse bad =
      server.call("/v1/chat/completions", R"({"messages":[{"role":"user","content":"bad"}],"max_tokens":2})");
  EXPECT_EQ(bad.status, 400) << bad.body;
  EXPECT_EQ(text(neighbour), golden);
  server.expect_idle();
  EXPECT_GT(counted, 0);
}

}  // namespace
}  // namespace ingot
