#include "cli/hub/http.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/hub/download.h"

namespace ingot {
namespace {

TEST(Http, OriginHasSchemeHostAndPort) {
  EXPECT_EQ(url_origin("https://Hub.example/a?b"), "https://hub.example:443");
  EXPECT_EQ(url_origin("HTTP://127.0.0.1:8080"), "http://127.0.0.1:8080");
  EXPECT_NE(url_origin("http://a.example"), url_origin("https://a.example"));
  EXPECT_EQ(url_origin("https://user@hub.example:443/"), "https://hub.example:443");
  for (const char* url : {"ftp://a", "file:///etc/passwd", "nonsense", "", "https://"}) {
    EXPECT_THROW(url_origin(url), Error) << url;
  }
}

TEST(Http, EncodesWhatIsNotPlain) {
  EXPECT_EQ(url_encode("a b/c%d\xc3\xa9", true), "a%20b/c%25d%C3%A9");
  EXPECT_EQ(url_encode("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(url_encode("A-z.0_9~", false), "A-z.0_9~");
}

TEST(Http, TokenWithALineBreakIsRefused) { EXPECT_THROW(HttpClient("https://hub.example", "a\nb", 0), Error); }

TEST(Http, ProblemsSayWhatToDo) {
  HttpReply reply{.status = 401, .url = "https://hub.example/x", .headers = {}, .body = ""};
  EXPECT_NE(http_problem(reply, "a/b", false).find("set HF_TOKEN"), std::string::npos);
  EXPECT_NE(http_problem(reply, "a/b", true).find("HF_TOKEN is not accepted"), std::string::npos);
  reply.status = 404;
  EXPECT_EQ(http_problem(reply, "a/b", false), "[pull] a/b: not found (status 404 from https://hub.example:443)");
  reply.headers["x-error-code"] = "RevisionNotFound";
  EXPECT_NE(http_problem(reply, "a/b", false).find("no such revision"), std::string::npos);
}

TEST(Download, SpaceIsAskedForFirst) {
  EXPECT_NO_THROW(check_free_space("/", 1));
  EXPECT_THROW(check_free_space("/", uint64_t{1} << 62), Error);
}

}  // namespace
}  // namespace ingot
