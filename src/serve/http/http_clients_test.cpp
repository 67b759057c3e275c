// Clients that go, flood or dawdle.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/http/http.h"
#include "serve/http/http_test_support.h"

namespace ingot {
namespace {

TEST(HttpClients, AClientThatClosesIsNoticedBeforeTheAnswer) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient closes(server.port());
  closes.send(kGet);
  const auto first = held.wait(0);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->closed());
  closes.close();
  EXPECT_TRUE(eventually([&] { return held.gone == 1; }));
  EXPECT_TRUE(first->closed());
  RawClient resets(server.port());
  resets.send(kGet);
  ASSERT_TRUE(held.wait(1));
  resets.reset();
  EXPECT_TRUE(eventually([&] { return held.gone == 2; }));
  // One that registers too late is called all the same, once.
  std::atomic<int> late = 0;
  first->on_close([&] { ++late; });
  EXPECT_TRUE(eventually([&] { return late == 1; }));
  first->send(plain_text("to nobody"));
  EXPECT_TRUE(eventually([&] { return server->counters().open == 0; }));
  EXPECT_EQ(held.gone, 2);
}

TEST(HttpClients, AClientThatClosesIsNoticedWhileStreaming) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send(kGet);
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  responder->start(plain_text("begin"));
  client.read_until("begin");
  client.close();
  EXPECT_TRUE(eventually([&] {
    responder->write("token");
    return held.gone == 1;
  }));
  EXPECT_TRUE(responder->closed());
}

TEST(HttpClients, AHalfClosedClientGetsItsAnswer) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send(kGet);
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  client.shutdown_send();
  // The server asks whether anybody is there.
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  responder->start(plain_text("here "));
  client.read_until("here ");
  responder->write("it is");
  responder->finish();
  const std::string& answer = client.read_all();
  EXPECT_NE(answer.find("it is"), answer.npos);
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(held.gone, 0);
}

TEST(HttpClients, AClientThatFloodsWhileItWaitsIsNotReadAndIsNoticedWhenItGoes) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient client(server.port());
  client.send(kGet);
  ASSERT_TRUE(held.wait());
  // Far more than a server reads ahead, so a sender must come to wait.
  std::atomic<bool> sent = false;
  std::thread sender([&] {
    const std::string flood(64 << 20, 'x');
    client.send(flood);
    sent = true;
  });
  EXPECT_TRUE(eventually([&] { return server->counters().bytes_in > (16 << 10); }));
  int64_t before = -1;
  EXPECT_TRUE(eventually([&] {
    const int64_t now = server->counters().bytes_in;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return std::exchange(before, now) == now;
  }));
  EXPECT_LT(server->counters().bytes_in, 1 << 20);
  EXPECT_FALSE(sent);
  client.shutdown_both();
  sender.join();
  client.reset();
  EXPECT_TRUE(eventually([&] { return held.gone == 1; }));
}

TEST(HttpClients, SlowRequestsEndByTheirDeadline) {
  HeldRequests held;
  HttpOptions options;
  options.limits.header_seconds = 0.2;
  options.limits.body_seconds = 0.2;
  RunningServer server(held.callbacks(), options);
  RawClient head(server.port()), body(server.port()), trickle(server.port());
  head.send("GET / HT");
  body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345");
  // A byte at a time does not move the deadline.
  std::atomic<bool> stop = false;
  std::thread dripping([&] {
    trickle.send("GET / HTTP/1.1\r\nX: ");
    while (!stop && trickle.send("a")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  for (RawClient* client : {&head, &body, &trickle}) {
    EXPECT_TRUE(client->read_until("too slowly").starts_with("HTTP/1.1 408 "));
  }
  stop = true;
  dripping.join();
  EXPECT_EQ(server->counters().timeouts, 3);
}

// As a process that was stopped and goes on: the deadline has passed, and the rest waits in the socket.
TEST(HttpClients, WhatCameInTimeIsReadThoughTheServerWasStopped) {
  HeldRequests held;
  HttpOptions options;
  options.limits.header_seconds = options.limits.body_seconds = options.limits.idle_seconds = 2;
  RunningServer server(held.callbacks(), options);
  RawClient idle(server.port()), head(server.port()), body(server.port());
  const std::string quick = "POST /quick HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
  head.send(quick.substr(0, 20));
  body.send(quick.substr(0, quick.size() - 2));
  const auto bytes = static_cast<int64_t>(20 + quick.size() - 2);
  ASSERT_TRUE(eventually([&] { return server->counters().bytes_in == bytes && server->counters().open == 3; }));
  std::atomic<bool> stopped = false, go_on = false;
  server->post([&] {
    stopped = true;
    eventually([&] { return go_on.load(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  });
  ASSERT_TRUE(eventually([&] { return stopped.load(); }));
  idle.send(quick);
  head.send(quick.substr(20));
  body.send(quick.substr(quick.size() - 2));
  go_on = true;
  for (RawClient* client : {&idle, &head, &body}) {
    EXPECT_TRUE(client->read_until("\r\n\r\nquick").starts_with("HTTP/1.1 200 "));
  }
}

TEST(HttpClients, IdleConnectionsEndSilently) {
  HeldRequests held;
  HttpOptions options;
  options.limits.idle_seconds = 2;
  RunningServer server(held.callbacks(), options);
  RawClient fresh(server.port()), used(server.port());
  used.send("GET /quick HTTP/1.1\r\nHost: h\r\n\r\n");
  used.read_until("\r\n\r\nquick");
  used.forget();
  EXPECT_EQ(fresh.read_all(), "");
  EXPECT_EQ(used.read_all(), "");
  EXPECT_TRUE(fresh.ended() && used.ended());
  EXPECT_EQ(server->counters().timeouts, 0);
}

TEST(HttpClients, ConnectionsBeyondTheLimitAreToldSo) {
  HeldRequests held;
  HttpOptions options;
  options.limits.connections = 3;
  RunningServer server(held.callbacks(), options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(kGet);  // one that is idle would give way
    ASSERT_TRUE(held.wait(i));
  }
  for (int i = 0; i < 5; ++i) {
    RawClient beyond(server.port());
    beyond.send(kGet);
    EXPECT_TRUE(beyond.read_all().starts_with("HTTP/1.1 503 "));
    EXPECT_TRUE(beyond.ended());
  }
  EXPECT_EQ(server->counters().refused, 5);
  clients.pop_back();
  ASSERT_TRUE(eventually([&] { return server->counters().open == 2; }));
  RawClient again(server.port());
  again.send("GET /quick HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(again.read_until("\r\n\r\nquick").starts_with("HTTP/1.1 200 "));
}

// More than the server waits for: they are told as well.
TEST(HttpClients, AFloodOfConnectionsIsToldSoToo) {
  HeldRequests held;
  HttpOptions options;
  options.limits.connections = 1;
  RunningServer server(held.callbacks(), options);
  RawClient one(server.port());
  one.send(kGet);
  ASSERT_TRUE(held.wait());
  std::vector<std::unique_ptr<RawClient>> flood;
  for (int i = 0; i < 220; ++i) {
    flood.push_back(std::make_unique<RawClient>(server.port()));
    flood.back()->send(kGet);
  }
  int told = 0;
  for (const auto& client : flood) told += client->read_all().starts_with("HTTP/1.1 503 ");
  // One whose request comes just when its connection is closed may see a reset instead.
  EXPECT_GE(told, 190);
}

TEST(HttpClients, ClosingTheListenerLetsAnswersFinish) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient idle(server.port()), busy(server.port());
  busy.send(kGet);
  const auto responder = held.wait();
  ASSERT_TRUE(responder);
  ASSERT_TRUE(eventually([&] { return server->counters().open == 2; }));
  server->close_listener();
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_TRUE(idle.ended());
  RawClient late(server.port());
  responder->send(plain_text("finished"));
  const std::string& answer = busy.read_all();
  EXPECT_TRUE(answer.ends_with("finished")) << answer;
  EXPECT_NE(answer.find("connection: close"), answer.npos);
  EXPECT_TRUE(busy.ended());
  EXPECT_TRUE(eventually([&] { return server->counters().open == 0; }));
  EXPECT_EQ(server->counters().accepted, 2);
}

TEST(HttpClients, RespondersOutliveTheServer) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  RawClient one(server.port()), two(server.port()), three(server.port());
  one.send(kGet);
  const auto first = held.wait(0);
  two.send(kGet);
  const auto second = held.wait(1);
  three.send(kGet);
  const auto third = held.wait(2);
  ASSERT_TRUE(first && second && third);
  second->start(plain_text("begun"));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) second->write("x");
  });
  server.end();
  EXPECT_EQ(held.gone, 3);
  EXPECT_TRUE(first->closed() && second->closed() && third->closed());
  first->send(plain_text("late"));
  third->start(plain_text("late"));
  third->write("late");
  third->finish();
  int late = 0;
  second->on_close([&] { ++late; });
  EXPECT_EQ(late, 1);
  stop = true;
  writer.join();
  second->abort();
  EXPECT_TRUE(one.read_all().empty());
}

TEST(HttpClients, ManyThreadsAnswerWhileClientsComeAndGo) {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::shared_ptr<Responder>> jobs;
  bool stop = false;
  std::atomic<int> gone = 0;
  HttpCallbacks callbacks;
  callbacks.handle = [&](HttpRequest, std::shared_ptr<Responder> responder) {
    responder->on_close([&] { ++gone; });
    const std::lock_guard lock(mutex);
    jobs.push_back(std::move(responder));
    wake.notify_one();
  };
  for (int i = 0; i < 3; ++i) {
    workers.emplace_back([&] {
      for (;;) {
        std::shared_ptr<Responder> job;
        {
          std::unique_lock lock(mutex);
          wake.wait(lock, [&] { return stop || !jobs.empty(); });
          if (jobs.empty()) return;
          job = std::move(jobs.back());
          jobs.pop_back();
        }
        job->start(plain_text("["));
        for (int k = 0; k < 50; ++k) job->write("abc");
        job->write("]");
        job->finish();
      }
    });
  }
  {
    RunningServer server(std::move(callbacks));
    std::string expected = "[";
    for (int k = 0; k < 50; ++k) expected += "abc";
    expected += "]";
    for (int i = 0; i < 150; ++i) {
      RawClient goes(server.port());
      goes.send(kGet);
      if (i % 3 == 0) goes.reset();
      if (i % 3 == 1) goes.close();
      RawClient stays(server.port());
      stays.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
      const std::string& answer = stays.read_all();
      if (answer.find("chunked") != answer.npos) {
        EXPECT_EQ(unchunk(answer), expected);
      } else {
        EXPECT_TRUE(answer.ends_with(expected)) << answer;
      }
    }
    EXPECT_TRUE(eventually([&] { return server->counters().open <= 1; }));
  }
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread& worker : workers) worker.join();
}

TEST(HttpClients, AnIdleServerTakesNoProcessorTime) {
  HeldRequests held;
  RunningServer server(held.callbacks());
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(std::make_unique<RawClient>(server.port()));
  clients[0]->send(kGet);
  ASSERT_TRUE(held.wait());
  ASSERT_TRUE(eventually([&] { return server->counters().open == 50; }));
  const auto cpu_of_io_thread = [&] {
    std::atomic<long> result = -1;
    server->post([&] {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      result = time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
    });
    EXPECT_TRUE(eventually([&] { return result >= 0; }));
    return result.load();
  };
  const long before = cpu_of_io_thread();
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_LT(cpu_of_io_thread() - before, 300);  // a loop that spins would take most of it
}

}  // namespace
}  // namespace ingot
