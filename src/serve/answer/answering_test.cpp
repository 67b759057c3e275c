// Requests for text against a toy model: whole and streamed, in every API.
#include "serve/answer/answering.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <set>

#include "base/utf8.h"
#include "serve/api/generation.h"
#include "serve/serving_test_support.h"

namespace ingot {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kText = "/v1/completions";

std::string text_of(const Json& value) { return {value.get_string().data(), value.get_string().size()}; }

// A chat body; `more` begins with a comma where it is not empty.
std::string chat(const std::string& more = "", const std::string& content = "hello") {
  return R"({"messages":[{"role":"user","content":")" + content + R"("}],"seed":7,"temperature":1)" + more + "}";
}
std::string complete(const std::string& more = "", const std::string& prompt = "\"once upon\"") {
  return R"({"prompt":)" + prompt + R"(,"seed":7,"temperature":1)" + more + "}";
}

const JsonObject& choice(const JsonObject& answer, size_t i = 0) {
  return answer.at("choices").as_array().at(i).as_object();
}
const JsonObject& message(const JsonObject& answer, size_t i = 0) {
  return choice(answer, i).at("message").as_object();
}

// What a stream of chat chunks comes to, for each choice.
struct Streamed {
  std::string content;
  std::string reason;
  int roles = 0;
  std::vector<Json> logprobs;
};
std::vector<Streamed> join_chat(const std::vector<Json>& events, size_t n) {
  std::vector<Streamed> result(n);
  for (const Json& event : events) {
    if (!event.is_object()) continue;
    for (const Json& item : event.at("choices").as_array()) {
      Streamed& s = result.at(static_cast<size_t>(item.at("index").as_int64()));
      const JsonObject& delta = item.at("delta").as_object();
      EXPECT_TRUE(s.reason.empty()) << "an event after the choice's end";
      if (delta.contains("role")) ++s.roles;
      if (delta.contains("content")) s.content += text_of(delta.at("content"));
      if (item.at("finish_reason").is_string()) s.reason = text_of(item.at("finish_reason"));
      if (item.at("logprobs").is_object()) {
        for (const Json& entry : item.at("logprobs").at("content").as_array()) s.logprobs.push_back(entry);
      }
    }
  }
  return result;
}

// Every number of the document is finite: to_json writes null for others, which no client expects here.
void expect_numbers(const Json& value) {
  EXPECT_TRUE(!value.is_double() || std::isfinite(value.get_double()));
  if (value.is_array()) {
    for (const Json& item : value.get_array()) expect_numbers(item);
  }
  if (value.is_object()) {
    for (const auto& member : value.get_object()) {
      EXPECT_TRUE(member.key() != "logprob" || member.value().is_number());
      expect_numbers(member.value());
    }
  }
}

TEST(Answering, WholeAndStreamedAreTheSame) {
  ToyServer server;
  const std::string more = R"(,"max_tokens":40,"n":3,"logprobs":true,"top_logprobs":2)";
  const JsonObject whole = server.ok(kChat, chat(more));
  const std::vector<Json> events =
      server.events(kChat, chat(more + R"(,"stream":true,"stream_options":{"include_usage":true})"));
  const std::vector<Streamed> streamed = join_chat(events, 3);
  std::set<std::string> texts;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(streamed[i].content, text_of(message(whole, i).at("content")));
    EXPECT_EQ(streamed[i].reason, text_of(choice(whole, i).at("finish_reason")));
    EXPECT_EQ(streamed[i].roles, 1);
    const JsonArray& logprobs = choice(whole, i).at("logprobs").at("content").as_array();
    EXPECT_EQ(JsonArray(streamed[i].logprobs.begin(), streamed[i].logprobs.end()), logprobs);
    texts.insert(streamed[i].content);
  }
  EXPECT_EQ(texts.size(), 3u) << "choices of one request are alike";
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.back(), Json("[DONE]"));
  const JsonObject& last = events[events.size() - 2].as_object();
  EXPECT_TRUE(last.at("choices").as_array().empty());
  EXPECT_EQ(last.at("usage").at("completion_tokens"), whole.at("usage").at("completion_tokens"));
  EXPECT_EQ(last.at("usage").at("prompt_tokens"), whole.at("usage").at("prompt_tokens"));
  EXPECT_TRUE(events[0].at("usage").is_null());
  server.expect_idle();
}

TEST(Answering, ShapeOfAChatAnswer) {
  ToyServer server;
  const JsonObject a = server.ok(kChat, chat(R"(,"max_completion_tokens":5,"max_tokens":50,"logit_bias":{"2":-100})"));
  const JsonObject b = server.ok(kChat, chat(R"(,"max_tokens":5,"logit_bias":{"2":-100})"));
  EXPECT_EQ(text_of(a.at("object")), "chat.completion");
  EXPECT_EQ(text_of(a.at("model")), "toy");
  EXPECT_GT(a.at("created").as_int64(), 1600000000);
  EXPECT_TRUE(text_of(a.at("id")).starts_with("chatcmpl-"));
  EXPECT_NE(a.at("id"), b.at("id"));
  EXPECT_EQ(a.at("system_fingerprint"), b.at("system_fingerprint"));
  EXPECT_EQ(text_of(choice(a).at("finish_reason")), "length");
  EXPECT_EQ(message(a).at("content"), message(b).at("content"));  // the same seed
  const JsonObject& usage = a.at("usage").as_object();
  EXPECT_EQ(usage.at("completion_tokens").as_int64(), 5);
  // <s> user \n hello </s> <s> assistant \n
  EXPECT_EQ(usage.at("prompt_tokens").as_int64(), 1 + 5 + 5 + 1 + 1 + 10);
  EXPECT_EQ(usage.at("total_tokens").as_int64(), 28);
}

TEST(Answering, FingerprintTellsTheWeightsFormat) {
  ServedModel q4;
  q4.name = "m";
  q4.architecture = "llama";
  q4.formats = {{"f32", 10}, {"q4_0", 900}};
  const ServedModel same = q4;
  EXPECT_EQ(same.fingerprint(), q4.fingerprint());
  ServedModel q8 = q4;
  q8.formats = {{"f32", 10}, {"q8_0", 1700}};
  EXPECT_NE(q8.fingerprint(), q4.fingerprint());
  // Two mixes of the same formats.
  q4.formats = {{"f32", 10}, {"q4_k", 800}, {"q6_k", 200}};
  ServedModel other = q4;
  other.formats["q6_k"] = 300;
  EXPECT_NE(other.fingerprint(), q4.fingerprint());
}

TEST(Answering, StopStringEndsTheAnswerBeforeIt) {
  ToyServer server;
  const std::string more = R"(,"max_tokens":60,"logit_bias":{"2":-100})";
  const std::string full = text_of(message(server.ok(kChat, chat(more))).at("content"));
  // Two characters from the middle, whole ones.
  std::vector<size_t> starts;
  for (size_t i = 0; i < full.size(); ++i) {
    if ((full[i] & 0xC0) != 0x80) starts.push_back(i);
  }
  ASSERT_GT(starts.size(), 12u);
  const std::string stop = full.substr(starts[10], starts[12] - starts[10]);
  const std::string expected = full.substr(0, full.find(stop));
  const std::string body = chat(more + R"(,"stop":[)" + to_json(Json(stop)) + "]");
  const JsonObject whole = server.ok(kChat, body);
  EXPECT_EQ(text_of(message(whole).at("content")), expected);
  EXPECT_EQ(text_of(choice(whole).at("finish_reason")), "stop");
  EXPECT_LT(whole.at("usage").at("completion_tokens").as_int64(), 60);
  const std::vector<Json> events = server.events(kChat, chat(more + R"(,"stream":true,"stop":)" + to_json(Json(stop))));
  EXPECT_EQ(join_chat(events, 1)[0].content, expected);
  server.expect_idle();
}

TEST(Answering, CompletionsOfAListDiffer) {
  ToyServer server;
  const JsonObject answer = server.ok(kText, complete(R"(,"max_tokens":12,"n":2)", R"(["same","same"])"));
  std::set<std::string> texts;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choice(answer, i).at("index").as_int64(), static_cast<int64_t>(i));
    texts.insert(text_of(choice(answer, i).at("text")));
  }
  EXPECT_EQ(texts.size(), 4u) << "equal prompts gave equal samples";
  EXPECT_EQ(answer.at("usage").at("prompt_tokens").as_int64(), 8);
  EXPECT_EQ(text_of(answer.at("object")), "text_completion");
  server.expect_idle();
}

TEST(Answering, PromptsAsTextAndAsIds) {
  ToyServer server;
  const JsonObject text = server.ok(kText, complete(R"(,"max_tokens":8)", "\"ab\""));
  const JsonObject ids = server.ok(kText, complete(R"(,"max_tokens":8)", "[100,101]"));
  const JsonObject list = server.ok(kText, complete(R"(,"max_tokens":8)", "[[100,101]]"));
  EXPECT_EQ(choice(text).at("text"), choice(ids).at("text"));
  EXPECT_EQ(choice(text).at("text"), choice(list).at("text"));
}

TEST(Answering, EchoWithLogprobs) {
  ToyServer server;
  for (const int n : {1, 2}) {
    const std::string more = R"(,"echo":true,"logprobs":3,"max_tokens":4,"n":)" + std::to_string(n);
    const JsonObject answer = server.ok(kText, complete(more, "\"h\\u00e9llo\""));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      EXPECT_TRUE(text_of(choice(answer, i).at("text")).starts_with("h\xC3\xA9llo"));
      const JsonObject& logprobs = choice(answer, i).at("logprobs").as_object();
      const JsonArray& values = logprobs.at("token_logprobs").as_array();
      ASSERT_GE(values.size(), 6u);
      EXPECT_TRUE(values[0].is_null());
      for (size_t t = 1; t < values.size(); ++t) {
        ASSERT_TRUE(values[t].is_number());
        EXPECT_LE(values[t].to_number<double>(), 0);
      }
      EXPECT_EQ(logprobs.at("tokens").as_array().size(), values.size());
      EXPECT_EQ(logprobs.at("text_offset").as_array()[6].as_int64(), 5);  // characters
      EXPECT_TRUE(logprobs.at("top_logprobs").as_array()[0].is_null());
      EXPECT_GE(logprobs.at("top_logprobs").as_array()[1].as_object().size(), 1u);
      expect_numbers(answer);
    }
  }
  server.expect_idle();
}

// Only the first choice computes the prompt's rows again, in many steps here; the others find them in the cache and
// begin long before. All tell the same scores, and all of them.
TEST(Answering, ScoresOfAPromptAreWholeForEveryChoice) {
  ToyServer server({.threads = 1, .max_seqs = 4, .step_rows = 16, .chunk_rows = 2, .page_rows = 16});
  const std::string prompt = "\"" + std::string(100, 'q') + "\"";
  server.ok(kText, complete(R"(,"max_tokens":1)", prompt));
  const JsonObject alone = server.ok(kText, complete(R"(,"echo":true,"logprobs":1,"max_tokens":0)", prompt));
  const JsonArray expected = choice(alone).at("logprobs").at("token_logprobs").as_array();
  ASSERT_EQ(expected.size(), 100u);
  for (int round = 0; round < 3; ++round) {
    const JsonObject answer = server.ok(kText, complete(R"(,"echo":true,"logprobs":1,"max_tokens":3,"n":4)", prompt));
    for (size_t i = 0; i < 4; ++i) {
      const JsonArray& scores = choice(answer, i).at("logprobs").at("token_logprobs").as_array();
      ASSERT_GE(scores.size(), 100u);
      for (size_t t = 0; t < 100; ++t) ASSERT_EQ(scores[t], expected[t]) << "choice " << i << ", token " << t;
    }
  }
  server.expect_idle();
}

// What an answer would hold at once is bounded before anything is computed, whichever way it is asked for.
TEST(Answering, AnAnswerHoldsSoManyTokensAndScores) {
  ToyServer server;
  server.model.context = 1 << 21;  // as far as requests are concerned
  const auto param = [&](const char* path, const std::string& body) {
    return text_of(server.error(400, path, body).at("param"));
  };
  const std::string prompt = "\"" + std::string(20000, 'q') + "\"";
  EXPECT_EQ(param(kText, complete(R"(,"echo":true,"logprobs":20,"max_tokens":1)", prompt)), "echo");
  EXPECT_EQ(param(kText, complete(R"(,"echo":true,"logprobs":0,"max_tokens":1,"n":16)", prompt)), "echo");
  EXPECT_EQ(param(kText, complete(R"(,"echo":true,"logprobs":20,"max_tokens":1,"stream":true)", prompt)), "echo");
  EXPECT_EQ(param(kText, complete(R"(,"logprobs":20,"max_tokens":12484)")), "max_tokens");
  EXPECT_EQ(param(kText, complete(R"(,"logprobs":20,"max_tokens":800,"n":16)")), "max_tokens");
  EXPECT_EQ(param(kText, complete(R"(,"max_tokens":1048577)")), "max_tokens");
  EXPECT_EQ(param(kChat, chat(R"(,"logprobs":true,"top_logprobs":20,"max_tokens":12484)")), "max_tokens");
  EXPECT_EQ(param(kChat, chat(R"(,"logprobs":true,"top_logprobs":20,"min_tokens":12484)")), "max_tokens");
}

// Whoever leaves max_tokens out asks for nothing in particular: the answer ends where it would become too large.
TEST(Answering, AnAnswerWithoutALengthIsCutToWhatItMayHold) {
  ToyServer server;
  server.model.context = 1 << 21;
  const auto most = [&](const std::string& body) {
    return read_chat(parse_json(body, "body").as_object(), server.model).max_tokens;
  };
  EXPECT_EQ(most(chat("")), 1 << 20);
  EXPECT_EQ(most(chat(R"(,"n":16)")), 1 << 16);
  EXPECT_EQ(most(chat(R"(,"logprobs":true,"top_logprobs":20)")), (1 << 18) / 21);
  EXPECT_EQ(most(chat(R"(,"logprobs":true,"top_logprobs":20,"stream":true)")), -1);
  EXPECT_EQ(most(chat(R"(,"logprobs":true,"top_logprobs":20,"max_tokens":12483)")), 12483);
  server.model.context = 8192;
  EXPECT_EQ(most(chat(R"(,"logprobs":true,"top_logprobs":20)")), -1);
}

// A request that waited for a worker has waited: its time counts from when its last byte had come.
TEST(Answering, TheFirstTokenIsTimedFromTheRequestsLastByte) {
  ToyServer server;
  HttpRequest request;
  request.head.path = kText;
  request.head.received -= std::chrono::hours(1);
  request.body = complete(R"(,"max_tokens":2)");
  auto responder = std::make_shared<TestResponder>();
  handle_completions(server.context, std::move(request), responder);
  EXPECT_EQ(responder->wait().status, 200);
  EXPECT_EQ(server.metrics.first_token_seconds.count(), 1);
  EXPECT_GE(server.metrics.first_token_seconds.sum(), 3600);
  server.expect_idle();
}

// The score of a token is the same whether it was made or was in the prompt.
TEST(Answering, LogprobsOfThePromptAreThoseOfTheAnswer) {
  ToyServer server;
  const std::string start = R"(,"max_tokens":5,"logprobs":0,"temperature":0,"logit_bias":{"2":-100})";
  const std::string ids = "[100,101,102]";
  const JsonObject made = server.ok(kText, R"({"prompt":)" + ids + start + "}");
  // The ids that were made are not told: score the same text by echo of prompts that end in each.
  const JsonArray& values = choice(made).at("logprobs").at("token_logprobs").as_array();
  double best = -1e9;
  for (int id = 0; id < 256; ++id) {
    const JsonObject scored = server.ok(
        kText, R"({"prompt":[100,101,102,)" + std::to_string(id) + R"(],"max_tokens":0,"echo":true,"logprobs":0})");
    best = std::max(best, choice(scored).at("logprobs").at("token_logprobs").as_array()[3].to_number<double>());
  }
  EXPECT_NEAR(best, values[0].to_number<double>(), 1e-4);
}

TEST(Answering, LogprobsAreNumbers) {
  ToyServer server;
  const std::string cases[] = {
      R"(,"logprobs":true,"top_logprobs":20,"top_k":1)",
      R"(,"logprobs":true,"top_logprobs":5,"temperature":0)",
      R"(,"logprobs":true,"top_logprobs":5,"logit_bias":{"50":100,"51":-100})",
      R"(,"logprobs":true,"top_logprobs":0,"min_p":1,"top_p":0)",
      R"(,"logprobs":true,"top_logprobs":20,"repetition_penalty":100,"presence_penalty":2,"frequency_penalty":-2)",
  };
  for (const std::string& more : cases) {
    for (int seed = 0; seed < 5; ++seed) {
      const std::string body = R"({"messages":[{"role":"user","content":"x"}],"max_tokens":12,"n":2,"seed":)" +
                               std::to_string(seed) + more + "}";
      const JsonObject answer = server.ok(kChat, body);
      expect_numbers(answer);
      for (const Json& entry : choice(answer).at("logprobs").at("content").as_array()) {
        EXPECT_TRUE(entry.at("logprob").is_number());
        EXPECT_TRUE(entry.at("bytes").is_array());
      }
    }
  }
}

TEST(Answering, LengthEdges) {
  ToyServer server;
  const auto prompt = [](int tokens) { return "\"" + std::string(static_cast<size_t>(tokens), 'x') + "\""; };
  const std::string endless = R"(,"logit_bias":{"2":-100},"max_tokens":)";
  const JsonObject last = server.ok(kText, complete(endless + "1000000000", prompt(ToyServer::kContext - 1)));
  EXPECT_EQ(last.at("usage").at("completion_tokens").as_int64(), 1);
  EXPECT_EQ(text_of(choice(last).at("finish_reason")), "length");
  for (const int tokens : {ToyServer::kContext, ToyServer::kContext + 1, 5000}) {
    const JsonObject error = server.error(400, kText, complete(endless + "1", prompt(tokens)));
    EXPECT_EQ(text_of(error.at("code")), "context_length_exceeded");
    EXPECT_NE(text_of(error.at("message")).find("256"), std::string::npos);
    EXPECT_NE(text_of(error.at("message")).find(std::to_string(tokens)), std::string::npos);
  }
  // Of what is far too long the beginning is enough.
  const std::string huge(1000000, 'x');
  for (const JsonObject& error :
       {server.error(400, kText, complete("", "\"" + huge + "\"")), server.error(400, kChat, chat("", huge))}) {
    EXPECT_EQ(text_of(error.at("code")), "context_length_exceeded");
    EXPECT_NE(text_of(error.at("message")).find("more than"), std::string::npos);
  }
  // Reading alone fits.
  server.ok(kText, complete(R"(,"echo":true,"max_tokens":0)", prompt(ToyServer::kContext)));
  server.error(400, kText, complete(R"(,"max_tokens":1073741825)"));
  server.expect_idle();
}

TEST(Answering, BadRequestsNameTheirField) {
  ToyServer server;
  const auto param = [&](const char* path, const std::string& body) {
    const JsonObject error = server.error(400, path, body);
    return error.contains("param") && error.at("param").is_string() ? text_of(error.at("param")) : std::string();
  };
  EXPECT_EQ(param(kText, R"({"prompt":""})"), "prompt");
  EXPECT_EQ(param(kText, R"({"prompt":[]})"), "prompt");
  EXPECT_EQ(param(kText, R"({"prompt":[-1]})"), "prompt[0]");
  EXPECT_EQ(param(kText, R"({"prompt":[1,256]})"), "prompt[1]");
  EXPECT_EQ(param(kText, R"({"prompt":["a",[1]]})"), "prompt[1]");
  EXPECT_EQ(param(kText, R"({"prompt":[[1],[1.5]]})"), "prompt[1][0]");
  EXPECT_EQ(param(kText, complete(R"(,"max_tokens":0)")), "max_tokens");
  EXPECT_EQ(param(kText, complete(R"(,"best_of":2)")), "best_of");
  EXPECT_EQ(param(kText, complete(R"(,"n":16)", R"(["a","a","a","a","a","a","a","a","a"])")), "n");
  EXPECT_EQ(param(kChat, chat(R"(,"logit_bias":{"256":1})")), "logit_bias");
  EXPECT_EQ(param(kChat, chat(R"(,"logit_bias":{"1":101})")), "logit_bias");
  EXPECT_EQ(param(kChat, chat(R"(,"logit_bias":{"x":1})")), "logit_bias");
  EXPECT_EQ(param(kChat, chat(R"(,"logit_bias":{"1":null})")), "logit_bias");
  EXPECT_EQ(param(kChat, chat(R"(,"stop":"")")), "stop");
  EXPECT_EQ(param(kChat, chat(R"(,"stop_token_ids":[999])")), "stop_token_ids[0]");
  EXPECT_EQ(param(kChat, chat(R"(,"stream_options":{"include_usage":true})")), "stream_options");
  EXPECT_EQ(param(kChat, chat(R"(,"top_logprobs":2)")), "top_logprobs");
  EXPECT_EQ(param(kChat, chat(R"(,"response_format":{"type":"xml"})")), "response_format.type");
  EXPECT_EQ(param(kChat, chat(R"(,"modalities":["text","audio"])")), "modalities[1]");
  EXPECT_EQ(param(kChat, chat(R"(,"min_tokens":5,"max_tokens":4)")), "min_tokens");
  EXPECT_EQ(param(kChat, chat(R"(,"tool_choice":"required")")), "tool_choice");
  EXPECT_EQ(param(kChat, R"({"messages":[{"role":"user"}]})"), "messages[0].content");
  EXPECT_EQ(param(kChat, R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})"),
            "messages[0].content[0].text");
  server.ok(kChat, chat(R"(,"max_tokens":2,"top_p":null,"n":null,"stop":null,"user":"u","metadata":{},"store":true)"));
  server.ok(kChat, chat(R"(,"max_tokens":2,"response_format":{"type":"text"},"parallel_tool_calls":null,"tools":[])"));
  server.expect_idle();
}

TEST(Answering, ModelNamesReachNoFile) {
  ToyServer server;
  for (const char* name :
       {"../toy", "/etc/passwd", "toy/../../x", "toy\\u0000", "..", "C:\\\\x", "file:///etc/passwd"}) {
    const JsonObject error = server.error(404, kChat, chat(R"(,"model":")" + std::string(name) + "\""));
    EXPECT_EQ(text_of(error.at("code")), "model_not_found");
    EXPECT_EQ(text_of(error.at("message")).find("passwd"), std::string::npos);
  }
  server.ok(kChat, chat(R"(,"model":"toy","max_tokens":1)"));
}

TEST(Answering, ClientThatGoesStopsItsRequest) {
  ToyServer server;
  const std::shared_ptr<TestResponder> responder =
      server.begin(kChat, chat(R"(,"stream":true,"logit_bias":{"2":-100})"));
  responder->wait_for_writes(1);
  responder->close();
  server.expect_idle();  // long before the context is full, or after it: nothing is left either way
}

// Long texts of others keep the workers; the events of a stream have threads of their own.
TEST(Answering, StreamsGoOnWhileAllWorkersAreBusy) {
  ToyServer server;
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(server.context.workers.post([open] { open.wait(); }));
  const auto stream = server.begin(kChat, chat(R"(,"max_tokens":8,"ignore_eos":true,"stream":true)"));
  const auto whole = server.begin(kChat, chat(R"(,"max_tokens":8,"ignore_eos":true)"));
  EXPECT_TRUE(stream->wait().body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(whole->answers(), 0);
  gate.set_value();
  EXPECT_EQ(whole->wait().status, 200);
}

TEST(Answering, DrainingServerIsBusy) {
  ToyServer server;
  server.expect_idle();  // drains
  const HttpResponse response = server.call(kChat, chat());
  EXPECT_EQ(response.status, 503);
  bool retry = false;
  for (const auto& [name, value] : response.headers) retry |= name == "retry-after";
  EXPECT_TRUE(retry);
}

TEST(Answering, ModelWithoutTemplateHasNoChat) {
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16}, "");
  EXPECT_EQ(text_of(server.error(400, kChat, chat()).at("code")), "no_chat_template");
  server.ok(kText, complete(R"(,"max_tokens":2)"));
}

TEST(Answering, TemplatesThatRefuseSayWhyInTheirOwnWordsOnly) {
  const std::string strict =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
      "{% if m.content == 'secret' %}{{ raise_exception('No place for ' + m.content) }}{% endif %}{{ m.content }}"
      "{% endfor %}";
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16}, strict);
  const JsonObject system = server.error(400, kChat, R"({"messages":[{"role":"system","content":"a"}]})");
  EXPECT_EQ(text_of(system.at("param")), "messages");
  EXPECT_NE(text_of(system.at("message")).find("System role not supported"), std::string::npos);
  const JsonObject secret = server.error(400, kChat, R"({"messages":[{"role":"user","content":"secret"}]})");
  EXPECT_EQ(text_of(secret.at("message")).find("secret"), std::string::npos);
}

TEST(Answering, ContentPartsAndRolesReachTheTemplate) {
  const std::string shown = "{% for m in messages %}[{{ m.role }}:{{ m.content }}:{{ m.name }}]{% endfor %}";
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16}, shown);
  const JsonObject answer = server.ok(kChat, R"({"messages":[
      {"role":"developer","content":"a"},
      {"role":"user","content":[{"type":"text","text":"b","prompt_cache_breakpoint":{"ttl":"5m"}},
                                {"type":"text","text":"c"}],"name":"n"},
      {"role":"assistant","content":"d","refusal":null,"annotations":[],"audio":null,"tool_calls":null}],"max_tokens":1,
      "reasoning_effort":"max"})");
  // [system:a:][user:b\nc:n][assistant:d:]
  EXPECT_EQ(answer.at("usage").at("prompt_tokens").as_int64(), 11 + 12 + 14);
}

// An echoed prompt with its log-probabilities is one event of up to megabytes: the threads of other streams do not
// write it. Here they stand still, and the answer comes all the same.
TEST(Answering, EchoesWithLogprobsAreNotWrittenByTheThreadsOfStreams) {
  ToyServer server;
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(server.context.streams.post([open] { open.wait(); }));
  const std::vector<Json> events =
      server.events("/v1/completions", R"({"prompt":"abc","echo":true,"logprobs":2,"max_tokens":2,"stream":true})");
  EXPECT_GE(events.size(), 2u);
  const auto plain = server.begin("/v1/completions", R"({"prompt":"abc","max_tokens":1,"stream":true})");
  EXPECT_EQ(plain->answers(), 0);
  gate.set_value();
  EXPECT_EQ(plain->wait().status, 200);
}

}  // namespace
}  // namespace ingot
