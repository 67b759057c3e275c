#include "serve/api/compile_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "serve/serving_test_support.h"

namespace ingot {
namespace {

struct Fixture {
  explicit Fixture(double timeout_seconds = 0) {
    tenant = std::make_shared<Tenant>("a", TenantRights{}, book.of("a"), [] { return 0.0; });
    caller = std::make_shared<Caller>(std::shared_ptr<ApiKey>(new ApiKey{.tenant = tenant}),
                                      CallFacts{.timeout_seconds = timeout_seconds});
  }
  int64_t paid() {
    caller->settle(CallEnd::kError, 400);
    return tenant->use().read().tokenizer_tokens;
  }
  UsageBook book;
  std::shared_ptr<Tenant> tenant;
  std::shared_ptr<Caller> caller;
  std::shared_ptr<TestResponder> responder = std::make_shared<TestResponder>();
};

TEST(CompileWork, AShortOneIsPaidByItsSteps) {
  for (const bool refused : {false, true}) {
    Fixture f;
    CompileWork work(f.caller, f.responder);
    const auto compile = [&](const CompileCall& call) {
      EXPECT_FALSE(call.reserve);
      call.meter->spend(10'000);
      if (refused) throw bad_field("grammar", "no");
    };
    if (refused) {
      EXPECT_THROW(work.run_short(compile), ApiError);
    } else {
      EXPECT_TRUE(work.run_short(compile));
    }
    EXPECT_EQ(f.paid(), 10'000 / static_cast<int64_t>(CompileWork::kStepsPerToken));
  }
}

TEST(CompileWork, ALongOneIsGivenUpAndBegunAgainAsSuch) {
  Fixture f;
  CompileWork work(f.caller, f.responder);
  int begun = 0;
  const auto compile = [&](const CompileCall& call) {
    ++begun;
    EXPECT_EQ(call.reserve, begun == 2);
    for (int i = 0; i < 100; ++i) call.meter->spend(1000);
  };
  EXPECT_FALSE(work.run_short(compile));
  EXPECT_EQ(f.tenant->use().read().tokenizer_tokens, 0);  // what is done twice is paid once
  work.run_long(compile);
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(f.paid(), 100'000 / static_cast<int64_t>(CompileWork::kStepsPerToken));
}

TEST(CompileWork, EndsWhereTheClientHasGoneAndWasPaidUpToThere) {
  Fixture f;
  CompileWork work(f.caller, f.responder);
  size_t spent = 0;
  const auto compile = [&](const CompileCall& call) {
    while (spent < 1'000'000) {
      call.meter->spend(1000);
      if ((spent += 1000) == 50'000) f.responder->close();
    }
  };
  EXPECT_THROW(work.run_long(compile), ApiError);
  EXPECT_LE(spent, 70'000u);
  EXPECT_GE(f.paid(), 50'000 / static_cast<int64_t>(CompileWork::kStepsPerToken));
}

TEST(CompileWork, EndsAtTheRequestsDeadline) {
  Fixture f(0.02);
  CompileWork work(f.caller, f.responder);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  try {
    work.run_long([](const CompileCall& call) {
      for (int i = 0; i < 1000; ++i) call.meter->spend(1000);
    });
    ADD_FAILURE();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 504);
    EXPECT_TRUE(error.no_retry);
  }
  EXPECT_TRUE(f.caller->timed_out());
}

TEST(CompileWork, WhatIsTooDearIsRefusedAndPaid) {
  Fixture f;
  CompileWork work(f.caller, f.responder);
  size_t spent = 0;
  const auto compile = [&](const CompileCall& call) {
    for (; spent < 100'000'000; spent += 1000) call.meter->spend(1000);
  };
  EXPECT_THROW(work.run_long(compile), grammar::LimitError);
  EXPECT_LT(spent, CompileWork::kMostSteps + 20'000);
  EXPECT_GE(f.paid(), static_cast<int64_t>(CompileWork::kMostSteps / CompileWork::kStepsPerToken));
}

// A long one lets those of other payers go first between its pieces.
TEST(CompileWork, GivesWayOnTheWorkerOfLargeBodies) {
  Fixture f;
  Workers workers(1);
  std::promise<void> begun, posted, done;
  std::atomic<bool> other{false};
  std::atomic<size_t> at{0};
  const JobCost large{.payer = "a", .bytes = Workers::kLargeBytes + 1};
  ASSERT_TRUE(workers.post(
      [&] {
        CompileWork work(f.caller, f.responder, &workers);
        work.run_long([&](const CompileCall& call) {
          begun.set_value();
          posted.get_future().wait();
          for (int i = 0; i < 100; ++i) {
            call.meter->spend(1000);
            if (!other) ++at;
          }
        });
        done.set_value();
      },
      large));
  begun.get_future().wait();
  ASSERT_TRUE(workers.post([&] { other = true; }, {.payer = "b", .bytes = Workers::kLargeBytes + 1}));
  posted.set_value();
  done.get_future().wait();
  EXPECT_TRUE(other);
  EXPECT_LT(at, 20u);
}

std::string choices(size_t count) {
  std::string list;
  uint32_t random = 1;
  for (size_t i = 0; i < count; ++i) {
    list += i > 0 ? ",\"" : "\"";
    for (int k = 0; k < 60; ++k)
      list += static_cast<char>('0' + ((random = random * 1664525u + 1013904223u) >> 16) % 10);
    list += '"';
  }
  return R"({"prompt":"a","max_tokens":3,"guided_choice":[)" + list + "]}";
}

// Through the handlers: a dear grammar is answered, refused in its own words, and leaves when its client does.
TEST(CompileWork, LongCompilesAreAnsweredByTheOtherWorker) {
  ToyServer server;
  const std::string path = "/v1/completions";
  server.ok(path, choices(400));
  EXPECT_EQ(server.metrics.grammars_refused.value(), 0);
  const JsonObject error = server.error(400, path, choices(4000));  // more than 200,000 expressions
  EXPECT_NE(std::string(error.at("message").as_string()).find("regular expressions"), std::string::npos);
  EXPECT_EQ(error.at("param").as_string(), "guided_choice");
  EXPECT_EQ(server.metrics.grammars_refused.value(), 1);
  Fixture f(1e-4);  // its time is over before it is compiled
  const HttpResponse late = server.begin(path, choices(401), f.caller)->wait();
  EXPECT_EQ(late.status, 504) << late.body;
  EXPECT_GT(f.paid(), 0);
  server.expect_idle();
}

}  // namespace
}  // namespace ingot
