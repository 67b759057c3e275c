// More connections than there are places: who gives way, who is told, and that probes are answered.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/http/http.h"
#include "serve/http/http_test_support.h"

namespace ingot {
namespace {

constexpr const char* kQuick = "GET /quick HTTP/1.1\r\nHost: h\r\n\r\n";
using Clients = std::vector<std::unique_ptr<RawClient>>;

HttpOptions with_places(int places) {
  HttpOptions options;
  options.limits.connections = places;
  return options;
}

// "/quick" is a probe.
HttpCallbacks with_probe(HeldRequests& held) {
  HttpCallbacks callbacks = held.callbacks();
  callbacks.admit = [](const HttpHead& head) { return HttpAdmission{.probe = head.path == "/quick"}; };
  return callbacks;
}

bool is_served(RawClient& client) {
  client.forget();
  client.send(kQuick);
  return client.read_until("\r\n\r\nquick").starts_with("HTTP/1.1 200 ");
}

TEST(HttpCrowd, TheLongestIdleConnectionGivesWay) {
  HeldRequests held;
  RunningServer server(held.callbacks(), with_places(3));
  Clients clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(eventually([&] { return server->counters().open == i + 1; }));
  }
  ASSERT_TRUE(is_served(*clients[0]));  // from here on it is the shortest idle one
  RawClient fourth(server.port());
  EXPECT_TRUE(is_served(fourth));
  EXPECT_EQ(clients[1]->read_all(), "");
  EXPECT_TRUE(clients[1]->ended());
  EXPECT_TRUE(is_served(*clients[0]));
  EXPECT_TRUE(is_served(*clients[2]));
  EXPECT_EQ(server->counters().gave_way, 1);
  EXPECT_EQ(server->counters().refused, 0);
  EXPECT_EQ(server->counters().open, 3);
}

TEST(HttpCrowd, AnAnswerInFlightDoesNotGiveWay) {
  HeldRequests held;
  RunningServer server(held.callbacks(), with_places(2));
  RawClient busy(server.port());
  busy.send(kGet);
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  for (int i = 0; i < 20; ++i) {
    RawClient other(server.port());
    EXPECT_TRUE(is_served(other));
  }
  responder->send(plain_text("kept"));
  EXPECT_NE(busy.read_until("kept").find("200 OK"), std::string::npos);
}

// A head that was begun and does not come to its end is as good as none.
TEST(HttpCrowd, HeadsThatDoNotEndGiveWayToo) {
  HeldRequests held;
  RunningServer server(held.callbacks(), with_places(4));
  Clients clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send("GET / HTTP/1.1\r\nX: ");
  }
  ASSERT_TRUE(eventually([&] { return server->counters().bytes_in == 4 * 19; }));
  RawClient honest(server.port());
  EXPECT_TRUE(is_served(honest));
  EXPECT_EQ(server->counters().gave_way, 1);
}

// All who have no key are one, whatever they do: send a body, or read an answer. None of these is slow enough yet to be
// cut for that alone (5 s): an attempt that took too long on a busy machine says nothing.
TEST(HttpCrowd, YoungReadersWithoutAKeyGiveWayToo) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    HeldRequests held;
    HttpCallbacks callbacks = held.callbacks();
    callbacks.admit = [](const HttpHead& head) { return HttpAdmission{.payer = std::string(head.header("x-key"))}; };
    RunningServer server(callbacks, with_places(8));
    const auto began = std::chrono::steady_clock::now();
    RawClient named(server.port());
    named.send("POST / HTTP/1.1\r\nHost: h\r\nX-Key: alice\r\nContent-Length: 5\r\n\r\nab");
    ASSERT_TRUE(eventually([&] { return server->counters().body_bytes == 2; }));
    Clients readers;
    for (size_t i = 0; i < 7; ++i) {
      readers.push_back(std::make_unique<RawClient>(server.port(), 4096));
      readers.back()->send(kGet);
      const auto responder = held.wait(i);
      ASSERT_TRUE(responder);
      responder->send(plain_text(std::string(4 << 20, 'a')));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    RawClient honest(server.port());
    const bool served = is_served(honest);
    if (std::chrono::steady_clock::now() - began > std::chrono::milliseconds(4500)) continue;
    EXPECT_TRUE(served);
    EXPECT_EQ(server->counters().gave_way, 1);
    EXPECT_EQ(server->counters().refused, 0);
    named.send("cde");  // who keeps within its share loses nothing
    EXPECT_TRUE(held.wait(7));
    return;
  }
  GTEST_SKIP() << "the machine is too busy: no attempt was made within 4.5 s";
}

// A head that is refused at once has a payer, too: the one before it on this connection is another.
// Requests that wait for an answer are not cut, but whose they are counts: the key that fills the places with them and
// a few young bodies gives up one of these.
TEST(HttpCrowd, AKeyWithMoreThanHalfOfThePlacesMakesRoom) {
  HeldRequests held;
  HttpCallbacks callbacks = held.callbacks();
  callbacks.admit = [](const HttpHead& head) { return HttpAdmission{.payer = std::string(head.header("x-key"))}; };
  RunningServer server(callbacks, with_places(8));
  Clients clients;
  for (size_t i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send("GET / HTTP/1.1\r\nHost: h\r\nX-Key: mallory\r\n\r\n");
    ASSERT_TRUE(held.wait(i));
  }
  for (int64_t i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send("POST / HTTP/1.1\r\nHost: h\r\nX-Key: mallory\r\nContent-Length: 5\r\n\r\nab");
    ASSERT_TRUE(eventually([&] { return server->counters().body_bytes == 2 * (i + 1); }));
  }
  RawClient honest(server.port());
  EXPECT_TRUE(is_served(honest));
  EXPECT_EQ(server->counters().gave_way, 1);
  EXPECT_EQ(server->counters().refused, 0);
}

TEST(HttpCrowd, APayerIsThatOfTheRequestThatCameLast) {
  HeldRequests held;
  HttpCallbacks callbacks = held.callbacks();
  callbacks.admit = [](const HttpHead& head) {
    HttpAdmission admission{.payer = std::string(head.header("x-key"))};
    if (head.path == "/refused") admission.answer = plain_text(std::string(4 << 20, 'r'), 401);
    return admission;
  };
  for (int attempt = 0; attempt < 5; ++attempt) {
    RunningServer server(callbacks, with_places(8));
    const auto began = std::chrono::steady_clock::now();
    Clients readers;
    for (int i = 0; i < 8; ++i) {
      readers.push_back(std::make_unique<RawClient>(server.port(), 4096));
      // Each by another name first: so nobody would have a quarter.
      readers.back()->send("GET /quick HTTP/1.1\r\nHost: h\r\nX-Key: k" + std::to_string(i) + "\r\n\r\n");
      readers.back()->read_until("\r\n\r\nquick");
      readers.back()->send("GET /refused HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    RawClient honest(server.port());
    const bool served = is_served(honest);
    if (std::chrono::steady_clock::now() - began > std::chrono::milliseconds(4500)) continue;
    EXPECT_TRUE(served);
    EXPECT_EQ(server->counters().gave_way, 1);
    return;
  }
  GTEST_SKIP() << "the machine is too busy: no attempt was made within 4.5 s";
}

TEST(HttpCrowd, MoreThanAThousandIdleSocketsKeepNobodyOut) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit before = files;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 4096) GTEST_SKIP() << "2,400 descriptors are needed, there are " << files.rlim_cur;
  {
    HeldRequests held;
    RunningServer server(with_probe(held));
    Clients clients;
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 1100; ++i) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      ASSERT_TRUE(clients.back()->connected());
    }
    ASSERT_TRUE(eventually([&] { return server->counters().accepted == 1100; }));
    EXPECT_EQ(server->counters().open, 1024);
    EXPECT_EQ(server->counters().gave_way, 76);
    for (int i = 0; i < 5; ++i) {
      RawClient honest(server.port());
      EXPECT_TRUE(is_served(honest));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
    EXPECT_EQ(server->counters().refused, 0);
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(HttpCrowd, ANewConnectionHasSecondsToItsFirstByte) {
  HeldRequests held;
  HttpOptions options;
  options.limits.header_seconds = 0.3;
  options.limits.idle_seconds = 3600;
  RunningServer server(held.callbacks(), options);
  RawClient silent(server.port()), used(server.port());
  ASSERT_TRUE(is_served(used));
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(is_served(used));  // between requests it may rest for longer
}

TEST(HttpCrowd, ProbesAreAnsweredThoughAllPlacesAreTaken) {
  HeldRequests held;
  RunningServer server(with_probe(held), with_places(3));
  Clients busy, silent;
  for (size_t i = 0; i < 3; ++i) {
    busy.push_back(std::make_unique<RawClient>(server.port()));
    busy.back()->send(kGet);
    ASSERT_TRUE(held.wait(i));
  }
  // More than there are places beyond the limit.
  for (int i = 0; i < 200; ++i) silent.push_back(std::make_unique<RawClient>(server.port()));
  RawClient probe(server.port()), other(server.port());
  probe.send(kQuick);
  const std::string& answer = probe.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_NE(answer.find("connection: close"), answer.npos);
  other.send(kGet);
  EXPECT_TRUE(other.read_all().starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(silent.back()->read_all().starts_with("HTTP/1.1 503 "));  // after seconds of silence
  EXPECT_EQ(held.gone, 0);
}

TEST(HttpCrowd, AnAddressHasItsLimitAndHeadersDoNotChangeIt) {
  HeldRequests held;
  HttpOptions options = with_places(10);
  options.limits.address_connections = 2;
  RunningServer server(held.callbacks(), options);
  RawClient first(server.port()), second(server.port());
  first.send(kGet);
  second.send(kGet);
  ASSERT_TRUE(held.wait(1));
  RawClient third(server.port());
  third.send("GET /quick HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.9\r\nForwarded: for=10.0.0.9\r\n\r\n");
  EXPECT_TRUE(third.read_all().starts_with("HTTP/1.1 503 "));
  RawClient elsewhere(server.port(), std::string("127.0.0.2"));
  ASSERT_TRUE(elsewhere.connected());
  EXPECT_TRUE(is_served(elsewhere));
  // Its own idle connection gives way, and not another's.
  held.wait(0)->send(plain_text("done"));
  first.read_until("done");
  RawClient fourth(server.port());
  EXPECT_TRUE(is_served(fourth));
  EXPECT_TRUE(is_served(elsewhere));
  EXPECT_EQ(server->counters().gave_way, 1);
}

TEST(HttpCrowd, AUnixSocketHasNoLimitOfAnAddress) {
  HeldRequests held;
  HttpOptions options;
  options.unix_socket = "/tmp/ingot-crowd-" + std::to_string(::getpid());
  options.limits.address_connections = 1;
  RunningServer server(held.callbacks(), options);
  for (size_t i = 0; i < 3; ++i) {
    RawClient client(options.unix_socket);
    client.send(kGet);
    ASSERT_TRUE(held.wait(i));
    RawClient other(options.unix_socket);
    EXPECT_TRUE(is_served(other));
  }
}

}  // namespace
}  // namespace ingot
