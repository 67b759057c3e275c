#include "serve/ollama/ollama.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "serve/serving_test_support.h"

namespace ingot {
namespace {

constexpr const char* kChat = "/api/chat";
constexpr const char* kGenerate = "/api/generate";

std::string text_of(const Json& value) { return {value.get_string().data(), value.get_string().size()}; }

std::string chat(const std::string& more = "", const std::string& options = "") {
  return R"({"messages":[{"role":"user","content":"hello"}],"options":{"seed":3,"temperature":1,"num_predict":24)" +
         options + "}" + more + "}";
}

std::vector<JsonObject> lines_of(const HttpResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.content_type, "application/x-ndjson");
  std::vector<JsonObject> lines;
  std::istringstream text(response.body);
  for (std::string line; std::getline(text, line);) lines.push_back(parse_json(line, "line").as_object());
  return lines;
}

// What the error says; its one member is a sentence.
std::string error_of(ToyServer& server, const char* path, const std::string& body, int status = 400) {
  const HttpResponse response = server.call(path, body);
  EXPECT_EQ(response.status, status) << body << response.body;
  const JsonObject json = parse_json(response.body, "error").as_object();
  EXPECT_EQ(json.size(), 1u);
  return json.contains("error") ? text_of(json.at("error")) : std::string();
}

TEST(Ollama, AConversationWholeAndStreamed) {
  ToyServer server;
  const JsonObject whole = server.ok(kChat, chat(R"(,"stream":false,"keep_alive":"5m")"));
  EXPECT_TRUE(whole.at("done").as_bool());
  std::string text;
  const std::vector<JsonObject> lines = lines_of(server.call(kChat, chat(R"(,"keep_alive":-1)")));
  ASSERT_GT(lines.size(), 2u);
  for (const JsonObject& line : lines) {
    text += text_of(line.at("message").at("content"));
    EXPECT_EQ(line.at("done").as_bool(), &line == &lines.back());
  }
  EXPECT_EQ(text, text_of(whole.at("message").at("content")));
  for (const char* name : {"eval_count", "prompt_eval_count", "done_reason"}) {
    EXPECT_EQ(lines.back().at(name), whole.at(name)) << name;
  }
  const JsonObject& last = lines.back();
  EXPECT_GT(last.at("prompt_eval_duration").as_int64(), 0);
  EXPECT_GE(last.at("total_duration").as_int64(),
            last.at("prompt_eval_duration").as_int64() + last.at("eval_duration").as_int64() - 1);
  server.expect_idle();
}

TEST(Ollama, APromptGoesThroughTheTemplateUnlessItIsRaw) {
  ToyServer server;
  const auto prompt = [&](const std::string& more) {
    const std::string body = R"({"prompt":"hello","stream":false,"options":{"num_predict":2})" + more + "}";
    return server.ok(kGenerate, body).at("prompt_eval_count").as_int64();
  };
  // <s>user\nhello</s><s>assistant\n
  EXPECT_EQ(prompt(""), 1 + 5 + 5 + 1 + 1 + 10);
  EXPECT_EQ(prompt(R"(,"system":"s")"), 1 + 7 + 1 + 1 + 1 + 5 + 5 + 1 + 1 + 10);
  EXPECT_EQ(prompt(R"(,"raw":true)"), 5);
  EXPECT_EQ(error_of(server, kGenerate, R"({"prompt":"a","raw":true,"system":"s"})"), "system does not go with raw");
  EXPECT_EQ(error_of(server, kGenerate, R"({"prompt":"a","suffix":"s"})"), "suffix is not supported by this server");
  EXPECT_EQ(error_of(server, kGenerate, R"({"prompt":"a","think":true})"),
            "think is for models that reason, and this one does not");
  ToyServer bare({.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16}, "");
  EXPECT_EQ(bare.ok(kGenerate, R"({"prompt":"hello","stream":false})").at("prompt_eval_count").as_int64(), 5);
  EXPECT_EQ(error_of(bare, kGenerate, R"({"prompt":"a","system":"s"})"),
            "system needs a chat template, and this model has none");
}

TEST(Ollama, NothingToSayAsksWhetherTheModelIsThere) {
  ToyServer server;
  for (const char* body :
       {R"({"model":"toy"})", R"({"messages":[],"keep_alive":0})", R"({"model":"toy","stream":true})"}) {
    const JsonObject answer = server.ok(kChat, body);
    EXPECT_EQ(text_of(answer.at("done_reason")), "load");
    EXPECT_EQ(text_of(answer.at("message").at("content")), "");
  }
  EXPECT_EQ(text_of(server.ok(kGenerate, R"({"prompt":""})").at("done_reason")), "load");
  EXPECT_NE(error_of(server, kChat, R"({"model":"other"})", 404).find("toy"), std::string::npos);
}

TEST(Ollama, OptionsAreMappedOrRefusedByName) {
  ToyServer server;
  const auto generation = [&](const std::string& options) {
    const Json body =
        read_body(R"({"messages":[{"role":"user","content":"a"}],"options":{)" + options + "}}", kOllamaChatFields);
    return read_ollama_chat(body.as_object(), server.model);
  };
  const Generation all = generation(
      R"("seed":5,"temperature":0.5,"top_k":7,"top_p":0.25,"min_p":0.125,"typical_p":0.5,"repeat_penalty":1.5,
         "repeat_last_n":9,"presence_penalty":1,"frequency_penalty":-1,"stop":["x","y"],"num_predict":11)");
  EXPECT_EQ(all.sampling.seed, 5u);
  EXPECT_EQ(all.sampling.temperature, 0.5f);
  EXPECT_EQ(all.sampling.top_k, 7);
  EXPECT_EQ(all.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(all.sampling.penalty_last_n, 9);
  EXPECT_EQ(all.sampling.frequency_penalty, -1.0f);
  EXPECT_EQ(all.stops, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(all.max_tokens, 11);
  EXPECT_TRUE(all.stream);
  EXPECT_EQ(generation(R"("num_predict":-1)").max_tokens, -1);
  EXPECT_NE(generation(R"("seed":-1)").sampling.seed, generation(R"("seed":-1)").sampling.seed);
  for (const char* name : {"mirostat", "num_gpu", "num_thread", "num_keep", "tfs_z"}) {
    EXPECT_EQ(error_of(server, kChat, chat("", fmt::format(",\"{}\":1", name))),
              fmt::format("options.{} is not supported by this server", name));
  }
  EXPECT_EQ(error_of(server, kChat, chat("", ",\"temprature\":1")),
            "options.temprature is not a field of this request");
}

TEST(Ollama, TheContextOfARequestIsALimit) {
  ToyServer server;
  EXPECT_EQ(error_of(server, kChat, chat("", ",\"num_ctx\":257")),
            "options.num_ctx is 257, and the context of this server is 256");
  const auto most = [&](const std::string& options) {
    const Json body = read_body(chat("", options), kOllamaChatFields);
    return read_ollama_chat(body.as_object(), server.model).max_tokens;
  };
  EXPECT_EQ(most(",\"num_ctx\":256"), 24);
  EXPECT_EQ(most(",\"num_ctx\":30"), 30 - 23);
  EXPECT_NE(error_of(server, kChat, chat("", ",\"num_ctx\":23")).find("options.num_ctx is 23"), std::string::npos);
}

TEST(Ollama, AnswersAreHeldToTheirFormat) {
  ToyServer server;
  const auto content = [&](const std::string& format) {
    const JsonObject answer = server.ok(kChat, chat(R"(,"stream":false,"format":)" + format));
    return text_of(answer.at("message").at("content"));
  };
  const Json value = parse_json(content(R"({"enum":["ab",7]})"), "answer");
  EXPECT_TRUE(value == Json("ab") || value == Json(7)) << value;
  const std::string object = content("\"json\"");
  EXPECT_EQ(object.find_first_not_of(" \r\n\t"), object.find('{')) << object;
  EXPECT_NE(error_of(server, kChat, chat(R"(,"format":{"type":"x"})")).find("format"), std::string::npos);
  EXPECT_NE(error_of(server, kChat, chat(R"(,"format":"xml")")).find("format"), std::string::npos);
}

// Marks of reasoning are whatever the template writes around it.
TEST(Ollama, AModelThatReasonsBetweenOtherMarksMayThink) {
  const std::string thinks =
      "{% for message in messages %}{{ '<s>' + message['role'] + '\\n' }}{% if message.reasoning_content %}"
      "{{ '[THINK]' + message.reasoning_content + '[/THINK]' }}{% endif %}{{ message['content'] + '</s>' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}";
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 64, .page_rows = 16}, thinks);
  ASSERT_TRUE(reasoning_of(server.model));
  server.ok(kChat, chat(R"(,"stream":false,"think":true)"));
  ToyServer other;
  EXPECT_FALSE(reasoning_of(other.model));
  EXPECT_NE(error_of(other, kChat, chat(R"(,"think":true)")).find("think is for models"), std::string::npos);
}

// With tools an answer is a call or a text of the format.
TEST(Ollama, ToolsBesideAFormat) {
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 64, .page_rows = 16}, kHermesTemplate);
  int n_calls = 0, n_texts = 0;
  for (int seed = 1; seed <= 16; ++seed) {
    const JsonObject answer =
        server.ok(kChat, fmt::format(R"({{"messages":[{{"role":"user","content":"hello"}}],"stream":false,
            "format":{{"enum":["ab",7]}},"tools":[{{"type":"function","function":{{"name":"a","parameters":
            {{"type":"object","properties":{{}},"additionalProperties":false}}}}}}],
            "options":{{"seed":{},"temperature":1,"num_predict":160}}}})",
                                     seed));
    const JsonObject& message = answer.at("message").as_object();
    if (text_of(answer.at("done_reason")) == "length") continue;
    const bool call = message.contains("tool_calls");
    if (!call) {
      const Json value = parse_json(text_of(message.at("content")), "answer");
      EXPECT_TRUE(value == Json("ab") || value == Json(7)) << value;
    }
    ++(call ? n_calls : n_texts);
  }
  EXPECT_GT(n_calls + n_texts, 0);
}

// Calls come whole: the lines of a stream have what the whole answer has, and one that was cut comes in neither.
TEST(Ollama, CallsThoughtsAndText) {
  using Kind = AnswerPart::Kind;
  const std::vector<AnswerPart> parts = {
      {.kind = Kind::kReasoning, .text = "so", .id = {}},
      {.kind = Kind::kText, .text = "I look", .id = {}},
      {.kind = Kind::kCallBegin, .text = "f", .index = 0, .id = "call_1"},
      {.kind = Kind::kCallArguments, .text = "{\"x\":", .index = 0, .id = {}},
      {.kind = Kind::kCallArguments, .text = "1}", .index = 0, .id = {}},
      {.kind = Kind::kCallEnd, .text = {}, .index = 0, .id = {}},
      {.kind = Kind::kCallBegin, .text = "g", .index = 1, .id = "call_2"},
      {.kind = Kind::kCallArguments, .text = "{\"y", .index = 1, .id = {}},
  };
  const std::unique_ptr<Tokenizer> tokenizer = toy_tokenizer();
  const AnswerNames names{.model = "m", .fingerprint = "fp"};
  const auto stream = ollama_chat_writer(*tokenizer, names);
  ChoiceAnswer answer;
  answer.end = ChoiceEnd::kLength;
  std::string bytes = stream->begin({});
  for (const AnswerPart& part : parts) {
    const ChoicePiece piece{.parts = {part}, .scores = {}};
    bytes += stream->piece(0, piece);
    answer.add(piece);
  }
  bytes += stream->end_choice(0, ChoiceEnd::kLength, "");
  bytes += stream->end({.prompt = 3, .completion = 9});
  const std::vector<JsonObject> lines = lines_of({.status = 200, .content_type = stream->stream_type(), .body = bytes});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(text_of(lines[0].at("message").at("thinking")), "so");
  EXPECT_EQ(text_of(lines[1].at("message").at("content")), "I look");
  const std::string calls = R"([{"id":"call_1","function":{"index":0,"name":"f","arguments":{"x":1}}}])";
  EXPECT_EQ(to_json(lines[2].at("message").at("tool_calls")), calls);
  EXPECT_EQ(text_of(lines[3].at("done_reason")), "length");
  const Json whole =
      parse_json(ollama_chat_writer(*tokenizer, names)->whole({answer}, {.prompt = 3, .completion = 9}), "answer");
  EXPECT_EQ(to_json(whole.at("message")),
            R"({"role":"assistant","content":"I look","thinking":"so","tool_calls":)" + calls + "}");
  EXPECT_EQ(text_of(whole.at("done_reason")), "length");
  const Json prompt = parse_json(ollama_generate_writer(*tokenizer, names)->whole({answer}, {}), "answer");
  EXPECT_EQ(text_of(prompt.at("response")), "I look");
  EXPECT_EQ(text_of(prompt.at("thinking")), "so");
}

TEST(Ollama, ResultsFindTheirCalls) {
  const std::string shown =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.id[-1] }}{% endfor %}"
      "{% if m.role == 'tool' %}{{ m.tool_call_id[-1] }}{{ m.name }}{% endif %}{% endfor %}";
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16}, shown);
  const Json body = read_body(R"({"messages":[
      {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}},{"function":{"name":"g"}},
                                        {"id":"h7","function":{"name":"h"}}]},
      {"role":"tool","content":"r","tool_name":"g"},{"role":"tool","content":"r"},
      {"role":"tool","content":"r","tool_call_id":"h7"}]})",
                              kOllamaChatFields);
  const Generation generation = read_ollama_chat(body.as_object(), server.model);
  EXPECT_EQ(server.model.tokenizer->decode(generation.prompts.at(0)), "f0g1h71g07");
  EXPECT_EQ(error_of(server, kChat, R"({"messages":[{"role":"user","tool_calls":[{"function":{"name":"f"}}]}]})"),
            "messages[0].tool_calls may stand in messages of the assistant only");
}

TEST(Ollama, Vectors) {
  ToyServer server;
  const JsonObject data =
      server.ok("/v1/embeddings", R"({"input":["first text","second"]})").at("data").as_array()[1].as_object();
  const JsonObject list = server.ok("/api/embed", R"({"input":["first text","second"],"keep_alive":"1h"})");
  EXPECT_EQ(list.at("embeddings").as_array().size(), 2u);
  EXPECT_EQ(list.at("embeddings").as_array()[1], data.at("embedding"));
  EXPECT_EQ(list.at("prompt_eval_count").as_int64(), 16);
  const JsonObject plain = server.ok("/v1/embeddings", R"({"input":"second","normalize":false})");
  EXPECT_EQ(server.ok("/api/embeddings", R"({"prompt":"second"})").at("embedding"),
            plain.at("data").as_array()[0].at("embedding"));
  EXPECT_EQ(error_of(server, "/api/embeddings", R"({"prompt":""})"), "prompt is empty");
  EXPECT_EQ(error_of(server, "/api/embed", R"({"input":"abc","truncate":true})"),
            "truncate is not supported by this server");
  EXPECT_NE(error_of(server, "/api/embed", R"({"input":"abc","options":{"num_ctx":2}})").find("options.num_ctx is 2"),
            std::string::npos);
  server.expect_idle();
}

TEST(Ollama, Scores) {
  ToyServer server;
  const std::string asked = R"(,"logprobs":true,"top_logprobs":2)";
  const JsonObject whole = server.ok(kChat, chat(asked + R"(,"stream":false)"));
  JsonArray scores;
  for (const JsonObject& line : lines_of(server.call(kChat, chat(asked)))) {
    const Json* some = find(line, "logprobs");
    if (some) scores.insert(scores.end(), some->as_array().begin(), some->as_array().end());
  }
  EXPECT_EQ(Json(scores), whole.at("logprobs"));
  EXPECT_EQ(scores.at(0).at("top_logprobs").as_array().size(), 2u);
  EXPECT_LE(scores.at(0).at("logprob").to_number<double>(), 0);
  EXPECT_FALSE(server.ok(kChat, chat(R"(,"stream":false)")).contains("logprobs"));
  EXPECT_FALSE(server.ok(kChat, chat(R"(,"top_logprobs":2,"stream":false)")).contains("logprobs"));
  server.expect_idle();
}

TEST(Ollama, TimesAreWritten) {
  EXPECT_EQ(ollama_time(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(ollama_time(1700000000.5), "2023-11-14T22:13:20.500000Z");
}

}  // namespace
}  // namespace ingot
