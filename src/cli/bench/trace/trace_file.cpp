#include "cli/bench/trace/trace_file.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "files/json.h"

namespace ingot {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 20;
constexpr double kMaxSeconds = 1e10;  // since 1970, or since the trace began
constexpr std::string_view kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";

// One line after the other, without their ends; empty ones are passed over.
class Lines {
 public:
  Lines(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  std::optional<std::string_view> next() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.size() > kMaxLineBytes)
        throw Error("{}: {} bytes, at most {} allowed", at(), line.size(), kMaxLineBytes);
      if (line.find_first_not_of(" \t") != std::string_view::npos) return line;
    }
    return {};
  }

  // "[trace] FILE line N"
  std::string at() const { return fmt::format("[trace] {} line {}", where_, number_); }

 private:
  std::string_view text_;
  std::string_view where_;
  int64_t number_ = 0;
};

// All of `text` as a number in [low, high]; `what` names it.
int64_t number(std::string_view text, int64_t low, int64_t high, std::string_view what, const Lines& lines) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw Error("{}: {} is '{}', expected a number from {} to {}", lines.at(), what, text.substr(0, 40), low, high);
  }
  return value;
}

// "2023-11-16 18:15:46.6805900", the fraction optional and up to nine digits, UTC: seconds since 1970.
double timestamp(std::string_view text, const Lines& lines) {
  const std::string_view whole = text;
  const auto bad = [&] {
    return Error("{}: '{}' is not a time such as 2023-11-16 18:15:46.6805900", lines.at(), whole.substr(0, 40));
  };
  for (const std::string_view zone : {"+00:00", "Z"}) {
    if (text.ends_with(zone)) text.remove_suffix(zone.size());
  }
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd";
  if (text.size() < kForm.size()) throw bad();
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !digit : text[i] != kForm[i] && !(i == 10 && text[i] == 'T')) throw bad();
  }
  const auto part = [&](size_t from, size_t n, int high) {
    return static_cast<int>(number(text.substr(from, n), 0, high, "the time", lines));
  };
  const std::chrono::year_month_day day(std::chrono::year(part(0, 4, 9999)),
                                        std::chrono::month(static_cast<unsigned>(part(5, 2, 12))),
                                        std::chrono::day(static_cast<unsigned>(part(8, 2, 31))));
  if (!day.ok()) throw bad();
  const int seconds = part(11, 2, 23) * 3600 + part(14, 2, 59) * 60 + part(17, 2, 60);
  double fraction = 0;
  if (text.size() > kForm.size()) {
    const std::string_view digits = text.substr(kForm.size() + 1);
    if (text[kForm.size()] != '.' || digits.size() > 9) throw bad();
    fraction = static_cast<double>(number(digits, 0, 999'999'999, "the time's fraction", lines));
    for (size_t i = 0; i < digits.size(); ++i) fraction /= 10;
  }
  const double days = static_cast<double>(std::chrono::sys_days(day).time_since_epoch().count());
  return days * 86400 + seconds + fraction;
}

TraceRequest azure_request(std::string_view line, const Lines& lines) {
  const size_t first = line.find(',');
  const size_t second = first == std::string_view::npos ? first : line.find(',', first + 1);
  if (second == std::string_view::npos || line.find(',', second + 1) != std::string_view::npos) {
    throw Error("{}: expected three fields, {}", lines.at(), kAzureHeader);
  }
  const auto tokens = [&](size_t from, size_t to, std::string_view what) {
    return static_cast<int>(number(line.substr(from, to - from), 0, kMaxTraceTokens, what, lines));
  };
  return {.arrival = timestamp(line.substr(0, first), lines),
          .prompt = tokens(first + 1, second, "ContextTokens"),
          .output = tokens(second + 1, line.size(), "GeneratedTokens")};
}

TraceRequest mooncake_request(std::string_view line, const Lines& lines) {
  const std::string at = lines.at();
  const Json json = parse_json(line, at, {.max_depth = 4, .max_bytes = kMaxLineBytes});
  const JsonObject& object = as_object(json, at);
  const auto member = [&](std::string_view key) -> const Json& {
    const Json* value = find(object, key);
    if (!value) throw Error("{}: '{}' is missing", at, key);
    return *value;
  };
  const auto tokens = [&](std::string_view key) {
    return static_cast<int>(as_int(member(key), fmt::format("{}: '{}'", at, key), 0, kMaxTraceTokens));
  };
  TraceRequest request{.arrival = as_float(member("timestamp"), at + ": 'timestamp'") / 1e3,
                       .prompt = tokens("input_length"),
                       .output = tokens("output_length")};
  if (!(request.arrival >= 0 && request.arrival <= kMaxSeconds)) {
    throw Error("{}: 'timestamp' is {} s, expected 0 to {}", at, request.arrival, kMaxSeconds);
  }
  if (!find(object, "hash_ids")) return request;
  const std::string what = at + ": 'hash_ids'";
  for (const Json& id : as_array(member("hash_ids"), what)) request.blocks.push_back(as_int(id, what, 0));
  const int needed = (request.prompt + kTraceBlockTokens - 1) / kTraceBlockTokens;
  if (!request.blocks.empty() && request.blocks.size() < static_cast<size_t>(needed)) {
    throw Error("{}: {} hash_ids for {} tokens, expected {}", at, request.blocks.size(), request.prompt, needed);
  }
  return request;
}

}  // namespace

Trace parse_trace(std::string_view text, std::string_view where, size_t limit) {
  Lines lines(text, where);
  std::optional<std::string_view> line = lines.next();
  if (!line) throw Error("[trace] {} is empty", where);
  Trace trace{.kind = line->starts_with('{') ? "mooncake" : "azure", .requests = {}};
  const auto read = trace.kind == "azure" ? azure_request : mooncake_request;
  if (trace.kind == "azure") {
    if (*line != kAzureHeader) {
      throw Error("{}: expected the header {} or a JSON object with timestamp and lengths", lines.at(), kAzureHeader);
    }
    line = lines.next();
  }
  for (; line && (limit == 0 || trace.requests.size() < limit); line = lines.next()) {
    trace.requests.push_back(read(*line, lines));
  }
  if (trace.requests.empty()) throw Error("[trace] {} has no requests", where);
  std::ranges::stable_sort(trace.requests, {}, &TraceRequest::arrival);
  const double begin = trace.requests.front().arrival;
  for (TraceRequest& request : trace.requests) request.arrival -= begin;
  return trace;
}

Trace read_trace(const std::string& path, size_t limit) { return parse_trace(read_text_file(path), path, limit); }

}  // namespace ingot
