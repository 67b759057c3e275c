// Every stage that a tokenizer.json can have, on texts that have hung others: time grows with the text and not with its
// square, on a thread with 256 KiB of stack. Patterns that go through PCRE2 may give up, by an error that names them.
#include <gtest/gtest.h>

#include "files/json.h"
#include "text/load/tokenizer_load.h"
#include "text/long_texts_test_support.h"
#include "text/split/matcher.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

constexpr std::string_view kUnits[] = {"a",   "\n",       " ",        "1",      "'", "e\u0301\u0323",
                                       "中A", "👩\u200d👧", " \u00a0x", "\r\n \n"};

struct Stage {
  Json json;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool scanned = true;  // no regular expression, or one that has a scanner

  explicit Stage(const JsonObject& line) {
    json = find(line, "normalizer") != nullptr ? line.at("normalizer") : line.at("pre_tokenizer");
    if (const JsonObject* pattern = find_object(json.as_object(), "pattern")) {
      const std::string regex = get_string(*pattern, "Regex", "");
      scanned = regex.empty() || find_scanner(regex) != nullptr;
    }
    if (!scanned && !has_regex()) return;
    if (find(line, "normalizer") != nullptr)
      read_normalizer(json, normalizer);
    else
      read_pre_tokenizer(json, pre_tokenizer);
  }

  double seconds(const std::string& text) const {
    double best = 1e9;
    std::string buffer;
    PreTokenizer::Scratch scratch;  // kept, so that the second time asks the system for no memory
    for (int i = 0; i < 3; i++) {
      const double start = cpu_seconds();
      pre_tokenizer.split(normalizer.apply(text, buffer), true, scratch);
      best = std::min(best, cpu_seconds() - start);
    }
    return best;
  }
};

void check_linear(const Stage& stage, std::string_view unit) {
  constexpr size_t kBytes = kSanitized ? 1 << 10 : 1 << 13;
  const std::string small = repeat(unit, kBytes);
  const std::string large = repeat(unit, 4 * kBytes);
  double ratio = 0;
  for (int attempt = 0; attempt < 5; attempt++) {
    // Below 50 µs the clock's steps and the cache count for more than the text.
    ratio = stage.seconds(large) / std::max(stage.seconds(small), 5e-5);
    if (ratio < 9 || kSanitized) return;
  }
  ADD_FAILURE() << to_json(stage.json).substr(0, 300) << " takes " << ratio << " times as long for four times " << unit;
}

TEST(LongText, Stages) {
  size_t stages = 0;
  for (const Json& line : json_lines(read_text_file(fixture("stages.jsonl")))) {
    const Stage stage(line.as_object());
    stages++;
    on_small_stack([&] {
      for (const std::string_view unit : kUnits) {
        if (stage.scanned) {
          check_linear(stage, unit);
          continue;
        }
        const std::string error = error_from([&] { stage.seconds(repeat(unit, 1 << 11)); });
        EXPECT_TRUE(error.empty() || error.find("the pattern") != std::string::npos) << error;
      }
    });
  }
  EXPECT_GT(stages, 100u);
}

}  // namespace
}  // namespace ingot
