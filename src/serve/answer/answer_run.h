// One request for text while the engine works on it. answering.h has the way in.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/answer/answer_writer.h"
#include "serve/answer/prompt_logprobs.h"
#include "serve/answer/visible_stops.h"
#include "serve/serve_context.h"

namespace ingot {

// All of it runs on the request's strand but the engine's and the socket's callbacks, which only post to it. The engine
// holds it until its choices have ended.
class AnswerRun : public std::enable_shared_from_this<AnswerRun> {
 public:
  using Clock = std::chrono::steady_clock;

  AnswerRun(ServeContext& context, HttpHead head, Generation generation, std::unique_ptr<AnswerWriter> writer,
            std::shared_ptr<Responder> responder);
  ~AnswerRun();
  AnswerRun(const AnswerRun&) = delete;
  AnswerRun& operator=(const AnswerRun&) = delete;

  // Submits and returns; the answer comes by itself. Does not throw.
  void start();

 private:
  struct Choice {
    ChoiceText text;
    std::optional<AnswerParser> parser;  // of conversations
    const std::string* echo = nullptr;   // of the generation; to be sent before the text
    std::shared_ptr<PromptLogprobs> prompt;
    std::vector<Event> early;         // that came before the prompt's scores
    std::vector<ScoredToken> scores;  // that wait for text
    ChoiceAnswer answer;              // where the answer is not streamed
    bool begun = false, ended = false;
    std::optional<VisibleStops> stops;    // where there is a parser
    bool called = false;                  // a call was given out
    bool thought = false, spoke = false;  // some reasoning was given out; something else was
    int64_t unsettled = 0;                // tokens that may be reasoning or not
    Clock::time_point last_token;
  };
  // A request to the engine: choices [first, first + count) of the whole.
  struct Part {
    SeqId id = -1;
    int first = 0;
  };

  template <class F>
  void guarded(F&& body);
  void give_up();
  void make_choices();
  void submit_all();
  void submit(size_t prompt, int first, int count, const std::shared_ptr<PromptLogprobs>& logprobs);
  void handle(size_t part, const Event& event);
  void handle_choice(int index, const Event& event);
  void measure(int index, const Event& event);
  void take_token(int index, const SampleResult& sample);
  void take_end(int index, const Event& event);
  void send_echo(int index);
  void send(int index, TextPiece piece, bool last);
  void count_thoughts(Choice& choice, const std::vector<AnswerPart>& parts, bool last);
  void end_choice(int index, ChoiceEnd end);
  static const std::optional<std::string>& stop_of(const Choice& choice);
  std::vector<std::pair<std::string, std::string>> headers() const;
  void leave();
  void finish();
  void send_end(const std::optional<ApiError>& refused);
  void fail(const ApiError& error);
  void send_failure(const ApiError& error);
  void write(std::string bytes);
  void cancel_all();
  void settle();

  ServeContext& context_;
  const HttpHead head_;
  const Generation generation_;
  const std::unique_ptr<AnswerWriter> writer_;
  const std::shared_ptr<Responder> responder_;
  const ApiStyle style_;
  const std::shared_ptr<Caller> caller_;
  Strand strand_;
  std::vector<Choice> choices_;
  std::vector<Part> parts_;
  int open_ = 0;  // choices that have not ended
  Usage usage_;
  bool measured_ = false;   // the first token came
  bool started_ = false;    // the stream has
  bool finishing_ = false;  // all choices have ended; their usage is being written down
  std::string last_bytes_;  // what is sent then: a stream's last event, or the whole answer
  bool done_ = false;       // nothing more is wanted of the engine
  bool answered_ = false;   // the responder has the end of the answer
};

}  // namespace ingot
