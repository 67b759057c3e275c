// Clients that read slowly or not at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/http/http.h"
#include "serve/http/http_test_support.h"
#include "serve/process_facts.h"

namespace ingot {
namespace {

TEST(HttpReaders, AReaderThatTakesNothingIsCutByTheAmountUnsent) {
  HeldRequests held;
  HttpOptions options;
  options.limits.unsent_bytes = 256 << 10;
  RunningServer server(held.callbacks(), options);
  RawClient client(server.port(), 4096);
  client.send(kGet);
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  responder->start(plain_text(""));
  size_t most = 0;
  const std::string piece(1000, 'a');
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 100 && held.gone == 0; ++i) {
      responder->write(piece);
      most = std::max(most, responder->unsent());
    }
    return held.gone == 1;
  }));
  EXPECT_LE(most, 4 * options.limits.unsent_bytes + 2 * piece.size());
  EXPECT_EQ(server->counters().stalled, 1);
  EXPECT_TRUE(responder->closed());
}

TEST(HttpReaders, AReaderThatStandsStillIsCutAtTheLimit) {
  HeldRequests held;
  HttpOptions options;
  options.limits.unsent_bytes = 256 << 10;
  options.limits.write_seconds = 3600;
  RunningServer server(held.callbacks(), options);
  RawClient client(server.port(), 4096);
  client.send(kGet);
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  responder->start(plain_text(""));
  size_t most = 0;
  const std::string piece(1000, 'a');
  EXPECT_TRUE(eventually([&] {
    // Beyond the limit as slowly as tokens come.
    do {
      responder->write(piece);
      most = std::max(most, responder->unsent());
    } while (responder->unsent() <= options.limits.unsent_bytes && held.gone == 0);
    return held.gone == 1;
  }));
  EXPECT_LE(most, 4 * options.limits.unsent_bytes + piece.size());
  EXPECT_EQ(server->counters().stalled, 1);
}

TEST(HttpReaders, AReaderThatTakesNothingIsCutByTime) {
  HeldRequests held;
  HttpOptions options;
  options.limits.write_seconds = 0.2;
  RunningServer server(held.callbacks(), options);
  RawClient client(server.port(), 4096);
  client.send(kGet);
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  responder->send(plain_text(std::string(16 << 20, 'a')));
  EXPECT_TRUE(eventually([&] { return server->counters().stalled == 1; }));
  EXPECT_TRUE(eventually([&] { return responder->closed(); }));
  EXPECT_EQ(held.gone, 0);  // the answer had been given
  EXPECT_TRUE(eventually([&] { return server->counters().open == 0; }));
}

TEST(HttpReaders, AReaderThatIsSlowButReadsGetsAll) {
  HeldRequests held;
  HttpOptions options;
  options.limits.write_seconds = 20;
  RunningServer server(held.callbacks(), options);
  RawClient client(server.port(), 4096);
  client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  std::string body;
  for (int i = 0; body.size() < (4 << 20); ++i) body += std::to_string(i) + ",";
  responder->send(plain_text(body));
  const std::string& answer = client.read_all();
  EXPECT_TRUE(answer.ends_with(body));
  EXPECT_TRUE(eventually([&] { return responder->unsent() == 0; }));
}

// Whole answers have no other limit: they are there before anybody has read a byte. Memory is looked at meanwhile.
TEST(HttpReaders, SlowReadersOfWholeAnswersKeepToTheBudget) {
  constexpr size_t kMiB = 1 << 20;
  HeldRequests held;
  HttpOptions options;
  options.limits.answers_bytes = 32 * kMiB;
  RunningServer server(held.callbacks(), options);
  std::vector<std::unique_ptr<RawClient>> readers;
  const int64_t before = process_facts().resident_bytes;
  int64_t most = 0;
  for (size_t i = 0; i < 20; ++i) {
    readers.push_back(std::make_unique<RawClient>(server.port(), 4096));
    readers.back()->send(kGet);
    const auto responder = held.wait(i);
    ASSERT_TRUE(responder);
    responder->send(plain_text(std::string(8 * kMiB, 'a')));
    EXPECT_TRUE(eventually([&] { return server->counters().answer_bytes <= static_cast<int64_t>(32 * kMiB); }));
    most = std::max(most, process_facts().resident_bytes - before);
  }
  EXPECT_GE(server->counters().stalled, 15);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own memory is counted, too
  EXPECT_LE(most, static_cast<int64_t>(64 * kMiB));
#endif
  // One that reads gets all of it beside them.
  RawClient honest(server.port());
  honest.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const auto responder = held.wait(20);
  ASSERT_TRUE(responder);
  responder->send(plain_text(std::string(8 * kMiB, 'h')));
  EXPECT_TRUE(honest.read_all().ends_with(std::string(8 * kMiB, 'h')));
}

TEST(HttpReaders, WhatIsReadOfALargeAnswerIsGivenBack) {
  constexpr size_t kMiB = 1 << 20;
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  std::string body(24 * kMiB, 'a');
  body.replace(16 * kMiB, 5, "third");
  responder->send(plain_text(body));
  client.read_until("third");
  EXPECT_TRUE(eventually([&] { return server->counters().answer_bytes <= static_cast<int64_t>(12 * kMiB); }));
  EXPECT_TRUE(client.read_all().ends_with(body));
  EXPECT_EQ(server->counters().answer_bytes, 0);
}

TEST(HttpReaders, StreamsAndWholeAnswersShareTheBudget) {
  HeldRequests held;
  HttpOptions options;
  options.limits.answers_bytes = 1 << 20;
  options.limits.write_seconds = 3600;
  RunningServer server(held.callbacks(), options);
  std::vector<std::unique_ptr<RawClient>> readers;
  std::vector<std::shared_ptr<Responder>> streams;
  for (size_t i = 0; i < 8; ++i) {
    readers.push_back(std::make_unique<RawClient>(server.port(), 4096));
    readers.back()->send(kGet);
    streams.push_back(held.wait(i));
    ASSERT_TRUE(streams.back());
    streams.back()->start(plain_text(""));
  }
  // Each within the limit of a stream, and all together far beyond what may wait.
  const std::string piece(1000, 'a');
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 100; ++i) {
      for (const auto& stream : streams) {
        if (!stream->closed() && stream->unsent() < options.limits.unsent_bytes) stream->write(piece);
      }
    }
    return server->counters().stalled >= 5;
  }));
  EXPECT_TRUE(eventually([&] { return server->counters().answer_bytes <= (1 << 20); }));
}

// The slowest of all is not the one that goes, while another key has more than its share.
TEST(HttpReaders, AKeyThatKeepsWithinItsShareLosesNoReaderToOthers) {
  constexpr size_t kMiB = 1 << 20;
  HeldRequests held;
  HttpOptions options;
  options.limits.answers_bytes = 16 * kMiB;
  options.limits.write_seconds = 3600;
  HttpCallbacks callbacks = held.callbacks();
  callbacks.admit = [](const HttpHead& head) { return HttpAdmission{.payer = std::string(head.header("x-key"))}; };
  RunningServer server(callbacks, options);
  size_t asked = 0;
  const auto ask = [&](const std::string& key, size_t bytes) {
    auto client = std::make_unique<RawClient>(server.port(), 4096);
    client->send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Key: " + key + "\r\n\r\n");
    const auto responder = held.wait(asked++);
    EXPECT_TRUE(responder);
    if (responder) responder->send(plain_text(std::string(bytes, key[0])));
    return client;
  };
  const auto alice = ask("alice", 4 * kMiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // from here on she is known to be slow
  std::vector<std::unique_ptr<RawClient>> mallory;
  for (int i = 0; i < 10; ++i) mallory.push_back(ask("mallory", 3 * kMiB));
  EXPECT_TRUE(eventually([&] { return server->counters().answer_bytes <= static_cast<int64_t>(16 * kMiB); }));
  EXPECT_GE(server->counters().stalled, 5);
  EXPECT_TRUE(alice->read_all().ends_with(std::string(4 * kMiB, 'a')));
}

TEST(HttpReaders, AReaderHasAMinimumRate) {
  HeldRequests held;
  HttpOptions options;
  options.limits.write_seconds = 0.5;
  options.limits.min_rate = 8 << 20;
  RunningServer server(held.callbacks(), options);
  RawClient client(server.port(), 4096);
  client.send(kGet);
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  const auto began = std::chrono::steady_clock::now();
  responder->send(plain_text(std::string(32 << 20, 'a')));
  // It never stands still, and would hold its answer for minutes.
  char room[2048];
  EXPECT_TRUE(eventually([&] {
    (void)!::recv(client.fd(), room, sizeof(room), MSG_DONTWAIT);
    return server->counters().stalled == 1;
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
  EXPECT_EQ(server->counters().answer_bytes, 0);
}

}  // namespace
}  // namespace ingot
