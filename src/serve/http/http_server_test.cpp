#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "serve/http/http.h"
#include "serve/http/http_connection.h"
#include "serve/http/http_test_support.h"

namespace ingot {
namespace {

// Answers with what came: method, path, query and body.
HttpCallbacks echo() {
  HttpCallbacks callbacks;
  callbacks.handle = [](HttpRequest request, std::shared_ptr<Responder> responder) {
    responder->send(plain_text(request.head.method + " " + request.head.path + " ?" + request.head.query + " " +
                               std::to_string(request.body.size()) + " " + request.body.substr(0, 100)));
  };
  return callbacks;
}

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  RunningServer server(echo());
  RawClient client(server.port());
  ASSERT_TRUE(client.connected());
  for (int i = 0; i < 3; ++i) {
    client.forget();
    client.send("POST /a%20b/%zz?x=1%&y HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    const std::string& answer = client.read_until("hello");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_NE(answer.find("POST /a%20b/%zz ?x=1%&y 5 hello"), answer.npos) << answer;
    EXPECT_NE(answer.find("x-request-id: req-"), answer.npos) << answer;
    EXPECT_EQ(answer.find("connection:"), answer.npos) << answer;
  }
  EXPECT_EQ(server->counters().requests, 3);
  EXPECT_EQ(server->counters().accepted, 1);
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  RunningServer server(echo());
  RawClient client(server.port());
  std::string requests, expected;
  for (int i = 0; i < 200; ++i) {
    const std::string body = "<" + std::to_string(i) + ">";
    requests += "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  requests += "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  client.send(requests);
  const std::string& answers = client.read_all();
  EXPECT_TRUE(client.ended());
  size_t at = 0;
  for (int i = 0; i < 200; ++i) {
    const size_t found = answers.find("<" + std::to_string(i) + ">", at);
    ASSERT_NE(found, answers.npos) << i;
    at = found;
  }
  EXPECT_NE(answers.find("/last", at), answers.npos);
  EXPECT_NE(answers.find("connection: close", at), answers.npos);
}

TEST(HttpServer, PipelinedRequestsBeforeAHalfCloseAreAnswered) {
  RunningServer server(echo());
  RawClient client(server.port());
  client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
  client.shutdown_send();
  const std::string& answers = client.read_all();
  for (const char* path : {"GET /1", "GET /2", "GET /3"}) EXPECT_NE(answers.find(path), answers.npos) << answers;
}

TEST(HttpServer, StreamsFromAnotherThread) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send("GET /s HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  responder->start(plain_text("first"));
  client.read_until("first");
  std::string expected = "first";
  for (int i = 0; i < 1000; ++i) {
    responder->write("<" + std::to_string(i) + ">");
    expected += "<" + std::to_string(i) + ">";
  }
  responder->write("");  // is no end
  responder->write("end");
  responder->finish();
  responder->write("nothing follows");
  const std::string answer = client.read_until("\r\n0\r\n\r\n");
  EXPECT_NE(answer.find("transfer-encoding: chunked"), answer.npos);
  EXPECT_EQ(unchunk(answer), expected + "end");
  // The connection goes on.
  client.forget();
  client.send("GET /t HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto second = held.wait(1);
  ASSERT_TRUE(second);
  second->send(plain_text("second"));
  EXPECT_NE(client.read_until("second").find("content-length: 6"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return responder->unsent() == 0 && second->unsent() == 0; }));
}

TEST(HttpServer, AbortCutsAfterWhatWasWritten) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  responder->start(plain_text("part"));
  responder->write("error");
  responder->abort();
  const std::string& answer = client.read_all();
  EXPECT_TRUE(client.ended());
  EXPECT_NE(answer.find("error"), answer.npos);
  EXPECT_EQ(answer.find("\r\n0\r\n"), answer.npos) << answer;
}

TEST(HttpServer, ADroppedResponderIsAnsweredWith500OrCut) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(held.wait());
  held.drop();
  EXPECT_TRUE(client.read_until("internal error").starts_with("HTTP/1.1 500 "));
  RawClient other(server.port());
  other.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  held.wait()->start(plain_text("part"));
  other.read_until("part");
  held.drop();
  other.read_all();
  EXPECT_TRUE(other.ended());
}

TEST(HttpServer, AHandlerThatThrowsCostsItsRequestOnly) {
  HttpCallbacks callbacks;
  struct NoStdException {};
  callbacks.admit = [](const HttpHead& head) -> HttpAdmission {
    if (head.path == "/check") throw NoStdException{};
    return {};
  };
  callbacks.handle = [](HttpRequest request, std::shared_ptr<Responder> responder) {
    if (request.head.path == "/std") throw std::runtime_error("secret");
    if (request.head.path == "/other") throw NoStdException{};
    if (request.head.path == "/begun") {
      responder->start(plain_text("part"));
      throw NoStdException{};
    }
    responder->send(plain_text("fine"));
  };
  RunningServer server(std::move(callbacks));
  for (const char* path : {"/check", "/std", "/other"}) {
    RawClient client(server.port());
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string& answer = client.read_until("internal error");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
    EXPECT_EQ(answer.find("secret"), answer.npos);
  }
  RawClient begun(server.port());
  begun.send("GET /begun HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(begun.read_all().find("\r\n0\r\n"), std::string::npos);
  EXPECT_TRUE(begun.ended());
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(client.read_until("fine").find("200 OK"), std::string::npos);
}

TEST(HttpServer, CheckAnswersBeforeTheBodyIsRead) {
  HttpCallbacks callbacks = echo();
  callbacks.admit = [](const HttpHead& head) -> HttpAdmission {
    if (head.header("authorization").empty()) return {.answer = plain_text("no key", 401)};
    return {};
  };
  RunningServer server(std::move(callbacks));
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
  const std::string& answer = client.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 401 ")) << answer;
  EXPECT_NE(answer.find("connection: close"), answer.npos);
  EXPECT_TRUE(client.ended());
  // With a small body, or none, the connection goes on.
  RawClient other(server.port());
  other.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel");
  other.send("lo");
  EXPECT_EQ(other.read_until("no key").find("connection: close"), std::string::npos);
  other.forget();
  other.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  other.read_until("no key");
  other.forget();
  other.send("GET /x HTTP/1.1\r\nHost: h\r\nAuthorization: k\r\n\r\n");
  EXPECT_NE(other.read_until("GET /x").find("200 OK"), std::string::npos);
}

TEST(HttpServer, ContinueIsSentWhenItIsExpected) {
  RunningServer server(echo());
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  EXPECT_NE(client.read_until("hello").find("HTTP/1.1 200 OK"), std::string::npos);
}

TEST(HttpServer, HeadHasNoBody) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send(
      "HEAD /1 HTTP/1.1\r\nHost: h\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
  held.wait(0)->send(plain_text("hidden"));
  const auto streamed = held.wait(1);
  streamed->start(plain_text("hidden"));
  streamed->write("hidden");
  streamed->finish();
  held.wait(2)->send(plain_text("shown"));
  const std::string& answers = client.read_until("shown");
  EXPECT_EQ(answers.find("hidden"), answers.npos) << answers;
  EXPECT_NE(answers.find("content-length: 6"), answers.npos) << answers;
}

TEST(HttpServer, Http10ClosesUnlessAskedAndIsNeverChunked) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  held.wait(0)->send(plain_text("one"));
  EXPECT_NE(client.read_until("one").find("connection: keep-alive"), std::string::npos);
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto responder = held.wait(1);
  responder->start(plain_text("two"));
  client.read_until("two");
  responder->write("three");
  responder->finish();
  const std::string& answer = client.read_all();
  EXPECT_TRUE(client.ended());
  EXPECT_TRUE(answer.ends_with("\r\n\r\ntwothree")) << answer;
  EXPECT_EQ(answer.find("chunked"), answer.npos);
}

TEST(HttpServer, PostRunsOnTheIoThreadAndIsDroppedAtTheEnd) {
  std::atomic<int> ran = 0;
  std::atomic<bool> same = false;
  {
    RunningServer server(echo());
    std::atomic<std::thread::id> first{};
    server->post([&] { first = std::this_thread::get_id(); });
    server->post([] { throw std::runtime_error("costs nothing"); });
    server->post(
        [&] {
          same = first.load() == std::this_thread::get_id();
          ++ran;
        },
        0.01);
    EXPECT_TRUE(eventually([&] { return ran == 1; }));
    server->post([&] { ++ran; }, 3600);
  }
  EXPECT_TRUE(same);
  EXPECT_EQ(ran, 1);
}

TEST(HttpServer, AnAddressInUseIsNamed) {
  RunningServer server(echo());
  HttpOptions options;
  options.port = server.port();
  try {
    HttpServer other(options, echo());
    FAIL() << "bound twice";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("127.0.0.1:" + std::to_string(server.port())), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("in use"), std::string::npos);
  }
  EXPECT_EQ(server->address(), "http://127.0.0.1:" + std::to_string(server.port()));
  options.host = "256.1.1.1";
  EXPECT_THROW(HttpServer(options, echo()), Error);
}

TEST(HttpServer, StopBeforeRunAndNoRunAtAll) {
  HttpOptions options;
  options.port = 0;
  HttpServer never(options, echo());
  HttpServer stopped(options, echo());
  stopped.stop();
  stopped.run();
  stopped.post([] { FAIL() << "after the end"; });
}

// No memory for the first message: the connection ends there and then, and not with its deadline.
TEST(HttpServer, AConnectionThatCannotBeginEndsAtOnce) {
  struct Failing : HttpStream {
    explicit Failing(bool& closed) : closed_(closed) {}
    void start(std::function<void(HttpCode)>) override { throw std::bad_alloc(); }
    void read(size_t, std::function<void(HttpCode, std::string_view)>) override {}
    void write(const HttpBuffers&, std::function<void(HttpCode, size_t)>) override {}
    void wait_for_reset(std::function<void()>) override {}
    void shutdown_send(std::shared_ptr<void>) override {}
    void say(std::string_view) override {}
    void close() override { closed_ = true; }
    bool half_closes() const override { return true; }
    bool& closed_;
  };
  HttpCore core;
  core.places.emplace(4, 4, 0);
  boost::asio::io_context io;
  bool closed = false;
  EXPECT_NO_THROW(
      std::make_shared<HttpConnection>(core, io, std::make_unique<Failing>(closed), HttpPlaces::Place::kOrdinary, "")
          ->start());
  EXPECT_TRUE(closed);
  EXPECT_TRUE(core.connections.empty());
  EXPECT_EQ(core.counters.open, 0);
  io.run();  // nothing waits for a deadline
}

}  // namespace
}  // namespace ingot
