// Clients that read slowly or not at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "serve/http/http.h"
#include "serve/http/http_test_support.h"

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

}  // namespace
}  // namespace ingot
