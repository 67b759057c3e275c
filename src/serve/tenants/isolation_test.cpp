// A tenant's name reaches the prefix cache: what one has asked is never found by another. Each of these fails where the
// name is lost on the way from the key to the engine.
#include <gtest/gtest.h>

#include "serve/serving_test_support.h"

namespace ingot {
namespace {

std::shared_ptr<Caller> caller_named(const std::string& name) {
  UsageBook book;
  const auto tenant = std::make_shared<Tenant>(name, TenantRights{}, book.of(name), [] { return 0.0; });
  return std::make_shared<Caller>(std::shared_ptr<ApiKey>(new ApiKey{.tenant = tenant}), CallFacts{});
}

// Rows that the engine computed while `name` asked: what it found in its cache is missing.
int64_t rows(ToyServer& toy, const std::string& name, const std::string& path, const std::string& body) {
  const int64_t before = toy.model.engine->stats().rows;
  const HttpResponse response = toy.begin(path, body, caller_named(name))->wait();
  EXPECT_EQ(response.status, 200) << response.body;
  // The engine counts a step after its events are out.
  toy.model.engine->call([](LocalEngine&) {});
  return toy.model.engine->stats().rows - before;
}

TEST(Isolation, NoRouteFindsThePagesOfAnotherTenant) {
  const std::string text = std::string(60, 'x');
  const std::pair<const char*, std::string> requests[] = {
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":")" + text + R"("}],"max_tokens":1})"},
      {"/v1/completions", R"({"max_tokens":1,"prompt":")" + text + R"("})"},
      {"/v1/messages", R"({"messages":[{"role":"user","content":")" + text + R"(y"}],"max_tokens":1})"},
      {"/v1/embeddings", R"({"pooling":"last","input":"z)" + text + R"("})"}};
  for (const auto& [path, body] : requests) {
    ToyServer toy;
    const int64_t all = rows(toy, "alice", path, body);
    EXPECT_GE(all, 60) << path;
    EXPECT_LT(rows(toy, "alice", path, body), all / 2) << path << ": one's own";
    EXPECT_EQ(rows(toy, "bob", path, body), all) << path << ": another's";
    EXPECT_LT(rows(toy, "bob", path, body), all / 2) << path;
  }
}

}  // namespace
}  // namespace ingot
