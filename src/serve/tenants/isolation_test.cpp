// A tenant's name reaches the prefix cache: what one has asked is never found by another. Fails where the name is lost
// on the way from the key in a header to the engine, on any route that generates.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "serve/routes.h"
#include "serve/server.h"
#include "serve/serving_test_support.h"

namespace ingot {
namespace {

struct Asked {
  std::string body;
  bool reuses = true;  // finds what it has asked before; vectors that are means read the whole text again
};

// A request to each route that generates, of 60 letters and more that are its own.
std::map<std::string, Asked> requests() {
  const std::string text = std::string(60, 'x');
  const std::string messages = R"({"messages":[{"role":"user","content":")" + text + R"("}],)";
  return {{"/v1/chat/completions", {messages + R"("max_tokens":1})"}},
          {"/v1/completions", {R"({"max_tokens":1,"prompt":")" + text + R"("})"}},
          {"/v1/responses", {R"({"max_output_tokens":1,"input":")" + text + R"("})"}},
          {"/v1/messages", {messages + R"("max_tokens":1})"}},
          {"/v1/embeddings", {R"({"pooling":"last","input":")" + text + R"("})"}},
          {"/api/chat", {messages + R"("options":{"num_predict":1}})"}},
          {"/api/generate", {R"({"prompt":")" + text + R"(","options":{"num_predict":1}})"}},
          {"/api/embed", {R"({"input":")" + text + R"("})", false}},
          {"/api/embeddings", {R"({"prompt":")" + text + R"("})", false}}};
}

// A server of two tenants.
class Isolation : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ingot-isolation-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    std::ofstream(directory_ + "/keys") << "alice alice-key-1\nbob bob-key-001\n";
    ServerOptions options;
    options.http.port = 0;
    options.log.path = "off";
    options.keys.file = directory_ + "/keys";
    server_ = std::make_unique<Server>(options);
    server_->set_model(toy_.model);
  }
  void TearDown() override {
    toy_.expect_idle();
    server_->context().workers.stop();
    server_->context().streams.stop();
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  // Rows that the engine computes for the request: what it found in its cache is missing.
  int64_t rows(const std::string& key, const std::string& path, const std::string& body) {
    const int64_t before = toy_.model.engine->stats().rows;
    const auto responder = std::make_shared<TestResponder>();
    HttpRequest request;
    request.head.method = "POST";
    request.head.path = path;
    request.head.headers = {{"host", "localhost:1"}, {"authorization", "Bearer " + key}};
    request.body = body;
    server_->handle(std::move(request), responder);
    const HttpResponse response = responder->wait();
    EXPECT_EQ(response.status, 200) << path << response.body;
    // The engine counts a step after its events are out.
    toy_.model.engine->call([](LocalEngine&) {});
    return toy_.model.engine->stats().rows - before;
  }

  void expect_apart(const std::string& path, const Asked& asked) {
    const int64_t all = rows("alice-key-1", path, asked.body);
    EXPECT_GE(all, 60) << path;
    EXPECT_EQ(rows("bob-key-001", path, asked.body), all) << path << ": another's";
    if (!asked.reuses) return;
    for (const char* key : {"alice-key-1", "bob-key-001"}) {
      EXPECT_LT(rows(key, path, asked.body), all / 2) << path << ": one's own";
    }
  }

 private:
  ToyServer toy_;
  std::string directory_;
  std::unique_ptr<Server> server_;
};

// Each on a server of its own: two routes may make the same prompt of the same text.
class IsolationOfRoute : public Isolation, public testing::WithParamInterface<std::string> {};

TEST_P(IsolationOfRoute, AnothersPagesAreNotFound) { expect_apart(GetParam(), requests().at(GetParam())); }

std::vector<std::string> paths() {
  std::vector<std::string> list;
  for (const auto& [path, asked] : requests()) list.push_back(path);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Routes, IsolationOfRoute, testing::ValuesIn(paths()), [](const auto& param) {
  std::string name = param.param;
  std::erase_if(name, [](char c) { return c == '/' || c == '_'; });
  return name;
});

TEST(IsolationRoutes, EveryOneThatGeneratesIsTried) {
  const std::map<std::string, Asked> asked = requests();
  size_t generating = 0;
  for (const Route& route : routes()) {
    if (!route.generates) continue;
    ++generating;
    EXPECT_TRUE(asked.contains(route.path)) << route.path;
  }
  EXPECT_EQ(generating, asked.size());
}

}  // namespace
}  // namespace ingot
