// Which of several engines gets a request: the one where it is foreseen to be done first, with what of its prompt that
// engine has in its prefix cache already. What engines have to do is counted in rows of prompts, by tenant: an engine
// shares its rows between tenants by weight, so of another tenant's work only as much is in the way as its weight gives
// it meanwhile. What they have cached is kept here as addresses of full pages, the least recently used first to go, as
// an engine does it: a guess, which a request that finds less corrects by being read there.
//
// Knows no engine. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/request.h"

namespace ingot {

struct RouterOptions {
  int engines = 1;
  int page_rows = 32;
  int pages = 0;     // that the prefix cache of an engine may hold; 0: it has none
  uint64_t key = 0;  // of the addresses: random in a server
};

class Router {
 public:
  // A prompt's full pages: the address of each stands for it and all before it.
  struct Prompt {
    uint64_t root = 0;  // tenant, adapter, media
    std::vector<uint64_t> pages;
    int most = 0;       // of the pages, those that may be found
    bool kept = false;  // in the cache
  };

  // A request's place in an engine, which is counted while this lives. One thread at a time.
  class Ticket {
   public:
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    int engine() const { return engine_; }
    int found() const { return found_; }  // rows of the prompt that are expected in the cache
    // What happened to the request. Throws nothing.
    void take(const Event& event);
    // The engine has not taken it: it has none of its pages.
    void withdraw(const Prompt& prompt);

   private:
    friend class Router;
    // An answer: its last full page, and the tokens after it.
    struct Answer {
      uint64_t page = 0;
      std::vector<int32_t> rest = {};
      double rows = 0;  // that it is expected to cost; 0: it has ended
      int made = 0;
    };
    explicit Ticket(Router& router) : router_(router) {}

    Router& router_;
    int engine_ = 0;
    int found_ = 0;
    std::string tenant_;
    bool counted_ = false;         // it has a place
    bool kept_ = false;            // pages of its answers are known
    double reading_ = 0;           // rows of its prompt; 0 once they were read
    std::vector<Answer> answers_;  // [choices]
  };

  explicit Router(const RouterOptions& options);

  Prompt address(const Request& request) const;
  // The best engine of those that were not tried, `tried[engine]`. REQUIRES: there is one; `prompt` is the request's.
  std::shared_ptr<Ticket> assign(const Request& request, const Prompt& prompt, std::span<const char> tried);

  // What an engine has to do, in rows of prompts.
  double left(int engine) const;

 private:
  struct Work {
    double rows = 0;
    double weight = 1;
    int tickets = 0;
  };
  // Addresses of the pages of one engine.
  struct Cache {
    std::list<uint64_t> order;  // the least recently used first
    std::unordered_map<uint64_t, std::list<uint64_t>::iterator> where;
  };
  struct Engine {
    std::map<std::string, Work> tenants;
    Cache cache;
  };

  uint64_t next_page(uint64_t before, std::span<const int32_t> tokens) const;
  int found(const Engine& engine, const Prompt& prompt) const;
  void use(Cache& cache, uint64_t page);
  static double done_after(const Engine& engine, const Request& request, double rows);
  static double left_in(const Engine& engine);
  double expected_answer(const Request& request) const;

  const RouterOptions options_;
  mutable std::mutex mutex_;
  std::vector<Engine> engines_;
  double answer_tokens_;  // of an answer, by those that ended
};

}  // namespace ingot
