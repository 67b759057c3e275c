// A server with a file of keys around a toy model, without sockets in between.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/http/http_test_support.h"
#include "serve/server.h"
#include "serve/serving_test_support.h"

namespace ingot {

class ServerTenants : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ingot-tenants-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory = pattern;
  }
  // As in the program nothing of a request outlives the server: the engine has let go of all, then the workers have.
  void TearDown() override {
    toy.expect_idle();
    if (server) {
      server->context().workers.stop();
      server->context().streams.stop();
    }
    server.reset();
    std::filesystem::remove_all(directory);
  }
  void write(const std::string& text) {
    std::ofstream(directory + "/new") << text;
    std::filesystem::rename(directory + "/new", directory + "/keys");
  }
  void serve(const std::string& keys, ServerOptions options = {}) {
    write(keys);
    options.http.port = 0;
    options.log.path = "off";
    options.keys.file = directory + "/keys";
    server = std::make_unique<Server>(options);
    server->set_model(toy.model);
  }
  static HttpHead head_of(const std::string& key, std::string path, std::string method = "POST") {
    HttpHead head;
    head.method = std::move(method);
    head.path = std::move(path);
    head.headers = {{"host", "localhost:1"}, {"authorization", "Bearer " + key}};
    head.id = "req-1";
    return head;
  }
  // What check() says before a body is read; 0: go on.
  int check(const std::string& key, std::string path, std::string method = "POST") {
    const std::optional<HttpResponse> response = server->check(head_of(key, std::move(path), std::move(method)));
    return response ? response->status : 0;
  }
  std::shared_ptr<TestResponder> begin(const std::string& key, std::string path, std::string body,
                                       std::string method = "POST") {
    auto to = std::make_shared<TestResponder>();
    server->handle({.head = head_of(key, std::move(path), std::move(method)), .body = std::move(body)}, to);
    return to;
  }
  HttpResponse call(const std::string& key, std::string path, std::string body, std::string method = "POST") {
    return begin(key, std::move(path), std::move(body), std::move(method))->wait();
  }
  static std::string header(const HttpResponse& response, std::string_view name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return "";
  }
  static std::string completion(int tokens) {
    return "{\"prompt\":\"a\",\"ignore_eos\":true,\"max_tokens\":" + std::to_string(tokens) + "}";
  }

  UsageNumbers used(const std::string& name) {
    for (const TenantUsage& tenant : server->context().keys.book().tenants()) {
      if (tenant.name == name) return tenant.numbers;
    }
    return {};
  }
  // Of the usage log, once there are so many.
  std::vector<JsonObject> usage_lines(size_t count) {
    std::vector<JsonObject> lines;
    (void)eventually([&] {
      lines.clear();
      std::ifstream file(directory + "/usage");
      for (std::string line; std::getline(file, line);) lines.push_back(parse_json(line, "line").as_object());
      return lines.size() >= count;
    });
    return lines;
  }

  // The engine makes no step until the gate is opened: what comes meanwhile waits for sure.
  std::thread stand_still(std::promise<void>& gate) {
    const auto standing = std::make_shared<std::promise<void>>();
    std::thread stop([this, standing, open = gate.get_future().share()] {
      toy.model.engine->call([&](LocalEngine&) {
        standing->set_value();
        open.wait();
      });
    });
    standing->get_future().wait();
    return stop;
  }

  ToyServer toy;
  std::string directory;
  std::unique_ptr<Server> server;
};

}  // namespace ingot
