// What waits at the server: how much of it its tenant may hold, and what becomes of it when its key goes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "serve/routes.h"
#include "serve/server_tenants_test_support.h"

namespace ingot {
namespace {

class ServerWaiting : public ServerTenants {};

// Short bodies of long prompts: what waits is held several times, here and in the engine.
TEST_F(ServerWaiting, WhatWaitsHoldsNoMoreThanItsShareOfARoom) {
  ServerOptions options;
  options.http.limits.bodies_bytes = 16 << 10;
  serve("a a-key-001\nb b-key-001\n", options);
  const auto asks = [](size_t length, int choices) {
    return fmt::format(R"({{"prompt":"{}","max_tokens":1,"echo":true,"n":{}}})", std::string(length, 'x'), choices);
  };
  const std::string never = call("a-key-001", "/v1/completions", asks(250, 16)).body;
  EXPECT_NE(never.find("at most 8192 are allowed"), std::string::npos) << never;
  EXPECT_EQ(call("a-key-001", "/v1/completions", R"({"logprobs":5,)" + asks(200, 1).substr(1)).status, 400) << "scores";
  std::promise<void> gate;
  std::thread stop = stand_still(gate);
  std::vector<std::shared_ptr<TestResponder>> all;
  const auto answered = [&] { return std::ranges::count_if(all, [](const auto& to) { return to->answers() > 0; }); };
  for (int i = 0; i < 8; ++i) all.push_back(begin("a-key-001", "/v1/completions", asks(200, 1)));
  // 2.8 KB each: three of a, since a fourth would leave less than a has.
  EXPECT_TRUE(eventually([&] { return answered() == 5; })) << answered();
  EXPECT_EQ(call("a-key-001", "/v1/embeddings", R"({"input":")" + std::string(200, 'x') + R"("})").status, 503);
  all.push_back(begin("b-key-001", "/v1/completions", asks(200, 1)));
  gate.set_value();
  stop.join();
  const auto served = std::ranges::count_if(all, [](const auto& to) { return to->wait().status == 200; });
  EXPECT_EQ(served, 4) << "three of a, and b's";
  EXPECT_TRUE(eventually([&] { return server->context().requests.held() == 0; }));
}

// Also while it waits for the compiler of its grammar, before the engine has it.
TEST_F(ServerWaiting, WhatWaitsForItsGrammarHoldsRoomToo) {
  serve("a a-key-001\nb b-key-001\n");
  std::string choices;  // more than CompileWork::kShortSteps
  for (int i = 0; i < 3000; ++i) choices += fmt::format("{}\"{:024}\"", i > 0 ? "," : "", i * 7919);
  const std::string ask = fmt::format(R"({{"prompt":"{}","max_tokens":1,"echo":true,"guided_choice":[{}]}})",
                                      std::string(200, 'x'), choices);
  std::promise<void> gate, stands;
  const JobCost large{.payer = "b", .bytes = Workers::kLargeBytes + 1};
  const auto stand = [&stands, open = gate.get_future().share()] {
    stands.set_value();
    open.wait();
  };
  ASSERT_TRUE(server->context().workers.post(stand, large));
  stands.get_future().wait();  // payers take turns: who comes while it only waits may go first
  std::vector<std::shared_ptr<TestResponder>> all;
  for (int i = 0; i < 3; ++i) all.push_back(begin("a-key-001", "/v1/completions", ask));
  EXPECT_TRUE(eventually([&] { return server->context().requests.held() > 3 * 2500; }));
  EXPECT_EQ(used("a").completion_tokens, 0) << "none has begun";
  for (const auto& to : all) EXPECT_EQ(to->answers(), 0);
  all.back()->close();
  gate.set_value();
  EXPECT_EQ(all[0]->wait().status, 200);
  EXPECT_EQ(all[1]->wait().status, 200);
  EXPECT_TRUE(eventually([&] { return server->context().requests.held() == 0; })) << "of who has gone, too";
}

// A key that goes after it was looked up and before its request is in flight, where whoever revokes it does not see it.
TEST_F(ServerWaiting, AKeyThatGoesWhileItsRequestEntersIsRefused) {
  serve("a a-key-001\nb b-key-001\n");
  const HttpHead head = head_of("a-key-001", "/v1/completions");
  std::shared_ptr<const ApiKey> key = server->context().keys.find(head);
  ASSERT_TRUE(key);
  write("b b-key-001\n");
  server->reload_keys(false);
  const auto to = std::make_shared<TestResponder>();
  server->take_in(*find_route(head.method, head.path).route, {.head = head, .body = completion(4)}, std::move(key), to);
  EXPECT_EQ(to->wait().status, 401);
  EXPECT_EQ(server->in_flight(), 0);
}

TEST_F(ServerWaiting, ARemovedKeyEndsWhatWaitsAndLeavesWhatRuns) {
  serve("a a-key-001\nb b-key-001\n");
  const auto running =
      begin("a-key-001", "/v1/completions", R"({"prompt":"a","ignore_eos":true,"max_tokens":200,"stream":true})");
  running->wait_for_writes(2);
  std::promise<void> gate;
  std::thread stop = stand_still(gate);
  const auto waiting = begin("a-key-001", "/v1/completions", completion(4));
  const auto neighbour = begin("b-key-001", "/v1/completions", completion(4));
  write("b b-key-001\n");
  server->reload_keys(false);
  const HttpResponse refused = waiting->wait();
  EXPECT_EQ(refused.status, 401);
  gate.set_value();
  stop.join();
  EXPECT_TRUE(running->wait().body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(neighbour->wait().status, 200);
  EXPECT_EQ(check("a-key-001", "/v1/models", "GET"), 401);
  // A wrong file changes nothing.
  write("b\n");
  server->reload_keys(true);
  EXPECT_EQ(check("b-key-001", "/v1/models", "GET"), 0);
  EXPECT_EQ(server->metrics().key_reload_failures.value(), 1);
}

}  // namespace
}  // namespace ingot
