#include "cli/load/load_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "base/error.h"

namespace ingot {
namespace {

constexpr size_t kMaxArrivals = size_t{1} << 24;
constexpr size_t kRequestsOfClient = 10;
constexpr size_t kOpenRequests = 100;

// Words that most vocabularies have as one token each.
constexpr auto kWords = std::to_array<std::string_view>(
    {"time",      "year",       "people",      "way",       "day",    "man",        "thing",  "woman",   "life",
     "child",     "world",      "school",      "state",     "family", "student",    "group",  "country", "problem",
     "hand",      "part",       "place",       "case",      "week",   "company",    "system", "program", "question",
     "work",      "government", "number",      "night",     "point",  "home",       "water",  "room",    "mother",
     "area",      "money",      "story",       "fact",      "month",  "lot",        "right",  "study",   "book",
     "eye",       "job",        "word",        "business",  "issue",  "side",       "kind",   "head",    "house",
     "service",   "friend",     "father",      "power",     "hour",   "game",       "line",   "end",     "member",
     "law",       "car",        "city",        "community", "name",   "president",  "team",   "minute",  "idea",
     "kid",       "body",       "information", "back",      "parent", "face",       "others", "level",   "office",
     "door",      "health",     "person",      "art",       "war",    "history",    "party",  "result",  "change",
     "morning",   "reason",     "research",    "girl",      "guy",    "moment",     "air",    "teacher", "force",
     "education", "foot",       "boy",         "age",       "policy", "music",      "market", "process", "sense",
     "nation",    "plan",       "college",     "interest",  "death",  "experience", "effect", "use",     "class",
     "control",   "field",      "paper",       "light",     "sound",  "tree",       "river",  "stone",   "road",
     "garden",    "summer"});

// A number in [0, 1) that depends on all of its arguments.
double draw(uint64_t seed, uint64_t index, uint64_t purpose) {
  std::seed_seq seeds{seed, seed >> 32, index, index >> 32, purpose};
  std::mt19937_64 random(seeds);
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

std::string text_of(const std::vector<int32_t>& words) {
  std::string text;
  for (const int32_t word : words) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<size_t>(word)];
  }
  return text;
}

}  // namespace

LoadPlan::LoadPlan(const LoadOptions& options)
    : options_(options),
      mode_(!options.trace.empty() ? Mode::kTrace
            : options.rate > 0     ? Mode::kOpen
                                   : Mode::kClosed),
      requests_(options.requests) {
  if (options.prompt_ids > 0 && options.chat) throw Error("[load] prompts of ids need --endpoint completions");
  if (mode_ == Mode::kTrace) {
    trace_ = read_trace(options.trace, options.requests);
    for (const TraceRequest& request : trace_.requests) dues_.push_back(request.arrival / options.scale.time);
  } else if (mode_ == Mode::kOpen) {
    if (requests_ == 0 && options.duration == 0) requests_ = kOpenRequests;
    double at = 0;
    while (dues_.size() < kMaxArrivals && (requests_ == 0 || dues_.size() < requests_)) {
      if (options.duration > 0 && at > options.duration) break;
      dues_.push_back(at);
      at -= std::log(1 - draw(options.seed, dues_.size(), 1)) / options.rate;
    }
  } else if (requests_ == 0 && options.duration == 0) {
    requests_ = kRequestsOfClient * static_cast<size_t>(options.concurrency);
  }
  if (mode_ == Mode::kClosed) return;
  if (options.duration > 0) {
    dues_.resize(static_cast<size_t>(std::ranges::upper_bound(dues_, options.duration) - dues_.begin()));
  }
  requests_ = dues_.size();
}

const char* LoadPlan::mode_name() const {
  return mode_ == Mode::kClosed ? "closed" : mode_ == Mode::kOpen ? "open" : "trace";
}

std::vector<int32_t> LoadPlan::prompt(size_t index, int vocab) const {
  const TraceScale whole{.length = 1, .time = 1};
  std::vector<int32_t> prompt;
  if (options_.shared_words > 0) {
    prompt = trace_prompt({.prompt = options_.shared_words}, ~options_.seed, whole, vocab);
  }
  // No other seed, and no other request, has a prompt of this number.
  const size_t number = (static_cast<size_t>(options_.seed) << 32) + index;
  const std::vector<int32_t> own = mode_ == Mode::kTrace
                                       ? trace_prompt(trace_.requests[index], number, options_.scale, vocab)
                                       : trace_prompt({.prompt = options_.prompt_tokens}, number, whole, vocab);
  prompt.insert(prompt.end(), own.begin(), own.end());
  return prompt;
}

int LoadPlan::gen_tokens(size_t index) const {
  return mode_ == Mode::kTrace ? scaled_tokens(trace_.requests[index].output, options_.scale) : options_.gen_tokens;
}

std::string LoadPlan::body(size_t index) const {
  JsonObject body{{"model", options_.model},
                  {"max_tokens", gen_tokens(index)},
                  {"temperature", 0.0},
                  {"stream", true},
                  {"stream_options", JsonObject{{"include_usage", true}}}};
  if (options_.ignore_eos) body["ignore_eos"] = true;
  if (options_.prompt_ids > 0) {
    JsonArray ids;
    for (const int32_t id : prompt(index, options_.prompt_ids)) ids.push_back(id);
    body["prompt"] = std::move(ids);
  } else {
    std::string text = text_of(prompt(index, static_cast<int>(kWords.size())));
    if (options_.chat) {
      body["messages"] = JsonArray{JsonObject{{"role", "user"}, {"content", text}}};
    } else {
      body["prompt"] = std::move(text);
    }
  }
  for (const auto& [name, value] : options_.fields) body[name] = value;
  return to_json(body);
}

LoadCancel LoadPlan::cancel(size_t index) const {
  if (draw(options_.seed, index, 2) >= options_.cancel_percent / 100) return {};
  // Half of them while the answer comes, half at any time since it was asked for.
  const double when = draw(options_.seed, index, 3);
  if (draw(options_.seed, index, 4) < 0.5) {
    return {.pieces = 1 + static_cast<int>(when * std::max(1, gen_tokens(index) - 1)), .ms = 0};
  }
  return {.pieces = 0, .ms = 1 + static_cast<int>(when * when * 1000)};
}

}  // namespace ingot
