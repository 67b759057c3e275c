// Tenants at the server, without sockets in between: rights, limits, a share of the queue, keys that go, deadlines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "serve/routes.h"
#include "serve/server_tenants_test_support.h"

namespace ingot {
namespace {

TEST_F(ServerTenants, CallWhatTheyMay) {
  serve(
      "all all-key-1\nsome some-key-1 routes=/v1/embeddings,/v1/models/*\nother other-key-1 models=another\n"
      "named named-key-1 models=another,toy\n");
  EXPECT_EQ(check("all-key-1", "/tokenize"), 0);
  EXPECT_EQ(check("some-key-1", "/v1/embeddings"), 0);
  EXPECT_EQ(check("some-key-1", "/v1/models/toy", "GET"), 0);
  for (const char* path : {"/v1/models", "/metrics", "/v1/usage"}) {
    EXPECT_EQ(check("some-key-1", path, "GET"), 403) << path;
  }
  EXPECT_EQ(check("some-key-1", "/v1/completions"), 403);
  EXPECT_EQ(check("some-key-1", "/health", "GET"), 0);
  // Also where the right was taken while the body came.
  EXPECT_EQ(call("some-key-1", "/v1/completions", completion(1)).status, 403);
  // A model that is not for a key does not exist for it.
  EXPECT_EQ(check("other-key-1", "/v1/completions"), 404);
  EXPECT_EQ(check("named-key-1", "/v1/completions"), 0);
  EXPECT_EQ(call("other-key-1", "/v1/models", "", "GET").body.find("toy"), std::string::npos);
  EXPECT_NE(call("named-key-1", "/v1/models", "", "GET").body.find("toy"), std::string::npos);
  EXPECT_EQ(call("other-key-1", "/v1/models/toy", "", "GET").status, 404);
}

TEST_F(ServerTenants, LimitsCountOnEveryRouteThatComputes) {
  const std::pair<const char*, const char*> bodies[] = {
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1})"},
      {"/v1/completions", R"({"prompt":"a","max_tokens":1})"},
      {"/v1/responses", R"({"input":"a","max_output_tokens":1})"},
      {"/v1/messages", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1})"},
      {"/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"a"}]})"},
      {"/v1/embeddings", R"({"input":"a"})"},
      {"/api/chat", R"({"messages":[{"role":"user","content":"a"}],"options":{"num_predict":1}})"},
      {"/api/generate", R"({"prompt":"a","options":{"num_predict":1}})"},
      {"/api/embed", R"({"input":"a"})"},
      {"/api/embeddings", R"({"prompt":"a"})"},
      {"/api/show", "{}"},
      {"/tokenize", R"({"text":"a"})"},
      {"/detokenize", R"({"tokens":[70]})"}};
  std::string keys = "free free-key-1\n";
  for (size_t i = 0; i < std::size(bodies); ++i) {
    keys += "r" + std::to_string(i) + " r-key-0" + std::to_string(i) + " rpm=1\n";
    keys += "t" + std::to_string(i) + " t-key-0" + std::to_string(i) + " tpm=1\n";
  }
  serve(keys);
  size_t posts = 0;
  for (const Route& route : routes()) posts += route.computes() && !route.reads_kept;
  EXPECT_EQ(posts, std::size(bodies)) << "a route that computes is missing here";
  for (size_t i = 0; i < std::size(bodies); ++i) {
    const auto& [path, body] = bodies[i];
    for (const std::string kind : {"r", "t"}) {
      if (kind == "t" && path == std::string_view("/api/show")) continue;  // has no tokens to count
      const std::string key = kind + "-key-0" + std::to_string(i);
      const HttpResponse first = call(key, path, body);
      ASSERT_EQ(first.status, 200) << path << first.body;
      EXPECT_EQ(header(first, kind == "r" ? "x-ratelimit-remaining-requests" : "x-ratelimit-limit-tokens"),
                kind == "r" ? "0" : "1");
      // Before its body is read, and after.
      EXPECT_EQ(check(key, path), 429) << path;
      const HttpResponse second = call(key, path, body);
      EXPECT_EQ(second.status, 429) << path << kind;
      EXPECT_GT(std::stoi(header(second, "retry-after")), 0);
      EXPECT_NE(header(second, kind == "r" ? "x-ratelimit-reset-requests" : "x-ratelimit-reset-tokens"), "");
      EXPECT_EQ(check(key, "/v1/engine", "GET"), 0);
    }
    EXPECT_EQ(header(call("free-key-1", path, body), "x-ratelimit-limit-tokens"), "");
  }
}

TEST_F(ServerTenants, AKeysContextHoldsPromptAndAnswer) {
  serve("a a-key-001 context=8\n");
  const HttpResponse answer =
      call("a-key-001", "/v1/completions", R"({"prompt":"abcd","ignore_eos":true,"max_tokens":99})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(answer.body.find("\"completion_tokens\":4"), std::string::npos) << answer.body;
  for (const auto& [path, body] : {std::pair("/v1/completions", R"({"prompt":"abcdefgh"})"),
                                   std::pair("/v1/embeddings", R"({"input":"abcdefghi"})")}) {
    const HttpResponse refused = call("a-key-001", path, body);
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("context_length_exceeded"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(call("a-key-001", "/v1/embeddings", R"({"input":"abcdefgh"})").status, 200);
}

TEST_F(ServerTenants, OneCannotTakeTheWholeQueue) {
  serve("a a-key-001\nb b-key-001\nc c-key-001\n", {.max_in_flight = 6});
  std::promise<void> gate;
  std::thread stop = stand_still(gate);
  std::vector<std::shared_ptr<TestResponder>> held;
  const auto fill = [&](const std::string& key) {
    int taken = 0;
    while (taken < 100 && check(key, "/v1/completions") == 0) {
      held.push_back(begin(key, "/v1/completions", completion(2)));
      ++taken;
    }
    return taken;
  };
  EXPECT_EQ(fill("a-key-001"), 6) << "who is alone has all of it";
  EXPECT_EQ(fill("b-key-001"), 3);
  EXPECT_EQ(fill("c-key-001"), 2);
  EXPECT_EQ(call("a-key-001", "/v1/completions", completion(2)).status, 503);
  gate.set_value();
  stop.join();
  for (const auto& responder : held) EXPECT_EQ(responder->wait().status, 200);
}

TEST_F(ServerTenants, UsageIsToldByNameToAdminsOnly) {
  serve("boss boss-key-1 admin\na a-key-001 rpm=1\nb b-key-001\n");
  EXPECT_EQ(call("a-key-001", "/v1/completions", R"({"prompt":"abcd","ignore_eos":true,"max_tokens":3})").status, 200);
  EXPECT_EQ(call("a-key-001", "/tokenize", R"({"text":"a"})").status, 429);
  EXPECT_EQ(call("b-key-001", "/tokenize", R"({"text":"abc"})").status, 200);
  const auto usage = [&](const char* key) {
    return parse_json(call(key, "/v1/usage", "", "GET").body, "usage").as_object();
  };
  const JsonObject all = usage("boss-key-1");
  EXPECT_EQ(all.at("total").at("completion_tokens"), 3);
  EXPECT_EQ(all.at("total").at("requests"), 2);
  ASSERT_EQ(all.at("tenants").as_array().size(), 3u);
  const JsonObject& a = all.at("tenants").as_array()[1].as_object();
  EXPECT_EQ(a.at("name"), "a");
  EXPECT_EQ(a.at("prompt_tokens"), 4);
  EXPECT_EQ(a.at("limited"), 1);
  EXPECT_EQ(a.at("active"), 0);
  EXPECT_EQ(all.at("tenants").as_array()[2].as_object().at("tokenizer_tokens"), 3);
  const JsonObject own = usage("b-key-001");
  EXPECT_FALSE(own.contains("tenants"));
  EXPECT_EQ(own.at("own").at("tokenizer_tokens"), 3);
  EXPECT_EQ(own.at("total"), all.at("total"));
  const std::string series = "ingot_tenant_generated_tokens_total{tenant=\"a\"} 3\n";
  EXPECT_NE(call("boss-key-1", "/metrics", "", "GET").body.find(series), std::string::npos);
  EXPECT_EQ(call("b-key-001", "/metrics", "", "GET").body.find("ingot_tenant_"), std::string::npos);
}

// From the key in a header to the pages of the cache: where the name is lost on the way, bob finds what is alice's.
TEST_F(ServerTenants, AKeyFindsItsOwnPagesAndNoOthers) {
  serve("alice alice-key-1\nbob bob-key-001\nalice alice-key-2\n");
  const auto rows = [&](const char* key) {
    const int64_t before = toy.model.engine->stats().rows;
    const std::string body = R"({"max_tokens":1,"prompt":")" + std::string(60, 'x') + R"("})";
    EXPECT_EQ(call(key, "/v1/completions", body).status, 200);
    toy.model.engine->call([](LocalEngine&) {});  // it counts a step after its events are out
    return toy.model.engine->stats().rows - before;
  };
  const int64_t all = rows("alice-key-1");
  EXPECT_GE(all, 60);
  EXPECT_EQ(rows("bob-key-001"), all);
  EXPECT_LT(rows("alice-key-2"), all / 2) << "another key of the same tenant";
}

TEST_F(ServerTenants, WhoWouldBeLateIsToldWhenToComeAgain) {
  Submitted submitted;
  submitted.busy = true;
  const ApiError full = turned_away(toy.context, submitted);
  EXPECT_EQ(header(error_response(full, ApiStyle::kOpenAi), "retry-after"), "1");
  submitted.late = true;
  submitted.retry_seconds = 7.2;
  const ApiError late = turned_away(toy.context, submitted);
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(header(error_response(late, ApiStyle::kOpenAi), "retry-after"), "8");
  toy.context.draining = true;
  EXPECT_NE(turned_away(toy.context, submitted).message.find("shutting down"), std::string::npos);
  const std::string text = toy.metrics.text({});
  for (const char* reason : {"late", "queue_full", "draining"}) {
    EXPECT_NE(text.find(std::string("ingot_rejected_total{reason=\"") + reason + "\"} 1\n"), std::string::npos)
        << reason;
  }
}

// A client that leaves frees nobody: what was begun for it goes on until the engine has heard of it.
TEST_F(ServerTenants, WhoLeavesBeforeTheFirstTokenKeepsItsPlaceUntilTheEngineHasEnded) {
  serve("a a-key-001 concurrency=1\n", {.usage_log = {.path = directory + "/usage"}});
  for (const char* path : {"/v1/completions", "/v1/embeddings"}) {
    const std::string body = path == std::string("/v1/completions")
                                 ? R"({"prompt":"abcd","ignore_eos":true,"max_tokens":9,"stream":true})"
                                 : R"({"input":"abcd"})";
    const int64_t before = used("a").prompt_tokens;
    std::promise<void> gate;
    std::thread stop = stand_still(gate);
    const auto leaving = begin("a-key-001", path, body);
    EXPECT_TRUE(eventually([&] { return used("a").prompt_tokens == before + 4; }));  // the engine has it
    leaving->close();
    EXPECT_EQ(check("a-key-001", path), 429) << path;
    EXPECT_EQ(call("a-key-001", path, body).status, 429) << path;
    gate.set_value();
    stop.join();
    EXPECT_TRUE(eventually([&] { return check("a-key-001", path) == 0; })) << path;
  }
  EXPECT_EQ(used("a").cancelled, 2);
  const std::vector<JsonObject> lines = usage_lines(2);
  ASSERT_EQ(lines.size(), 2u);
  for (const JsonObject& line : lines) {
    EXPECT_EQ(line.at("end"), "cancelled");
    EXPECT_EQ(line.at("prompt_tokens"), 4);
  }
}

TEST_F(ServerTenants, WhoLeavesWhileItWaitsForAWorkerIsNotWorkedOn) {
  serve("a a-key-001 concurrency=1\nb b-key-001 concurrency=1\n");
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> blocked = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(server->context().workers.post([&blocked, open] {
      ++blocked;
      open.wait();
    }));
  }
  EXPECT_TRUE(eventually([&] { return blocked == 2; }));
  begin("a-key-001", "/v1/completions", completion(9))->close();
  begin("b-key-001", "/tokenize", R"({"text":"abcd"})")->close();
  EXPECT_EQ(check("a-key-001", "/tokenize"), 429) << "its body is still here";
  EXPECT_EQ(check("b-key-001", "/tokenize"), 429);
  gate.set_value();
  EXPECT_TRUE(eventually([&] { return check("a-key-001", "/tokenize") == 0; }));
  EXPECT_TRUE(eventually([&] { return check("b-key-001", "/tokenize") == 0; }));
  EXPECT_EQ(server->metrics().client_gone.value(), 2);
  EXPECT_EQ(used("a").cancelled, 1);
  EXPECT_EQ(used("a").prompt_tokens, 0);
  EXPECT_EQ(used("b").tokenizer_tokens, 0);
  EXPECT_EQ(toy.model.engine->stats().rows, 0);
}

// Texts that are refused have been cut into tokens all the same.
TEST_F(ServerTenants, ATextThatIsRefusedIsPaid) {
  const std::string text(400, 'x');  // of a context of 256
  const std::pair<const char*, std::string> bodies[] = {
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":")" + text + R"("}]})"},
      {"/v1/completions", R"({"prompt":")" + text + R"("})"},
      {"/v1/messages", R"({"messages":[{"role":"user","content":")" + text + R"("}],"max_tokens":1})"},
      {"/v1/responses", R"({"input":")" + text + R"("})"},
      {"/v1/embeddings", R"({"input":")" + text + R"("})"},
      {"/api/chat", R"({"messages":[{"role":"user","content":")" + text + R"("}]})"},
      {"/api/generate", R"({"prompt":")" + text + R"("})"},
      {"/api/embed", R"({"input":")" + text + R"("})"},
      {"/api/embeddings", R"({"prompt":")" + text + R"("})"}};
  std::string keys = "short short-key-1 context=8 tpm=20\n";
  for (size_t i = 0; i < std::size(bodies); ++i) keys += fmt::format("t{} t-key-00{} tpm=300\n", i, i);
  serve(keys, {.usage_log = {.path = directory + "/usage"}});
  for (size_t i = 0; i < std::size(bodies); ++i) {
    const std::string key = fmt::format("t-key-00{}", i);
    EXPECT_EQ(call(key, bodies[i].first, bodies[i].second).status, 400) << bodies[i].first;
    EXPECT_EQ(check(key, bodies[i].first), 429) << bodies[i].first;
    EXPECT_GE(used(fmt::format("t{}", i)).tokenizer_tokens, 400) << bodies[i].first;
  }
  // By a limit of the key itself, which is known after that.
  EXPECT_EQ(call("short-key-1", "/v1/completions", R"({"prompt":"abcdefghijklmnopqrst"})").status, 400);
  EXPECT_EQ(check("short-key-1", "/v1/completions"), 429);
  const size_t refused = std::size(bodies) + 1;
  const std::vector<JsonObject> lines = usage_lines(refused);
  ASSERT_EQ(lines.size(), refused);
  for (const JsonObject& line : lines) {
    EXPECT_EQ(line.at("status"), 400);
    EXPECT_GE(line.at("tokenizer_tokens").to_number<int>(), 20);
  }
}

// What is kept of a conversation is read again for each request that asks for it or goes on from it.
TEST_F(ServerTenants, ReadingAKeptConversationIsPaid) {
  serve("a a-key-001 rpm=2\nb b-key-001 tpm=900\n",
        {.usage_log = {.path = directory + "/usage"}, .response_bytes = 1 << 20});
  const std::string item = R"({"type":"message","id":"msg_1","role":"user","content":[{"type":"input_text","text":")";
  const KeptResponse kept{.response = "{}", .input = "[" + item + std::string(64'000, 'x') + "\"}]}]", .output = "[]"};
  for (const char* tenant : {"a", "b"}) ASSERT_TRUE(server->context().responses.put(tenant, "resp_1", kept));
  EXPECT_EQ(call("a-key-001", "/v1/responses/resp_1/input_items", "", "GET").status, 200);
  EXPECT_EQ(call("a-key-001", "/v1/responses/resp_1", "", "GET").status, 200);
  EXPECT_EQ(check("a-key-001", "/v1/responses/resp_1/input_items", "GET"), 429);
  EXPECT_EQ(used("a").tokenizer_tokens, 500);
  // Also where the request is refused then, before a text is cut into tokens.
  const std::string body =
      R"({"previous_response_id":"resp_1","input":"a","tool_choice":{"type":"function","name":"f"}})";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(call("b-key-001", "/v1/responses", body).status, 400);
  EXPECT_EQ(used("b").tokenizer_tokens, 1000);
  EXPECT_EQ(check("b-key-001", "/v1/responses/resp_1", "GET"), 429);
  EXPECT_EQ(usage_lines(3).size(), 3u);
}

// As long as a large body would take: it has the worker of these, so that small requests never wait for it.
TEST_F(ServerTenants, ALongKeptConversationIsReadByTheWorkerOfLargeBodies) {
  serve("a a-key-001\n", {.response_bytes = 8 << 20});
  const std::string item = R"({"type":"message","id":"msg_1","role":"user","content":[{"type":"input_text","text":")";
  const auto keep = [&](const char* id, size_t length) {
    const std::string input = "[" + item + std::string(length, 'x') + "\"}]}]";
    const std::string output =
        R"([{"type":"message","id":"msg_2","role":"assistant","content":[{"type":"output_text","text":"b"}]}])";
    ASSERT_TRUE(server->context().responses.put("a", id, {.response = "{}", .input = input, .output = output}));
  };
  keep("resp_long", Workers::kLargeBytes);
  keep("resp_short", 100);
  std::promise<void> gate;
  const JobCost large{.payer = "b", .bytes = Workers::kLargeBytes + 1};
  ASSERT_TRUE(server->context().workers.post([open = gate.get_future().share()] { open.wait(); }, large));
  const auto list = begin("a-key-001", "/v1/responses/resp_long/input_items", "", "GET");
  const auto gone = begin("a-key-001", "/v1/responses/resp_long/input_items", "", "GET");
  const auto go_on =
      begin("a-key-001", "/v1/responses",
            R"({"previous_response_id":"resp_long","input":"a","truncation":"auto","max_output_tokens":1})");
  // Those that came later and are short are answered meanwhile: so the others are not with the workers of these.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(call("a-key-001", "/v1/responses/resp_short/input_items", "", "GET").status, 200);
  }
  gone->close();
  EXPECT_EQ(list->answers() + go_on->answers(), 0);
  gate.set_value();
  EXPECT_NE(list->wait().body.find("xxx"), std::string::npos);
  const HttpResponse answer = go_on->wait();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(gone->answers(), 0);
  EXPECT_EQ(server->metrics().client_gone.value(), 1);
}

// Many at once pass the door while nothing is used yet: those that come to a worker later find what the first have
// cost.
TEST_F(ServerTenants, WhatOthersHaveUsedMeanwhileCountsBeforeATextIsRead) {
  serve("a a-key-001 tpm=50\n");
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(server->context().workers.post([open] { open.wait(); }));
  std::vector<std::shared_ptr<TestResponder>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(begin("a-key-001", "/tokenize", "{\"text\":\"" + std::string(60, 'x') + "\"}"));
  }
  gate.set_value();
  int served = 0, limited = 0;
  for (const auto& responder : all) {
    const int status = responder->wait().status;
    served += status == 200;
    limited += status == 429;
  }
  EXPECT_EQ(served + limited, 8);
  EXPECT_GE(served, 1);
  EXPECT_LE(served, 2);  // as many as there are workers
}

}  // namespace
}  // namespace ingot
