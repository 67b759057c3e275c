#include "serve/tenants/caller.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "files/json.h"

namespace ingot {
namespace {

struct Fixture {
  explicit Fixture(const TenantRights& rights = {}) {
    tenant = std::make_shared<Tenant>("alice", rights, book.of("alice"), [] { return 1.0; });
    key.reset(new ApiKey{.tenant = tenant});
  }
  UsageNumbers used() const { return tenant->use().read(); }

  UsageBook book;
  std::shared_ptr<Tenant> tenant;
  std::shared_ptr<ApiKey> key;
};

TEST(Caller, WhatATenantIsReachesTheEngine) {
  Fixture f({.weight = 2.5, .context = 10, .priority = 3});
  Caller caller(f.key, {.timeout_seconds = 50});
  Request request;
  request.prompt = {1, 2, 3, 4};
  request.priority = 100;
  caller.apply(request);
  EXPECT_EQ(request.tenant, "alice");
  EXPECT_EQ(request.weight, 2.5);
  EXPECT_EQ(request.priority, 3);
  EXPECT_EQ(request.max_tokens, 6);
  EXPECT_GT(request.deadline_seconds, 0);
  EXPECT_LE(request.deadline_seconds, 50);
  request.priority = -7;
  request.max_tokens = 2;
  caller.apply(request);
  EXPECT_EQ(request.priority, -7);
  EXPECT_EQ(request.max_tokens, 2);
  EXPECT_NO_THROW(caller.check_context(10, "prompt"));
  EXPECT_THROW(caller.check_context(11, "prompt"), ApiError);
}

TEST(Caller, WithoutRightsOfItsOwnChangesNothing) {
  Fixture f;
  Caller caller(f.key, {});
  Request request;
  request.prompt = {1};
  request.priority = 100;
  caller.apply(request);
  EXPECT_EQ(request.weight, 1);
  EXPECT_EQ(request.priority, 100);
  EXPECT_EQ(request.max_tokens, -1);
  EXPECT_EQ(request.deadline_seconds, 0);
  EXPECT_NO_THROW(caller.check_context(1 << 20, "prompt"));
}

TEST(Caller, TheSmallerTimeCounts) {
  Fixture f;
  int told = 0;
  Caller caller(f.key, {.timeout_seconds = 50, .on_deadline = [&] { ++told; }});
  caller.set_timeout(80);
  EXPECT_NEAR(caller.seconds_left(), 50, 10);
  caller.set_timeout(20);
  EXPECT_NEAR(caller.seconds_left(), 20, 10);
  EXPECT_EQ(told, 3);
  const ApiError error = caller.timeout_error();
  EXPECT_EQ(error.status, 504);
  EXPECT_NE(error.message.find(" 20 s"), std::string::npos) << error.message;
  const HttpResponse response = error_response(error, ApiStyle::kOpenAi);
  EXPECT_NE(std::ranges::find(response.headers, std::pair<std::string, std::string>("x-should-retry", "false")),
            response.headers.end());
}

TEST(Caller, WhoseTimeIsOverDoesNotReachTheEngine) {
  Fixture f;
  Caller caller(f.key, {.received = Caller::Clock::now() - std::chrono::seconds(2), .timeout_seconds = 1});
  Request request;
  EXPECT_THROW(caller.apply(request), ApiError);
  EXPECT_TRUE(caller.timed_out());
  caller.settle(CallEnd::kError, 504);
  EXPECT_EQ(f.used().timeouts, 1);
}

TEST(Caller, PaysAsItGoesAndGivesItsPlaceBackOnce) {
  Fixture f({.tokens_per_minute = 10, .concurrency = 1});
  Caller caller(f.key, {});
  ASSERT_FALSE(caller.enter());
  caller.take_prompt(6);
  caller.take_cached(2);
  for (int i = 0; i < 5; ++i) caller.take_token();
  // Before it ends: many at once cannot each use the whole minute.
  EXPECT_EQ(f.tenant->limit_headers()[1].second, "0");
  EXPECT_EQ(f.used().completion_tokens, 5);
  EXPECT_EQ(f.used().cached_tokens, 2);
  EXPECT_EQ(f.tenant->use().active, 1);
  caller.settle(CallEnd::kCancelled, 200);
  caller.settle(CallEnd::kComplete, 200);
  EXPECT_EQ(f.tenant->use().active, 0);
  EXPECT_EQ(f.used().requests, 1);
  EXPECT_EQ(f.used().cancelled, 1);
}

// A client that goes does not end what is done for it: until that has ended it counts, and is paid.
TEST(Caller, WhatIsLeftBehindKeepsItsPlaceWhileItIsWorkedOn) {
  Fixture f({.concurrency = 1});
  const auto path = std::filesystem::temp_directory_path() / ("ingot-caller-" + std::to_string(getpid()));
  std::filesystem::remove(path);
  {
    UsageLog log({.path = path.string()});
    auto caller = std::make_shared<Caller>(f.key, CallFacts{.usage_log = &log});
    ASSERT_FALSE(caller->enter());
    caller->abandon(CallEnd::kCancelled, 0);
    EXPECT_TRUE(Caller(f.key, {}).enter());
    caller->take_prompt(7);  // by a handler that does not know yet
    caller.reset();
    EXPECT_EQ(f.tenant->use().active, 0);
    EXPECT_EQ(f.used().cancelled, 1);
  }
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  std::filesystem::remove(path);
  EXPECT_EQ(parse_json(line, "line").as_object().at("end"), "cancelled");
  EXPECT_EQ(parse_json(line, "line").as_object().at("prompt_tokens"), 7);
}

// What the usage log has and what the client gets are one: whoever comes second changes neither.
TEST(Caller, IsEndedEarlyBeforeItIsSettledOrNotAtAll) {
  Fixture f;
  const auto path = std::filesystem::temp_directory_path() / ("ingot-caller-" + std::to_string(getpid()));
  std::filesystem::remove(path);
  {
    UsageLog log({.path = path.string()});
    const CallFacts facts{.usage_log = &log};
    Caller whole(f.key, facts);
    whole.take_prompt(1);
    whole.complete([](const auto&) {});
    EXPECT_FALSE(whole.end_early(CallEnd::kTimeout, 504));
    EXPECT_FALSE(whole.timed_out());
    Caller late(f.key, facts);
    late.take_prompt(2);
    EXPECT_TRUE(late.end_early(CallEnd::kTimeout, 504));
    late.complete([](const auto&) {});  // by a handler that does not know yet
    EXPECT_TRUE(late.timed_out());
  }
  std::ifstream file(path);
  std::string first, second;
  std::getline(file, first);
  std::getline(file, second);
  std::filesystem::remove(path);
  const JsonObject whole = parse_json(first, "line").as_object(), late = parse_json(second, "line").as_object();
  EXPECT_EQ(whole.at("end"), "complete");
  EXPECT_EQ(whole.at("status"), 200);
  EXPECT_EQ(late.at("end"), "timeout");
  EXPECT_EQ(late.at("status"), 504);
  EXPECT_EQ(f.used().timeouts, 1);
}

// The log's thread is kept at another's line, as by a slow disk.
class SlowLog {
 public:
  explicit SlowLog(const std::string& path) : log({.path = path}) {
    log.write("{}", [open = gate_.get_future().share()](bool) { open.wait(); });
  }
  ~SlowLog() { go_on(); }
  void go_on() {
    if (!std::exchange(open_, true)) gate_.set_value();
    log.flush();
  }

 private:
  std::promise<void> gate_;
  bool open_ = false;

 public:
  UsageLog log;  // last: it ends first
};

struct LogFile {
  ~LogFile() { std::filesystem::remove(path); }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("ingot-caller-slow-" + std::to_string(getpid()))).string();
};

TEST(Caller, TheEndOfWhatFailsGoesOutOnceItsLineIsWritten) {
  Fixture f;
  const LogFile file;
  SlowLog slow(file.path);
  int told = 0;
  const auto tell = [&told] { ++told; };
  {
    Caller caller(f.key, {.usage_log = &slow.log});
    caller.take_prompt(1);
    caller.settle(CallEnd::kError, 504, tell);
    caller.settle(CallEnd::kError, 504, tell);  // by whoever comes second
  }
  EXPECT_EQ(told, 0);
  slow.go_on();
  EXPECT_EQ(told, 2);
  // There is nothing to wait for.
  Caller free(f.key, {.usage_log = &slow.log}), unlogged(f.key, {});
  unlogged.take_prompt(1);
  free.settle(CallEnd::kError, 400, tell);
  unlogged.settle(CallEnd::kError, 504, tell);
  EXPECT_EQ(told, 4);
}

TEST(Caller, WhatIsEndedOverItsWorkWaitsForThat) {
  Fixture f;
  const LogFile file;
  SlowLog slow(file.path);
  int told = 0;
  const auto tell = [&told] { ++told; };
  auto caller = std::make_shared<Caller>(f.key, CallFacts{.usage_log = &slow.log});
  EXPECT_TRUE(caller->take_up());
  EXPECT_TRUE(caller->abandon(CallEnd::kTimeout, 504, tell));
  caller->take_prompt(5);  // by a handler that does not know yet
  slow.go_on();
  EXPECT_EQ(told, 0);
  caller.reset();
  slow.log.flush();
  EXPECT_EQ(told, 1);
  // Nobody works on it, and nobody will; or nothing is written down.
  const auto waiting = std::make_shared<Caller>(f.key, CallFacts{.usage_log = &slow.log});
  EXPECT_FALSE(waiting->abandon(CallEnd::kTimeout, 504, tell));
  EXPECT_FALSE(waiting->take_up());
  const auto unlogged = std::make_shared<Caller>(f.key, CallFacts{});
  EXPECT_TRUE(unlogged->take_up());
  EXPECT_FALSE(unlogged->abandon(CallEnd::kTimeout, 504, tell));
  EXPECT_EQ(told, 3);
}

TEST(Caller, WhoLetsGoTooLateIsNotWaitedFor) {
  Fixture f({.concurrency = 1});
  const LogFile file;
  UsageLog log({.path = file.path});
  int told = 0;
  {
    Caller caller(f.key, {.usage_log = &log});
    ASSERT_FALSE(caller.enter());
    caller.tell_now();  // it was not abandoned
    EXPECT_TRUE(caller.take_up());
    caller.take_prompt(5);
    EXPECT_TRUE(caller.abandon(CallEnd::kTimeout, 504, [&] { ++told; }));
    caller.tell_now();
    caller.tell_now();
    log.flush();
    EXPECT_EQ(told, 1);
    EXPECT_EQ(f.tenant->use().active, 1);
    caller.take_token();
  }
  log.flush();
  EXPECT_EQ(f.tenant->use().active, 0);
  EXPECT_EQ(f.used().timeouts, 1);
  EXPECT_EQ(f.used().requests, 1);
  std::ifstream lines(file.path);
  std::string line, second;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_FALSE(std::getline(lines, second));
  EXPECT_EQ(parse_json(line, "line").as_object().at("prompt_tokens"), 5);
}

TEST(Caller, PaysForATextThatBecomesNoPrompt) {
  Fixture f({.tokens_per_minute = 100});
  {
    Caller caller(f.key, {});
    caller.take_text(30);
    EXPECT_EQ(f.tenant->limit_headers()[1].second, "70");  // at once
    caller.take_prompt(10);                                // one of a list
    EXPECT_EQ(f.tenant->limit_headers()[1].second, "70");  // and not twice
    caller.settle(CallEnd::kError, 503);
    EXPECT_EQ(f.used().prompt_tokens, 10);
    EXPECT_EQ(f.used().tokenizer_tokens, 20);
    EXPECT_FALSE(caller.spent());
    caller.take_text(70);
    ASSERT_TRUE(caller.spent());
    EXPECT_EQ(caller.spent()->status, 429);
  }
  Caller ids(f.key, {});
  ids.take_prompt(5);
  EXPECT_EQ(f.used().prompt_tokens, 15);
}

TEST(Caller, WritesOneLineOfWhatWasWorkedOnAndNoneOfARefusal) {
  Fixture f;
  const auto path = std::filesystem::temp_directory_path() / ("ingot-caller-" + std::to_string(getpid()));
  std::filesystem::remove(path);
  {
    UsageLog log({.path = path.string()});
    const CallFacts facts{.id = "req-1", .route = "/v1/completions", .model = "toy", .usage_log = &log};
    Caller(f.key, facts).settle(CallEnd::kError, 400);
    Caller caller(f.key, facts);
    caller.take_prompt(3);
    caller.take_token();
    caller.will_end(CallEnd::kTimeout);
    caller.settle(CallEnd::kError, 504);
    caller.settle(CallEnd::kComplete, 200);
    Caller forgotten(f.key, facts);
    forgotten.take_tokenized(9);
  }
  std::ifstream file(path);
  std::string first, second, third;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_FALSE(std::getline(file, third));
  std::filesystem::remove(path);
  const JsonObject line = parse_json(first, "line").as_object();
  EXPECT_EQ(line.at("tenant"), "alice");
  EXPECT_EQ(line.at("route"), "/v1/completions");
  EXPECT_EQ(line.at("status"), 504);
  EXPECT_EQ(line.at("end"), "timeout");
  EXPECT_EQ(line.at("prompt_tokens"), 3);
  EXPECT_EQ(line.at("completion_tokens"), 1);
  EXPECT_EQ(parse_json(second, "line").as_object().at("tokenizer_tokens"), 9);
}

TEST(Caller, WhereUsageMustBeWrittenNothingIsAnsweredWithoutIt) {
  Fixture f;
  const auto path = std::filesystem::temp_directory_path() / ("ingot-caller-" + std::to_string(getpid()));
  std::filesystem::remove(path);
  for (const bool required : {false, true}) {
    UsageLog log({.path = path.string(), .max_bytes = 10, .required = required});
    Caller caller(f.key, {.usage_log = &log});
    EXPECT_FALSE(caller.enter());
    caller.take_prompt(3);
    std::promise<std::optional<ApiError>> told;
    caller.complete([&](const std::optional<ApiError>& refused) { told.set_value(refused); });
    const std::optional<ApiError> refused = told.get_future().get();
    EXPECT_EQ(refused.has_value(), required);
    EXPECT_TRUE(!refused || refused->status == 503);
    EXPECT_EQ(log.lost(), 1);
    Caller next(f.key, {.usage_log = &log});
    EXPECT_EQ(next.enter().has_value(), required);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ingot
