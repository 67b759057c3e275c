// The room for bodies: who may send one, how fast, and whose goes where there are too many.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/http/http.h"
#include "serve/http/http_pace.h"
#include "serve/http/http_test_support.h"
#include "serve/process_facts.h"

namespace ingot {
namespace {

using Clients = std::vector<std::unique_ptr<RawClient>>;
constexpr size_t kMiB = 1 << 20;

std::string post(size_t length, const std::string& headers = {}) {
  return "POST / HTTP/1.1\r\nHost: h\r\n" + headers + "Content-Length: " + std::to_string(length) + "\r\n\r\n";
}

// The header `key` pays; without one there is a 401. GET reads no body.
HttpCallbacks with_payers(HeldRequests& held) {
  HttpCallbacks callbacks = held.callbacks();
  callbacks.admit = [](const HttpHead& head) {
    HttpAdmission admission{.payer = std::string(head.header("key"))};
    if (admission.payer.empty()) admission.answer = plain_text("no key", 401);
    if (head.method == "GET") admission = {.body_bytes = 0};
    return admission;
  };
  return callbacks;
}

TEST(HttpBodies, NoneIsReadWhereNoneIsWanted) {
  HeldRequests held;
  RunningServer server(with_payers(held));
  for (const char* length : {"Content-Length: 1", "Content-Length: 4194304", "Transfer-Encoding: chunked"}) {
    RawClient client(server.port());
    client.send(std::string("GET /quick HTTP/1.1\r\nHost: h\r\n") + length + "\r\n\r\n");
    const std::string& answer = client.read_all();  // at once: nothing of the body was sent
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
    EXPECT_TRUE(client.ended());
  }
  RawClient none(server.port());
  none.send("GET /quick HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(none.read_until("\r\n\r\nquick").starts_with("HTTP/1.1 200 "));
}

TEST(HttpBodies, ARouteMayReadLessThanOthers) {
  HeldRequests held;
  HttpCallbacks callbacks = held.callbacks();
  callbacks.admit = [](const HttpHead&) { return HttpAdmission{.body_bytes = 100}; };
  RunningServer server(std::move(callbacks));
  const std::string chunks = "POST /quick HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  RawClient length(server.port()), chunk(server.port()), sum(server.port()), fits(server.port());
  length.send(post(101));
  chunk.send(chunks + "65\r\n");
  sum.send(chunks + "64\r\n" + std::string(100, 'b') + "\r\n1\r\n");
  for (RawClient* client : {&length, &chunk, &sum}) EXPECT_TRUE(client->read_all().starts_with("HTTP/1.1 413 "));
  fits.send(chunks + "64\r\n" + std::string(100, 'b') + "\r\n0\r\n\r\n");
  EXPECT_TRUE(fits.read_until("\r\n\r\nquick").starts_with("HTTP/1.1 200 "));
}

TEST(HttpBodies, WhoIsRefusedByTheHeadHoldsNothing) {
  HeldRequests held;
  HttpOptions options;
  options.limits.bodies_bytes = 200'000;
  RunningServer server(with_payers(held), options);
  Clients strangers;
  const std::string part = post(60'000) + std::string(59'999, 'b');
  for (int i = 0; i < 32; ++i) {
    strangers.push_back(std::make_unique<RawClient>(server.port()));
    strangers.back()->send(part);
  }
  ASSERT_TRUE(eventually([&] { return server->counters().bytes_in == static_cast<int64_t>(32 * part.size()); }));
  EXPECT_EQ(server->counters().body_bytes, 0);
  RawClient honest(server.port());
  honest.send(post(150'000, "key: a\r\n") + std::string(150'000, 'b'));
  EXPECT_TRUE(held.wait());
  // Once the last byte is there, the connection goes on.
  strangers[0]->send("b");
  strangers[0]->read_until("no key");
  strangers[0]->forget();
  strangers[0]->send("GET /quick HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(strangers[0]->read_until("\r\n\r\nquick").starts_with("HTTP/1.1 200 "));
}

TEST(HttpBodies, AFullRoomDropsTheSlowest) {
  HeldRequests held;
  HttpOptions options;
  options.limits.bodies_bytes = 1'000'000;
  RunningServer server(held.callbacks(), options);
  Clients stalled;
  for (int i = 0; i < 10; ++i) {
    stalled.push_back(std::make_unique<RawClient>(server.port()));
    stalled.back()->send(post(100'000) + std::string(99'999, 'b'));
  }
  ASSERT_TRUE(eventually([&] { return server->counters().body_bytes == 999'990; }));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  for (size_t i = 0; i < 3; ++i) {
    RawClient honest(server.port());
    honest.send(post(300'000) + std::string(300'000, 'b'));
    ASSERT_TRUE(held.wait(i));
    held.wait(i)->send(plain_text("taken"));
    EXPECT_TRUE(honest.read_until("taken").starts_with("HTTP/1.1 200 "));
  }
  EXPECT_LE(server->counters().body_bytes, 1'000'000);
  int dropped = 0;
  for (const auto& client : stalled) {
    client->shutdown_send();
    dropped += client->read_all().starts_with("HTTP/1.1 503 ");
  }
  EXPECT_EQ(dropped, 3);  // as many as made the room; the others ended early by themselves
}

TEST(HttpBodies, WhoKeepsWithinItsShareLosesNothingToOthers) {
  HeldRequests held;
  HttpOptions options;
  options.limits.bodies_bytes = 1'000'000;
  RunningServer server(with_payers(held), options);
  // The slowest of all, but of a payer that has little.
  RawClient modest(server.port());
  modest.send(post(200'000, "key: modest\r\n") + std::string(199'999, 'b'));
  ASSERT_TRUE(eventually([&] { return server->counters().body_bytes == 199'999; }));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  Clients greedy;
  for (int i = 0; i < 20; ++i) {
    greedy.push_back(std::make_unique<RawClient>(server.port()));
    greedy.back()->send(post(100'000, "key: greedy\r\n") + std::string(99'999, 'b'));
  }
  ASSERT_TRUE(eventually([&] { return server->counters().bad_requests >= 12; }));
  EXPECT_LE(server->counters().body_bytes, 1'000'000);
  modest.send("b");
  ASSERT_TRUE(held.wait());
  held.wait()->send(plain_text("taken"));
  EXPECT_TRUE(modest.read_until("taken").starts_with("HTTP/1.1 200 "));
}

TEST(HttpBodies, ABodyHasAMinimumRate) {
  HeldRequests held;
  HttpOptions options;
  options.limits.body_seconds = 3600;
  options.limits.rate_seconds = 0.5;
  options.limits.min_rate = 100'000;
  RunningServer server(held.callbacks(), options);
  const auto began = std::chrono::steady_clock::now();
  RawClient front(server.port()), trickle(server.port());
  front.send(post(4 * kMiB) + std::string(4 * kMiB - 1, 'b'));  // what came long ago does not help
  std::atomic<bool> stop = false;
  std::thread dripping([&] {
    trickle.send(post(4 * kMiB));
    while (!stop && trickle.send("a")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  for (RawClient* client : {&front, &trickle}) {
    EXPECT_TRUE(client->read_until("too slowly").starts_with("HTTP/1.1 408 "));
  }
  stop = true;
  dripping.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
  EXPECT_EQ(server->counters().timeouts, 2);
}

// Memory while they are there, not after.
TEST(HttpBodies, ManyShapesOfBodiesKeepToTheRoom) {
  HeldRequests held;
  HttpOptions options;
  options.limits.bodies_bytes = 16 * kMiB;
  RunningServer server(with_payers(held), options);
  const std::string mine = "key: a\r\n";
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nkey: a\r\n\r\n";
  std::string tiny = chunked;
  for (int i = 0; i < 200'000; ++i) tiny += "1\r\nb\r\n";
  const std::vector<std::string> shapes = {
      post(4 * kMiB, mine) + std::string(4 * kMiB - 1, 'b'),        // one byte missing
      post(4 * kMiB) + std::string(kMiB, 'b'),                      // no key
      chunked + "3fffff\r\n" + std::string(3 * kMiB, 'b'),          // one large chunk
      tiny,                                                         // more framing than content
      "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(kMiB, 'x'),  // a head without end
      "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n" + std::string(4 * kMiB, 'b'),
  };
  const int64_t before = process_facts().resident_bytes;
  Clients clients;
  int64_t most = 0;
  for (int round = 0; round < 8; ++round) {
    for (const std::string& shape : shapes) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      clients.back()->send(shape);  // as far as it is taken
      EXPECT_LE(server->counters().body_bytes, static_cast<int64_t>(options.limits.bodies_bytes));
      most = std::max(most, process_facts().resident_bytes - before);
    }
  }
  RawClient honest(server.port());
  honest.send(post(kMiB, "key: b\r\n") + std::string(kMiB, 'b'));
  EXPECT_TRUE(held.wait());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own memory is counted, too
  // The room, as much again where strings grow, and the allocator's rest.
  EXPECT_LE(most, static_cast<int64_t>(64 * kMiB));
#endif
}

TEST(HttpPace, WhatMovedLongAgoDoesNotHelp) {
  const HttpPace::Clock::time_point start{};
  const auto at = [&](double seconds) {
    return start + std::chrono::duration_cast<HttpPace::Clock::duration>(std::chrono::duration<double>(seconds));
  };
  HttpPace hoarder, steady;
  hoarder.begin(start, HttpPace::kBodyCredit);
  steady.begin(start, HttpPace::kBodyCredit);
  hoarder.moved(4 * kMiB, start);
  for (int i = 1; i <= 100; ++i) steady.moved(2000, at(0.1 * i));  // 20 kB a second
  EXPECT_GT(hoarder.seconds_for(4 * kMiB, at(10)), 1000);
  EXPECT_LT(steady.seconds_for(200'000, at(10)), 20);
  EXPECT_TRUE(hoarder.keeps(5, 1000, at(6)));    // in the first window it moved all
  EXPECT_FALSE(hoarder.keeps(5, 1000, at(12)));  // in the second nothing
  EXPECT_TRUE(steady.keeps(10, 1000, at(10)));
  EXPECT_FALSE(steady.keeps(10, 1000, at(20)));
}

}  // namespace
}  // namespace ingot
