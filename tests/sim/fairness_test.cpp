// What tenants get of the engine beside each other. INGOT_SIM_SEEDS makes the runs of many seeds longer,
// which begin with INGOT_SIM_FIRST.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "sim/core_fixture.h"
#include "sim/fair_load.h"

namespace ingot::sim {
namespace {

int from_env(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}
int seeds() { return from_env("INGOT_SIM_SEEDS", 12); }

// body(seed) says what did not hold; all seeds and these, on all cores.
void each_seed(const std::function<std::string(uint64_t)>& body, const std::vector<int>& further = {}) {
  std::mutex mutex;
  std::string failures;
  std::atomic<int> next = 0;
  const char* only = std::getenv("INGOT_SIM_SEED");
  const auto work = [&] {
    const int all = seeds() + static_cast<int>(further.size());
    for (int i = next++; i < all; i = next++) {
      const int seed = i < seeds() ? from_env("INGOT_SIM_FIRST", 0) + i : further[static_cast<size_t>(i - seeds())];
      if (only && std::atoi(only) != seed) continue;
      const std::string failed = body(static_cast<uint64_t>(seed));
      const std::lock_guard lock(mutex);
      if (!failed.empty() && failures.size() < 3000) failures += "seed " + std::to_string(seed) + ": " + failed + "\n";
    }
  };
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) pool.emplace_back(work);
  for (std::thread& thread : pool) thread.join();
  EXPECT_EQ(failures, "");
}

// Settings of a server: places, rows, a cache that holds all or not, prompts with and without a target for gaps.
struct Setting {
  EngineConfig config;
  int pages = 0;
};
Setting setting(uint64_t seed) {
  const uint64_t x = mix(seed, 5);
  const int places[] = {8, 16, 16, 32};
  Setting s;
  s.config.max_seqs = places[x % 4];
  s.config.step_rows = x / 4 % 2 ? 256 : 128;
  s.config.page_rows = x / 8 % 2 ? 16 : 32;
  s.config.gap_ms = x / 16 % 4 == 0 ? 5 : 0;
  s.config.prefix_cache = x / 64 % 8 != 0;
  // Of the rows that all places could want, more than all or a third; and a newcomer's.
  const int rows = s.config.max_seqs * 400;
  s.pages = (x / 512 % 4 == 0 ? rows / 3 : 3 * rows) / s.config.page_rows + 2400 / s.config.page_rows;
  return s;
}

// How each tenant differs from the others in what it asks for. Work of all kinds has no end.
void ask(FairTenant& tenant, uint64_t kind) {
  switch (kind % 4) {
    case 0:  // prompts and answers alike
      break;
    case 1:  // answers
      tenant.prompt_from = 5, tenant.prompt_to = 20, tenant.answer_from = 100, tenant.answer_to = 300;
      break;
    case 2:  // answers that outlast the minute
      tenant.prompt_from = 5, tenant.prompt_to = 20, tenant.answer_from = tenant.answer_to = 16'000;
      break;
    case 3:  // prompts
      tenant.prompt_from = 100, tenant.prompt_to = 300, tenant.answer_from = 1, tenant.answer_to = 10;
  }
}

// Tokens of a tenant over what its weight would have given it.
std::string shares(FairLoad& load, double tolerance) {
  int64_t all = 0;
  double weights = 0;
  for (const FairTenant& tenant : load.tenants) all += load.tokens[tenant.name], weights += tenant.weight;
  std::string wrong;
  for (const FairTenant& tenant : load.tenants) {
    const double got = static_cast<double>(load.tokens[tenant.name]) / static_cast<double>(all);
    const double part = got / (tenant.weight / weights);
    if (std::abs(part - 1) > tolerance) wrong += tenant.name + " got " + std::to_string(part) + " of its share; ";
  }
  return wrong;
}

// A minute of endless work of tenants with weights 1, 2 and 4, whatever their priorities.
TEST(Fairness, TokensByWeight) {
  each_seed([](uint64_t seed) {
    Setting s = setting(seed);
    const uint64_t kind = mix(seed, 6);
    if (kind % 4 == 2) {
      // Turns at places that nobody leaves cost little where the cache has what was computed, or are rare.
      s.pages = 100'000;
      s.config.prefix_cache = true;
    }
    FairLoad load(s.config, s.pages, seed);
    // A minute of about 3,500 steps, as a small machine takes them: the fewer, the harder are 5 %.
    load.model.step_seconds *= 4;
    load.model.row_seconds *= 4;
    for (const double weight : {1.0, 2.0, 4.0}) {
      FairTenant tenant{.name = std::to_string(weight), .weight = weight, .open = 40};
      tenant.priority = static_cast<int>(mix(seed, static_cast<uint64_t>(weight)) % 3) * 100 - 100;
      ask(tenant, kind);
      load.tenants.push_back(tenant);
    }
    load.run(60);
    return shares(load, 0.05);
  });
}

// The first token of one that comes among others with endless work: within 1.2 times what it takes alone over its
// share of the weights, and one step. The further seeds are some where much that others took comes back at that moment,
// and four where its prompt has more pages than its share, which others want in the last while it waits or is read.
TEST(Fairness, ANewcomersFirstToken) {
  const auto body = [](uint64_t seed) {
    Setting s = setting(seed);
    s.config.gap_ms = 0;  // whoever asks for small gaps between others' tokens has asked for this too
    const FairTenant newcomer{.name = "new",
                              .weight = 1 + static_cast<double>(mix(seed, 7) % 3),
                              .prompt_from = 300,
                              .prompt_to = 2000,
                              .answer_from = 5,
                              .answer_to = 5};
    const auto first_token = [&](FairLoad& load) {
      const double came = load.now();
      const SeqId id = load.submit(newcomer);
      while (!load.first.contains(id)) load.step();
      return load.first[id] - came;
    };
    const uint64_t others = 1 + mix(seed, 8) % 4;
    for (uint64_t i = 0; i < others; ++i) {
      if (mix(seed, 9 + i) % 4 == 2) s.pages = 100'000;  // for answers that have no end
    }
    FairLoad alone(s.config, s.pages, seed), load(s.config, s.pages, seed);
    double weights = newcomer.weight;
    for (uint64_t i = 0; i < others; ++i) {
      FairTenant tenant{.name = std::to_string(i), .weight = 1 + static_cast<double>(mix(seed, i) % 4), .open = 40};
      tenant.priority = i % 2 ? 100 : 0;
      ask(tenant, mix(seed, 9 + i));
      weights += tenant.weight;
      load.tenants.push_back(tenant);
    }
    load.run(5 + 0.1 * static_cast<double>(mix(seed, 20) % 50));
    for (FairLoad* one : {&alone, &load}) one->reseed(seed);  // prompts of equal lengths
    const double by_itself = first_token(alone);
    load.model.longest_step = 0;
    const double among_others = first_token(load);
    const double share = newcomer.weight / weights;
    if (s.config.max_seqs * share < 1) return std::string();  // it has no place of its own
    const double most = 1.2 * by_itself / share + load.model.longest_step;
    if (among_others <= most) return std::string();
    return std::to_string(among_others) + " s, alone " + std::to_string(by_itself) + " s, its share " +
           std::to_string(share);
  };
  each_seed(body, {768, 1204, 1361, 1888, 3125, 3253, 4606, 4654, 4878, 5362, 5383, 7093});
}

// A tenant that keeps four users at it beside one that floods the engine at the highest priority: what it gets beside
// the same flood at none it gets here.
TEST(Fairness, PriorityIsWithinATenant) {
  std::map<int, double> rate;
  for (const int priority : {0, 100}) {
    FairLoad load({.max_seqs = 16, .step_rows = 256, .page_rows = 32, .max_waiting = 256}, 2000, 3);
    load.tenants = {{.name = "flood", .open = 500, .answer_from = 100, .answer_to = 1000, .priority = priority},
                    {.name = "honest", .open = 4, .priority = -100}};
    load.run(60);
    rate[priority] = static_cast<double>(load.tokens["honest"]);
    EXPECT_EQ(load.busy["honest"], 0);
    EXPECT_GT(load.busy["flood"], 0);
  }
  EXPECT_NEAR(rate[100] / rate[0], 1, 0.02);
  // Four of sixteen places are less than its half: it is served as if it were alone but for slower steps.
  FairLoad alone({.max_seqs = 16, .step_rows = 256, .page_rows = 32}, 2000, 3);
  alone.tenants = {{.name = "honest", .open = 4}};
  alone.run(60);
  EXPECT_GT(rate[100], 0.6 * static_cast<double>(alone.tokens["honest"]));
}

// Places go to who comes, the last seqs of the one with the most give way, and nothing is lost.
TEST(Fairness, PlacesAreTakenFromWhoHasMost) {
  Fixture f([](Fixture& x) { x.config.max_seqs = 8, x.options.context = 600, x.shape.groups = {{.pages = 2000}}; });
  std::map<SeqId, Request> requests;
  const auto come = [&](const std::string& tenant, int n, double weight) {
    std::vector<SeqId> ids;
    for (int i = 0; i < n; ++i) {
      Request r = f.request(tokens_of(static_cast<int>(requests.size()), 10), 300);
      r.tenant = tenant;
      r.weight = weight;
      r.sampling.seed = requests.size();
      ids.push_back(f.submit(r));
      requests[ids.back()] = r;
    }
    return ids;
  };
  const auto held = [&](const std::string& name) {
    const TenantShare* tenant = f.core->scheduler().tenants().find(name);
    return tenant ? tenant->held() : 0;
  };
  come("big", 8, 1);
  come("small", 2, 1);
  for (int i = 0; i < 20; ++i) f.step();
  EXPECT_EQ(held("big"), 6);
  EXPECT_EQ(held("small"), 2);
  // With two of eight weights it may have two places, and takes them from the one that has six.
  const std::vector<SeqId> fresh = come("new", 3, 2.0 / 3);
  for (int i = 0; i < 10; ++i) f.step();
  EXPECT_EQ(held("big"), 4);
  EXPECT_EQ(held("small"), 2);
  EXPECT_EQ(held("new"), 2);
  EXPECT_FALSE(f.made[fresh[0]].empty());
  f.run();
  for (const auto& [id, r] : requests) EXPECT_EQ(f.made[id][0], f.expected(r)) << id;
}

// Half of the pages are enough for one that comes, though another held all.
TEST(Fairness, PagesAreTakenFromWhoHasMost) {
  Fixture f([](Fixture& x) { x.config.max_seqs = 8, x.shape.groups = {{.pages = 60}}; });
  std::map<SeqId, Request> requests;
  for (int i = 0; i < 6; ++i) {
    Request r = f.request(tokens_of(i, 30), 100);
    r.tenant = "big";
    r.priority = 100;
    requests[f.submit(r)] = r;
  }
  for (int i = 0; i < 30; ++i) f.step();
  Request r = f.request(tokens_of(50, 60), 20);
  r.tenant = "new";
  const SeqId id = f.submit(r);
  requests[id] = r;
  for (int i = 0; i < 6; ++i) f.step();
  EXPECT_FALSE(f.made[id].empty());
  EXPECT_GT(f.core->stats().taken, 0);
  f.run();
  for (const auto& [seq, request] : requests) EXPECT_EQ(f.made[seq][0], f.expected(request)) << seq;
}

// One that comes and goes as fast as it can makes another's seqs give way and come back: it pays for that.
TEST(Fairness, TakingInTurnsIsNoThrashing) {
  for (const bool prefix : {false, true}) {
    FairLoad load({.max_seqs = 4, .step_rows = 256, .page_rows = 32, .prefix_cache = prefix}, 4000, 9);
    load.tenants = {
        {.name = "long", .open = 8, .prompt_from = 400, .prompt_to = 800, .answer_from = 400, .answer_to = 800}};
    const FairTenant hasty{.name = "hasty", .prompt_from = 1, .prompt_to = 1, .answer_from = 1, .answer_to = 1};
    for (int step = 0; load.now() < 30; ++step, load.step()) {
      for (int i = 0; step % 4 == 0 && i < 3; ++i) load.submit(hasty);
    }
    const int64_t useful = load.tokens["long"] + load.tokens["hasty"];
    EXPECT_LT(load.model.rows, useful + useful / 3) << prefix;
    EXPECT_GT(load.core->stats().taken, 0) << prefix;
    EXPECT_GT(load.tokens["hasty"], 300) << prefix;
  }
}

// A tenant that makes its own seqs give way to more urgent ones, again and again, computes them again at its own cost:
// another's part of all rows is its share.
TEST(Fairness, WhoSetsItselfBackPaysForIt) {
  FairLoad load({.max_seqs = 8, .step_rows = 256, .page_rows = 32, .prefix_cache = false}, 4000, 11);
  const FairTenant slow{.name = "mixed", .open = 8, .prompt_from = 1500, .prompt_to = 2500};
  const FairTenant urgent{
      .name = "mixed", .prompt_from = 1, .prompt_to = 5, .answer_from = 1, .answer_to = 2, .priority = 100};
  load.tenants = {slow, {.name = "honest", .prompt_from = 200, .prompt_to = 400, .answer_from = 1, .answer_to = 5}};
  const auto run = [&](double seconds) {
    int steps = 0;
    for (const double until = load.now() + seconds; load.now() < until; load.step()) {
      for (int i = 0; steps % 20 == 0 && i < 4; ++i) load.submit(urgent);
      ++steps;
    }
  };
  run(5);
  const int64_t rows = load.model.rows, tokens = load.tokens["honest"];
  run(30);
  const auto all = static_cast<double>(load.model.rows - rows);
  EXPECT_GT(load.core->stats().preempted - load.core->stats().taken, 100);
  EXPECT_GT(static_cast<double>(load.tokens["honest"] - tokens) / all, 0.45);
}

// One key cannot fill the queue: others are let in, it is not.
TEST(Fairness, EachTenantHasItsPartOfTheQueue) {
  Fixture f([](Fixture& x) { x.config.max_seqs = 1, x.config.max_waiting = 8; });
  const auto come = [&](const std::string& tenant) {
    Request r = f.request(tokens_of(1, 4), 5);
    r.tenant = tenant;
    return !f.core->submit(r).busy;
  };
  int flood = 0;
  while (come("flood")) ++flood;
  EXPECT_EQ(flood, 9);  // alone it has the whole queue, and the place that is free
  int others = 0;
  while (come("honest")) ++others;
  EXPECT_EQ(others, 4);
  EXPECT_TRUE(come("third"));
  EXPECT_FALSE(come("flood"));
  f.run();
  EXPECT_EQ(f.core->stats().finished, 9 + 4 + 1);
  EXPECT_TRUE(come("flood"));
  f.run();
}

// A place is one choice's: a request of many takes as many, and what is larger than the queue comes one at a time.
TEST(Fairness, ChoicesCountInTheQueue) {
  Fixture f([](Fixture& x) { x.config.max_seqs = 1, x.config.max_waiting = 16; });
  const auto come = [&](const std::string& tenant, int choices) {
    Request r = f.request(tokens_of(1, 4), 5);
    r.tenant = tenant;
    r.choices = choices;
    return !f.core->submit(r).busy;
  };
  EXPECT_TRUE(come("flood", 6));
  EXPECT_TRUE(come("flood", 6));
  EXPECT_FALSE(come("flood", 6));
  EXPECT_TRUE(come("flood", 4));
  // Eight of sixteen are another's, and no more.
  EXPECT_TRUE(come("honest", 5));
  EXPECT_FALSE(come("honest", 5));
  EXPECT_TRUE(come("honest", 3));
  EXPECT_FALSE(come("honest", 1));
  // With a share of five: of what is larger one, while it has nothing that waits; and one of all who have such.
  EXPECT_TRUE(come("large", 100));
  EXPECT_FALSE(come("large", 1));
  for (const char* tenant : {"fourth", "fifth", "sixth"}) EXPECT_FALSE(come(tenant, 100)) << tenant;
  EXPECT_TRUE(come("fourth", 1));
  f.run();
  EXPECT_TRUE(come("large", 100));
  EXPECT_FALSE(come("large", 100));
  f.run();
  EXPECT_EQ(f.core->stats().waiting, 0);
}

// A request over its deadline ends in the step in which that is noticed, waiting or running, and its pages are free.
TEST(Deadlines, EndWhatWaitsAndWhatRuns) {
  for (const bool ahead : {false, true}) {
    Fixture f([&](Fixture& x) { x.ahead = ahead, x.config.max_seqs = 1; });
    Request runs = f.request(tokens_of(0, 9), 100), waits = f.request(tokens_of(1, 9), 100);
    runs.deadline_seconds = 0.0205;
    waits.deadline_seconds = 0.0305;
    runs.choices = 2;
    const SeqId first = f.submit(runs), second = f.submit(waits);
    for (int i = 0; i < 20; ++i) f.step();
    EXPECT_FALSE(f.finish.contains(first));
    f.step();
    f.step();
    EXPECT_EQ(f.finish[first], FinishReason::kTimeout) << ahead;
    EXPECT_GT(f.made[first][0].size(), 5u);
    const std::vector<int32_t> whole = f.expected(runs);
    EXPECT_TRUE(std::equal(f.made[first][0].begin(), f.made[first][0].end(), whole.begin()));
    const EngineStats stats = f.core->stats();
    EXPECT_EQ(stats.timeouts, 2);  // its two choices
    EXPECT_LE(stats.pages - stats.free_pages - stats.cached_pages, 4) << "only the other's";
    f.run();
    EXPECT_EQ(f.finish[second], FinishReason::kTimeout);
    EXPECT_EQ(f.core->stats().expired, 0);
  }
}

// What cannot be served in time is sent away at once with the time to come back; what is let in is served in time.
TEST(Deadlines, WhoWouldBeLateIsToldAtOnce) {
  FairLoad load({.max_seqs = 4, .step_rows = 64, .page_rows = 32, .ttft_target_ms = 500}, 2000, 4);
  const FairTenant tenant{.name = "a", .prompt_from = 100, .prompt_to = 100, .answer_from = 5, .answer_to = 5};
  load.submit(tenant);
  while (!load.core->idle()) load.step();
  std::map<SeqId, double> came;
  int late = 0;
  for (int i = 0; i < 400; ++i) {
    Request r;
    r.prompt.assign(100, 7);
    r.prompt[0] = i % 900;
    r.max_tokens = 5;
    r.tenant = "b";
    const Submitted submitted = load.core->submit(std::move(r));
    if (submitted.id >= 0) {
      came[submitted.id] = load.now();
      continue;
    }
    EXPECT_TRUE(submitted.busy && submitted.late);
    EXPECT_GT(submitted.retry_seconds, 0);
    EXPECT_LT(submitted.retry_seconds, 60);
    ++late;
  }
  EXPECT_GT(late, 100);
  EXPECT_GT(came.size(), 50u);
  EXPECT_EQ(load.core->stats().late, late);
  // Another tenant has its own share: it is let in.
  EXPECT_GE(load.submit(tenant), 0);
  std::map<SeqId, double> first;
  while (!load.core->idle()) {
    for (const Event& event : load.core->step()) first.try_emplace(event.request, load.now());
  }
  for (const auto& [id, at] : came) EXPECT_LE(first.at(id) - at, 0.75);
}

}  // namespace
}  // namespace ingot::sim
