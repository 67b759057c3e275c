#include "cli/answer.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/hub/progress.h"
#include "text/decode/stop_strings.h"
#include "text/decode/stream_decoder.h"

namespace ingot {

namespace {

using Clock = std::chrono::steady_clock;

// How often a wait for the next token looks whether the user has had enough.
constexpr std::chrono::milliseconds kLookUp{20};

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

uint64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;  // the kernel counts KiB
}

// Tokens to shown text: whole characters, up to a stop string.
class TextOut {
 public:
  TextOut(const Session& session, const Question& question, const std::function<void(std::string_view)>& show,
          std::string& text)
      : tokenizer_(session.tokenizer()),
        decoder_(tokenizer_, {.show_special = false, .continues = question.continues}),
        stops_(question.stop),
        show_(show),
        text_(text) {}

  // False when a stop string ended the text.
  bool push(Token token) {
    // A model's vocabulary may be padded beyond the tokenizer's: such an id stands for nothing.
    if (!tokenizer_.contains(token)) return true;
    give(stops_.push(decoder_.push(token)));
    return !stops_.stopped();
  }
  void finish() {
    if (stops_.stopped()) return;
    give(stops_.push(decoder_.finish()));
    if (!stops_.stopped()) give(stops_.finish());
  }
  bool stopped() const { return stops_.stopped(); }

 private:
  void give(const std::string& piece) {
    if (piece.empty()) return;
    text_ += piece;
    show_(piece);
  }

  const Tokenizer& tokenizer_;
  StreamDecoder decoder_;
  StopStrings stops_;
  const std::function<void(std::string_view)>& show_;
  std::string& text_;
};

Request make_request(const Session& session, const Question& question) {
  Request request;
  request.prompt = question.prompt;
  request.sampling = question.sampling;
  request.max_tokens = question.max_tokens;
  request.end_tokens = session.end_tokens();
  request.constraint = question.constraint;
  return request;
}

AnswerEnd end_of(FinishReason finish, Session& session, const Answer& answer) {
  if (finish == FinishReason::kDamaged) throw Error("[model] a file of the model was cut short while it was in use");
  const std::string lost = session.engine().lost();
  if (finish == FinishReason::kError && !lost.empty()) throw Error("{}", lost);
  if (finish == FinishReason::kError) throw Error("[engine] the model's logits are not numbers");
  if (finish == FinishReason::kStop) return AnswerEnd::kStop;
  const size_t used = static_cast<size_t>(answer.prompt_tokens) + answer.tokens.size();
  const bool full = used >= static_cast<size_t>(session.context());
  return full ? AnswerEnd::kContextFull : AnswerEnd::kLength;
}

bool is_end_token(const Session& session, Token token) {
  const std::vector<Token>& ends = session.end_tokens();
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

}  // namespace

double Answer::prefill_tps() const { return prefill_seconds > 0 ? prompt_tokens / prefill_seconds : 0; }

double Answer::decode_tps() const {
  if (tokens.size() < 2 || decode_seconds <= 0) return 0;
  return static_cast<double>(tokens.size() - 1) / decode_seconds;
}

Answer answer(Session& session, const Question& question, const std::function<void(std::string_view)>& show,
              const std::function<bool()>& stop) {
  Answer result;
  result.prompt_tokens = static_cast<int>(question.prompt.size());
  TextOut out(session, question, show, result.text);
  Engine& engine = session.engine();
  const Clock::time_point start = Clock::now();
  Clock::time_point first = start;
  const Submission submission = engine.submit(make_request(session, question));
  if (!submission.stream) throw Error("[request] {}", submission.busy ? "the engine is busy" : submission.refused);
  while (!submission.stream->done()) {
    if (stop() || out.stopped()) {
      engine.cancel(submission.id);
      result.end = out.stopped() ? AnswerEnd::kStop : AnswerEnd::kInterrupted;
      break;
    }
    const std::optional<Event> event = submission.stream->next_for(kLookUp);
    if (!event) continue;
    const Token token = event->sample.token;
    if (token >= 0) {
      if (result.tokens.empty()) first = Clock::now();
      result.tokens.push_back(token);
      if (question.sampling.n_logprobs >= 0) result.samples.push_back(event->sample);
      if (!is_end_token(session, token)) out.push(token);
    }
    if (event->finish == FinishReason::kConstraint) throw Error("{}", event->reason);
    if (event->finish != FinishReason::kNone) result.end = end_of(event->finish, session, result);
  }
  if (out.stopped()) result.end = AnswerEnd::kStop;
  out.finish();
  const Clock::time_point end = Clock::now();
  if (result.tokens.empty()) first = end;
  result.prefill_seconds = seconds_between(start, first);
  result.decode_seconds = seconds_between(first, end);
  return result;
}

const char* finish_reason(AnswerEnd end) {
  switch (end) {
    case AnswerEnd::kStop:
      return "stop";
    case AnswerEnd::kLength:
    case AnswerEnd::kContextFull:
      return "length";
    case AnswerEnd::kInterrupted:
      return "interrupted";
  }
  return "";
}

std::string stats_line(const Session& session, const Answer& answer) {
  return fmt::format(
      "load {:.2f} s · prefill {} tokens, {:.1f} tok/s · decode {} tokens, {:.1f} tok/s · first token {:.2f} s · "
      "memory {}",
      session.load_seconds(), answer.prompt_tokens, answer.prefill_tps(), answer.tokens.size(), answer.decode_tps(),
      answer.prefill_seconds, format_bytes(peak_memory()));
}

JsonObject stats_json(const Session& session, const Answer& answer) {
  return JsonObject{{"load_s", session.load_seconds()},    {"ttft_s", answer.prefill_seconds},
                    {"prefill_tps", answer.prefill_tps()}, {"decode_tps", answer.decode_tps()},
                    {"decode_s", answer.decode_seconds},   {"peak_memory_bytes", peak_memory()}};
}

void write_text(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO) == 1;
  if (!terminal) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    std::string safe;
    uint32_t cp = 0;
    for (size_t pos = 0, length = 0; (length = utf8_decode(text, pos, cp)) != 0; pos += length) {
      const bool obeyed = (cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7f && cp < 0xa0);
      utf8_append(safe, obeyed ? 0xFFFD : cp);
    }
    std::fwrite(safe.data(), 1, safe.size(), stdout);
  }
  std::fflush(stdout);
}

}  // namespace ingot
