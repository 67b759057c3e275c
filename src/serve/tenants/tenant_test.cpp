#include "serve/tenants/tenant.h"

#include <gtest/gtest.h>

#include <map>

namespace ingot {
namespace {

struct Fixture {
  explicit Fixture(const TenantRights& rights) : tenant("a", rights, book.of("a"), [this] { return now; }) {}
  std::map<std::string, std::string> headers() const {
    const HttpHeaders list = tenant.limit_headers();
    return {list.begin(), list.end()};
  }

  double now = 1000;
  UsageBook book;
  Tenant tenant;
};

TEST(Tenant, HasItsRequestsAtOnce) {
  Fixture f({.concurrency = 2});
  EXPECT_FALSE(f.tenant.enter());
  EXPECT_FALSE(f.tenant.enter());
  const std::optional<ApiError> third = f.tenant.enter();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->status, 429);
  EXPECT_GT(third->retry_after, 0);
  f.tenant.leave();
  EXPECT_FALSE(f.tenant.enter());
  EXPECT_EQ(f.tenant.use().active, 2);
  EXPECT_EQ(f.tenant.use().limited, 1);
}

TEST(Tenant, HasItsTokensOfAMinute) {
  Fixture f({.tokens_per_minute = 60});
  EXPECT_FALSE(f.tenant.enter());
  f.tenant.charge(90);  // an answer may cost more than was left
  const std::optional<ApiError> next = f.tenant.enter();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->status, 429);
  EXPECT_NEAR(next->retry_after, 31, 0.01);
  EXPECT_EQ(f.headers().at("x-ratelimit-remaining-tokens"), "0");
  EXPECT_EQ(f.headers().at("x-ratelimit-reset-tokens"), "1m30s");
  f.now += 30;
  EXPECT_TRUE(f.tenant.enter());
  f.now += 1;
  EXPECT_FALSE(f.tenant.enter());
  f.now += 1e6;  // what is not used is not saved beyond a minute's worth
  f.tenant.charge(60);
  EXPECT_TRUE(f.tenant.enter());
}

TEST(Tenant, HasItsRequestsOfAMinute) {
  Fixture f({.requests_per_minute = 3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(f.tenant.refusal());  // asking takes nothing
    EXPECT_FALSE(f.tenant.enter());
    f.tenant.leave();
  }
  const std::optional<ApiError> fourth = f.tenant.enter();
  ASSERT_TRUE(fourth);
  EXPECT_NEAR(fourth->retry_after, 20, 0.01);
  const auto headers = f.headers();
  EXPECT_EQ(headers.at("x-ratelimit-limit-requests"), "3");
  EXPECT_EQ(headers.at("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(headers.at("x-ratelimit-reset-requests"), "1m0s");
  EXPECT_FALSE(headers.contains("x-ratelimit-limit-tokens"));
  f.now += 20;
  EXPECT_FALSE(f.tenant.enter());
}

TEST(Tenant, WithoutLimitsSaysNothingOfThem) {
  Fixture f({});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(f.tenant.enter());
  f.tenant.charge(1 << 30);
  EXPECT_FALSE(f.tenant.enter());
  EXPECT_TRUE(f.headers().empty());
}

TEST(Tenant, ResetsAreWrittenAsClientsReadThem) {
  EXPECT_EQ(reset_text(0), "0ms");
  EXPECT_EQ(reset_text(0.0171), "18ms");
  EXPECT_EQ(reset_text(1), "1s");
  EXPECT_EQ(reset_text(59.2), "1m0s");
  EXPECT_EQ(reset_text(360), "6m0s");
}

TEST(UsageBook, TellsAHundredNamesApartAndLosesNothing) {
  UsageBook book;
  for (int i = 0; i < 250; ++i) book.of("tenant-" + std::to_string(i))->requests += i;
  for (int i = 0; i < 250; ++i) book.of("tenant-" + std::to_string(i))->prompt_tokens += 1;
  book.of("")->requests += 7;
  const std::vector<TenantUsage> list = book.tenants();
  ASSERT_EQ(list.size(), UsageBook::kMaxNames + 1);
  EXPECT_EQ(list[42].name, "tenant-42");
  EXPECT_EQ(list[42].numbers.requests, 42);
  EXPECT_EQ(list.back().name, UsageBook::kOthers);
  EXPECT_EQ(list.back().numbers.prompt_tokens, 150);
  ASSERT_TRUE(book.find("tenant-42") && book.find("tenant-249"));
  EXPECT_EQ(book.find("tenant-42")->numbers.requests, 42);
  EXPECT_EQ(book.find("tenant-249")->name, UsageBook::kOthers);
  EXPECT_EQ(book.find("tenant-249")->numbers.prompt_tokens, 150);
  EXPECT_FALSE(book.find(""));
  EXPECT_EQ(book.total().requests, 249 * 250 / 2 + 7);
  EXPECT_EQ(book.total().prompt_tokens, 250);
}

}  // namespace
}  // namespace ingot
