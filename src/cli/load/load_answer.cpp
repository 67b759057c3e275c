#include "cli/load/load_answer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace ingot {
namespace {

constexpr size_t kKeptBytes = 8 << 10;   // of the body of an error
constexpr size_t kProblemLetters = 200;  // of a message that is shown

bool has_text(const JsonObject& object, std::string_view key) {
  const Json* value = find(object, key);
  return value != nullptr && value->is_string() && !value->get_string().empty();
}

int count_of(const JsonObject& usage, std::string_view key) {
  return static_cast<int>(get_int(usage, key, 0, 0, std::numeric_limits<int>::max()));
}

}  // namespace

std::string error_text(std::string_view body) {
  std::string text;
  try {
    const Json json = parse_json(body, "the answer");
    const Json* at = &json;
    for (const char* key : {"error", "message"}) {
      const Json* inner = at->is_object() ? find(at->get_object(), key) : nullptr;
      if (inner != nullptr) at = inner;
    }
    text = at->is_string() ? std::string(at->get_string()) : to_json(*at);
  } catch (const Error&) {
    text = body;
  }
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text.substr(0, kProblemLetters);
}

AnswerReader::AnswerReader(LoadRecord& record)
    : record_(record), parser_([this](std::string_view, std::string_view data) { on_event(data); }) {}

void AnswerReader::feed(std::string_view bytes, double at) {
  at_ = at;
  if (record_.status != 200) {
    body_ += bytes.substr(0, kKeptBytes - std::min(kKeptBytes, body_.size()));
    return;
  }
  try {
    if (failure_.empty()) parser_.feed(bytes);
  } catch (const Error& error) {
    failure_ = error.what();
  }
}

void AnswerReader::on_event(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Json json = parse_json(data, "[sse] an event");
  const JsonObject& event = as_object(json, "[sse] an event");
  if (const Json* error = find(event, "error"); error != nullptr && !error->is_null()) {
    failure_ = "an event says: " + error_text(data);
    return;
  }
  if (const JsonArray* choices = find_array(event, "choices")) {
    for (const Json& choice : *choices) on_choice(as_object(choice, "[sse] choices[]"));
  }
  if (const JsonObject* usage = find_object(event, "usage")) {
    record_.prompt_tokens = count_of(*usage, "prompt_tokens");
    record_.tokens = count_of(*usage, "completion_tokens");
    record_.counted = true;
  }
}

void AnswerReader::on_choice(const JsonObject& choice) {
  bool text = has_text(choice, "text");
  if (const JsonObject* delta = find_object(choice, "delta")) {
    for (const char* key : {"content", "reasoning_content", "reasoning", "refusal"}) text |= has_text(*delta, key);
    const JsonArray* calls = find_array(*delta, "tool_calls");
    text |= calls != nullptr && !calls->empty();
  }
  if (text) on_text();
  const std::string finish = get_string(choice, "finish_reason", "");
  if (!finish.empty()) record_.finish = finish;
}

void AnswerReader::on_text() {
  if (record_.pieces++ == 0) {
    record_.first = at_;
  } else {
    record_.gaps.push_back(static_cast<float>(at_ - record_.last));
  }
  record_.last = at_;
}

void AnswerReader::end(double at, std::string_view problem) {
  using State = LoadRecord::State;
  record_.end = at;
  if (!record_.counted) record_.tokens = record_.pieces;
  if (record_.pieces == 0) record_.first = record_.last = at;  // an answer may be empty
  if (record_.status == 0) {
    record_.state = State::kFailed;
    record_.problem = problem.empty() ? "no answer" : problem;
  } else if (record_.status != 200) {
    const bool busy = record_.status == 429 || record_.status == 503;
    record_.state = busy ? State::kRejected : State::kFailed;
    record_.problem = fmt::format("status {}: {}", record_.status, error_text(body_));
  } else if (!failure_.empty()) {
    record_.state = State::kFailed;
    record_.problem = failure_;
  } else if (!problem.empty() || (!done_ && record_.finish.empty())) {
    record_.state = State::kLost;
    record_.problem =
        fmt::format("the answer broke off{}{}", problem.empty() ? "" : ": ", problem.substr(0, kProblemLetters));
  } else {
    record_.state = State::kOk;
  }
}

}  // namespace ingot
