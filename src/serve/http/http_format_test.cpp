#include "serve/http/http_format.h"

#include <gtest/gtest.h>

#include <string>

namespace ingot {
namespace {

TEST(HttpFormat, AValueCannotAddAHeader) {
  HttpResponse response;
  response.content_type = "text/plain\r\nX-Evil: 1";
  response.headers = {{"x-name", "a\r\n\r\nbody\n"}};
  const std::string head = response_head(response, {});
  EXPECT_EQ(head.find("\r\n\r\n"), head.size() - 4) << head;
  EXPECT_EQ(head.find("\nX-Evil"), head.npos) << head;
  EXPECT_NE(head.find("x-name: a    body \r\n"), head.npos) << head;
}

TEST(HttpFormat, FramesAreTold) {
  HttpResponse response;
  const auto head = [&](HttpFraming framing, bool keep_alive, int minor) {
    return response_head(response,
                         {.framing = framing, .length = 7, .keep_alive = keep_alive, .minor = minor, .id = "req-1"});
  };
  EXPECT_NE(head(HttpFraming::kLength, true, 1).find("content-length: 7\r\n"), std::string::npos);
  EXPECT_NE(head(HttpFraming::kChunked, true, 1).find("transfer-encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(head(HttpFraming::kClose, false, 0).find("transfer-encoding"), std::string::npos);
  EXPECT_NE(head(HttpFraming::kClose, false, 0).find("connection: close\r\n"), std::string::npos);
  EXPECT_NE(head(HttpFraming::kLength, true, 0).find("connection: keep-alive\r\n"), std::string::npos);
  EXPECT_NE(head(HttpFraming::kLength, true, 1).find("x-request-id: req-1\r\n"), std::string::npos);
  response.status = 204;
  EXPECT_EQ(head(HttpFraming::kLength, true, 1).find("content-"), std::string::npos);
  EXPECT_EQ(chunk_prefix(26), "1a\r\n");
  EXPECT_EQ(reason_of(431), "Request Header Fields Too Large");
  EXPECT_EQ(reason_of(299), "Unknown");
}

}  // namespace
}  // namespace ingot
