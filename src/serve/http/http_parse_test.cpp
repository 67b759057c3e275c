#include "serve/http/http_parse.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {
namespace {

using Progress = HttpReader::Progress;

struct Parsed {
  int status = 0;  // 0: whole; -1: more is needed; else refused
  std::string why = {};
  HttpHead head = {};
  std::string body = {};
  bool keep_alive = false, expects_continue = false;
  size_t rest = 0;
};

// Reads one request that comes in pieces of `piece` bytes.
Parsed parse(std::string_view bytes, size_t piece = 1 << 20, HttpLimits limits = {}) {
  HttpReader reader(limits);
  bool in_body = false;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    reader.append(bytes.substr(at, piece));
    Progress progress = Progress::kReady;
    if (!in_body) {
      progress = reader.read_head();
      in_body = progress == Progress::kReady;
    }
    if (in_body) progress = reader.read_body();
    if (progress == Progress::kRefused) return {.status = reader.problem().status, .why = reader.problem().why};
    if (progress == Progress::kReady) {
      return {.head = reader.head(),
              .body = reader.take_body(),
              .keep_alive = reader.keep_alive(),
              .expects_continue = reader.expects_continue(),
              .rest = reader.buffered() + bytes.size() - std::min(bytes.size(), at + piece)};
    }
  }
  return {.status = -1};
}

// The status is the same however the bytes are cut.
int status_of(std::string_view bytes, HttpLimits limits = {}) {
  const Parsed whole = parse(bytes, 1 << 20, limits);
  for (const size_t piece : {1, 2, 3, 7, 64}) {
    const Parsed cut = parse(bytes, piece, limits);
    EXPECT_EQ(cut.status, whole.status) << piece << ": " << cut.why << ", " << whole.why << "\n" << bytes;
    EXPECT_EQ(cut.body, whole.body);
    EXPECT_EQ(cut.rest, whole.rest);
    EXPECT_EQ(cut.head.path, whole.head.path);
  }
  return whole.status;
}

int status_with(std::string_view headers, std::string_view body = "") {
  return status_of("POST / HTTP/1.1\r\nHost: h\r\n" + std::string(headers) + "\r\n" + std::string(body));
}

TEST(HttpReader, ReadsHeadsAndBodies) {
  const Parsed parsed =
      parse("POST /v1/x?a=b?c HTTP/1.1\r\nHOST: h:80\r\nX-Thing:  two words \t\r\nContent-Length: 5\r\n\r\nhelloGET");
  EXPECT_EQ(parsed.status, 0) << parsed.why;
  EXPECT_EQ(parsed.head.method, "POST");
  EXPECT_EQ(parsed.head.path, "/v1/x");
  EXPECT_EQ(parsed.head.query, "a=b?c");
  EXPECT_EQ(parsed.head.header("host"), "h:80");
  EXPECT_EQ(parsed.head.header("x-thing"), "two words");
  EXPECT_EQ(parsed.head.header("absent"), "");
  EXPECT_EQ(parsed.body, "hello");
  EXPECT_EQ(parsed.rest, 3u);
  EXPECT_TRUE(parsed.keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n").expects_continue);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\n\r\n").expects_continue);
}

TEST(HttpReader, ReadsChunks) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n";
  const std::string chunks = "5\r\nhello\r\n00A;name=\"v\"\r\n 123456789\r\n0\r\nTrailer: x\r\n\r\n";
  EXPECT_EQ(parse(head + chunks + "GET").body, "hello 123456789");
  EXPECT_EQ(parse(head + chunks + "GET").rest, 3u);
  EXPECT_EQ(status_of(head + chunks), 0);
  EXPECT_EQ(status_of(head + "0\r\n\r\n"), 0);
  EXPECT_EQ(status_of(head + "5\r\nhello\r\n"), -1);
  for (const char* bad :
       {"5\nhello\r\n", "5\r\nhello!\r\n", "5\r\nhello\n0\r\n\r\n", "x\r\n", "\r\n", " 5\r\nhello\r\n",
        "0x5\r\nhello\r\n", "-1\r\n", "+5\r\nhello\r\n", "5 \r\nhello\r\n", "ffffffffffffffff\r\n",
        "10000000000000005\r\nhello\r\n", "5;\x01\r\nhello\r\n", "0\r\nTrailer\nX\r\n\r\n"}) {
    EXPECT_EQ(status_of(head + bad), 400) << bad;
  }
  EXPECT_EQ(status_of(head + "ffffffffffffff\r\n"), 413);
  EXPECT_EQ(status_of(head + "5;" + std::string(5000, 'e') + "\r\nhello\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of(head + "0\r\n" + std::string(20000, 't') + "\r\n\r\n"), 400);
  std::string trailers;
  for (int i = 0; i < 2000; ++i) trailers += "Trailer: number\r\n";
  EXPECT_EQ(status_of(head + "0\r\n" + trailers + "\r\n"), 431);
}

TEST(HttpReader, WhatCouldBeSmuggledIsRefused) {
  EXPECT_EQ(status_with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400);
  EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400);
  EXPECT_EQ(status_with("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400);
  EXPECT_EQ(status_with("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400);
  EXPECT_EQ(status_with("Content-Length: 5, 5\r\n", "hello"), 400);
  for (const char* value : {"", "-1", "+5", "5x", "0x5", "5 5", "99999999999999999999999", "5,", "\"5\""}) {
    EXPECT_EQ(status_with("Content-Length: " + std::string(value) + "\r\n", "hello"), 400) << value;
  }
  EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400);
  for (const char* value :
       {"gzip, chunked", "identity", "xchunked", "chunked, identity", "chunked;q=1", "chunked, chunked"}) {
    EXPECT_EQ(status_with("Transfer-Encoding: " + std::string(value) + "\r\n", "0\r\n\r\n"), 400) << value;
  }
  EXPECT_EQ(status_with("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), 400);
  EXPECT_EQ(status_with("Content-Length : 5\r\n", "hello"), 400);
  EXPECT_EQ(status_with("X: a\r\n folded\r\n"), 400);
  EXPECT_EQ(status_with("X: a\r\n\tfolded\r\n"), 400);
  EXPECT_EQ(status_with(" X: a\r\n"), 400);
  EXPECT_EQ(status_with("X: a\nY: b\r\n"), 400);
  EXPECT_EQ(status_with("X: a\rY: b\r\n"), 400);
  EXPECT_EQ(status_with("X: a\r\r\n"), 400);
  EXPECT_EQ(status_with(std::string_view("X: a\0b\r\n", 8)), 400);
  EXPECT_EQ(status_with("X: a\x01\r\n"), 400);
  EXPECT_EQ(status_with("X: a\x7f\r\n"), 400);
  EXPECT_EQ(status_with("no colon\r\n"), 400);
  EXPECT_EQ(status_with(": no name\r\n"), 400);
  EXPECT_EQ(status_with("Bad(Name): x\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\nHost: h\n\n"), 400);
}

TEST(HttpReader, BadFirstLinesAndHosts) {
  const std::string rest = "\r\nHost: h\r\n\r\n";
  for (const char* line : {"GET /", "GET  / HTTP/1.1", "GET / HTTP/1.1 ", " GET / HTTP/1.1", "GET x HTTP/1.1",
                           "GET * HTTP/1.1", "G(T / HTTP/1.1", "GET /#f HTTP/1.1", "GET /\x80 HTTP/1.1",
                           "GET http:///x HTTP/1.1", "GET http://u@h/x HTTP/1.1", "CONNECT h:1 HTTP/1.1",
                           "GET / HTTP/2.0", "GET / HTTP/1.2", "GET / HTTP/0.9", "/ HTTP/1.1"}) {
    EXPECT_EQ(status_of(line + rest), 400) << line;
  }
  EXPECT_EQ(status_of("\x16\x03\x01\x02"), 400);  // TLS: refused at its first byte
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 0);
  EXPECT_EQ(status_of("\r\n\r\nGET / HTTP/1.1" + rest), 0);
  EXPECT_EQ(status_of("\r\n\r\n\r\nGET / HTTP/1.1" + rest), 400);
  EXPECT_EQ(status_with("Expect: a miracle\r\n"), 417);
  EXPECT_EQ(status_with("Content-Encoding: gzip\r\nContent-Length: 5\r\n", "hello"), 415);
  EXPECT_EQ(status_with("Content-Encoding: identity\r\nContent-Length: 5\r\n", "hello"), 0);
}

TEST(HttpReader, AnAbsoluteTargetNamesTheHost) {
  const Parsed parsed = parse("GET HTTP://other:8/p?q HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(parsed.status, 0) << parsed.why;
  EXPECT_EQ(parsed.head.path, "/p");
  EXPECT_EQ(parsed.head.query, "q");
  EXPECT_EQ(parsed.head.header("host"), "other:8");
  EXPECT_EQ(parse("GET http://other HTTP/1.1\r\nHost: h\r\n\r\n").head.path, "/");
}

TEST(HttpReader, LimitsAndOneBeyond) {
  HttpLimits limits;
  limits.header_bytes = 1000;
  limits.headers = 10;
  limits.target_bytes = 100;
  limits.body_bytes = 50;
  const auto target = [&](size_t bytes) {
    return status_of("GET /" + std::string(bytes - 1, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n", limits);
  };
  EXPECT_EQ(target(100), 0);
  EXPECT_EQ(target(101), 414);
  EXPECT_EQ(target(100'000), 414);
  const auto headers = [&](int count) {
    std::string text = "GET / HTTP/1.1\r\nHost: h\r\n";
    for (int i = 1; i < count; ++i) text += "A: b\r\n";
    return status_of(text + "\r\n", limits);
  };
  EXPECT_EQ(headers(10), 0);
  EXPECT_EQ(headers(11), 431);
  const auto head = [&](size_t bytes) {
    const std::string begin = "GET / HTTP/1.1\r\nHost: h\r\nA: ", end = "\r\n\r\n";
    return status_of(begin + std::string(bytes - begin.size() - end.size(), 'a') + end, limits);
  };
  EXPECT_EQ(head(1000), 0);
  EXPECT_EQ(head(1001), 431);
  EXPECT_EQ(head(1'000'000), 431);
  const auto body = [&](size_t bytes) {
    return status_of(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" + std::string(bytes, 'b'),
        limits);
  };
  EXPECT_EQ(body(50), 0);
  EXPECT_EQ(body(51), 413);
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const auto chunks = [&](int count) {
    std::string text = chunked;
    for (int i = 0; i < count; ++i) text += "5\r\nhello\r\n";
    return status_of(text + "0\r\n\r\n", limits);
  };
  EXPECT_EQ(chunks(10), 0);
  EXPECT_EQ(chunks(11), 413);
}

TEST(HttpReader, FramingWithoutEndIsRefused) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  HttpReader reader(limits);
  reader.append("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  ASSERT_EQ(reader.read_head(), Progress::kReady);
  std::string chunk = "1;" + std::string(200, 'e') + "\r\nx\r\n";
  int count = 0;
  Progress progress = Progress::kMore;
  for (; progress == Progress::kMore && count < 1000; ++count) {
    reader.append(chunk);
    progress = reader.read_body();
  }
  EXPECT_EQ(progress, Progress::kRefused);
  EXPECT_EQ(reader.problem().status, 413);
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A body of 3 MB in chunks of 6 bytes brought another server down: its time grew with the square.
TEST(HttpReader, SmallChunksTakeLinearTime) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kBody = 300'000;  // a sanitizer's time is not the reader's
#else
  constexpr size_t kBody = 3'000'000;
#endif
  std::string text = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (size_t i = 0; i < kBody / 6; ++i) text += "6\r\nabcdef\r\n";
  text += "0\r\n\r\n";
  for (const size_t piece : {size_t{11}, size_t{1} << 20, text.size()}) {
    const double begin = processor_seconds();
    const Parsed parsed = parse(text, piece);
    EXPECT_EQ(parsed.status, 0) << parsed.why;
    EXPECT_EQ(parsed.body.size(), kBody);
    EXPECT_LT(processor_seconds() - begin, 10) << piece;  // measured: 0.05 s; a square of it would take minutes
  }
}

TEST(HttpReader, RequestsFollowEachOther) {
  HttpReader reader({});
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    text += "POST /" + std::to_string(i) +
            " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  }
  size_t at = 0;
  for (int i = 0; i < 200; ++i) {
    bool in_body = false;
    for (;;) {
      const Progress progress = in_body ? reader.read_body() : reader.read_head();
      ASSERT_NE(progress, Progress::kRefused) << reader.problem().why;
      if (progress == Progress::kReady && in_body) break;
      if (progress == Progress::kReady) {
        in_body = true;
        continue;
      }
      ASSERT_LT(at, text.size());
      reader.append(std::string_view(text).substr(at, 13));
      at += 13;
    }
    EXPECT_EQ(reader.head().path, "/" + std::to_string(i / 2));
    EXPECT_EQ(reader.take_body(), "abc");
    reader.next();
  }
  EXPECT_EQ(reader.buffered(), 0u);
}

}  // namespace
}  // namespace ingot
