#include "serve/answer/answer_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "serve/request_guard.h"

namespace ingot {
namespace {

double seconds(AnswerRun::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

ApiError engine_error(FinishReason finish, const std::string& reason) {
  switch (finish) {
    case FinishReason::kConstraint:
      return ApiError{.status = 400,
                      .message = "the answer could not be held to what was asked of it: " + reason,
                      .code = "constraint_failed"};
    case FinishReason::kDeadline:
      return server_busy("the request waited for too long: the server is busy");
    case FinishReason::kCancelled:
      return server_busy("the server is shutting down");
    case FinishReason::kDamaged:
      return model_damaged();
    default:
      return ApiError{.status = 500,
                      .message = "the model could not compute this answer",
                      .code = "model_error",
                      .type = "server_error"};
  }
}

// A prompt with its log-probabilities is one event of up to 10 MB, which takes longer to write than a token may wait: a
// stream that begins so has the workers, which write whole answers as well.
bool on_streams(const Generation& generation) {
  return generation.stream && !(generation.echo && generation.sampling.n_logprobs >= 0);
}

}  // namespace

AnswerRun::AnswerRun(ServeContext& context, HttpHead head, Generation generation, std::unique_ptr<AnswerWriter> writer,
                     std::shared_ptr<Responder> responder)
    : context_(context),
      head_(std::move(head)),
      generation_(std::move(generation)),
      writer_(std::move(writer)),
      responder_(std::move(responder)),
      style_(style_of(head_.path)),
      caller_(caller_of(head_)),
      strand_(on_streams(generation_) ? context.streams : context.workers) {}

// Nobody is left who could answer: there was no memory to hand an event on, or the workers are gone.
AnswerRun::~AnswerRun() {
  if (answered_) return;
  try {
    responder_->abort();
  } catch (...) {
    // The connection's own deadlines end it.
  }
}

template <class F>
void AnswerRun::guarded(F&& body) {
  guard_request(
      body, [this](const ApiError& error) { fail(error); }, [this] { give_up(); });
}

// The reader sees a connection that ends.
void AnswerRun::give_up() {
  try {
    settle();
  } catch (...) {
    done_ = true;
  }
  responder_->abort();
}

void AnswerRun::start() {
  const std::shared_ptr<AnswerRun> self = shared_from_this();
  strand_.post([self] {
    self->guarded([&] {
      if (self->responder_->closed()) return self->leave();
      self->make_choices();
      self->submit_all();
      // The strand is kept alive by its jobs, the run by the engine: the socket must hold neither.
      self->responder_->on_close([weak = std::weak_ptr(self)] {
        const std::shared_ptr<AnswerRun> run = weak.lock();
        if (!run) return;
        run->strand_.post([run] { run->leave(); });
      });
    });
  });
}

// Nobody waits for it.
void AnswerRun::leave() {
  if (done_) return;
  if (!caller_->ended_early()) context_.metrics.client_gone.add();
  settle();
}

void AnswerRun::make_choices() {
  // One for all choices, which the run outlives; it is a part of the generation.
  const std::shared_ptr<const AnswerForm> form(std::shared_ptr<void>(), &generation_.form);
  choices_.reserve(static_cast<size_t>(generation_.total_choices()));
  for (size_t p = 0; p < generation_.prompts.size(); ++p) {
    const std::string* echo = generation_.echo ? &generation_.prompt_texts[p] : nullptr;
    const size_t before = echo ? count_characters(*echo) : 0;
    for (int c = 0; c < generation_.choices; ++c) {
      choices_.push_back({.text = ChoiceText(*context_.model.tokenizer, generation_, before),
                          .parser = {},
                          .echo = echo,
                          .prompt = {},
                          .early = {},
                          .scores = {},
                          .answer = {},
                          .stops = {},
                          .last_token = {}});
      if (!generation_.is_searched()) continue;
      choices_.back().parser.emplace(form, fresh_seed());
      choices_.back().stops.emplace(generation_.stops);
    }
  }
  open_ = static_cast<int>(choices_.size());
  usage_.prompt = generation_.prompt_tokens();
}

void AnswerRun::submit_all() {
  const int n = generation_.choices;
  check_list("prompt", static_cast<size_t>(generation_.total_choices()), context_.engine());
  const size_t room = generation_.max_tokens == 0 ? 0 : 1;
  for (const std::vector<Token>& prompt : generation_.prompts) {
    caller_->check_context(prompt.size() + room, generation_.param);
  }
  if (generation_.timeout_seconds > 0) caller_->set_timeout(generation_.timeout_seconds);
  for (size_t p = 0; p < generation_.prompts.size(); ++p) {
    const int first = static_cast<int>(p) * n;
    if (!generation_.scores_prompts()) {
      submit(p, first, n, nullptr);
      continue;
    }
    // Logits are reported of one choice: the others follow in a request of their own.
    const auto logprobs = std::make_shared<PromptLogprobs>(generation_.prompts[p], generation_.sampling.n_logprobs);
    for (int c = 0; c < n; ++c) choices_[static_cast<size_t>(first + c)].prompt = logprobs;
    submit(p, first, 1, logprobs);
    if (n > 1) submit(p, first + 1, n - 1, nullptr);
  }
  context_.metrics.prompt_tokens.add(usage_.prompt);
}

void AnswerRun::submit(size_t prompt, int first, int count, const std::shared_ptr<PromptLogprobs>& logprobs) {
  Request request;
  request.prompt = generation_.prompts[prompt];
  request.sampling = generation_.sampling;
  request.max_tokens = generation_.max_tokens;
  request.min_tokens = generation_.min_tokens;
  request.end_tokens = generation_.end_tokens;
  request.choices = count;
  request.first_choice = first;  // so that equal prompts of a list are not answered equally
  request.priority = generation_.priority;
  request.reuse_prefix = generation_.reuse_prefix;
  request.constraint = generation_.constraint;
  if (first == 0) request.queue_seconds = context_.queue_seconds;  // once one of a list has begun, the others wait
  if (logprobs) {
    request.on_logits = [logprobs](int position, std::span<const float> logits) { logprobs->take(position, logits); };
  }
  caller_->apply(request);
  const size_t part = parts_.size();
  parts_.push_back({.id = -1, .first = first});
  const Submitted submitted =
      context_.engine().submit(std::move(request), [self = shared_from_this(), part](const Event& event) {
        self->strand_.post([self, part, event] { self->guarded([&] { self->handle(part, event); }); });
      });
  if (submitted.busy) throw turned_away(context_, submitted);
  if (submitted.id < 0) throw bad_field({}, submitted.refused);
  parts_[part].id = submitted.id;
  if (first % generation_.choices == 0) caller_->take_prompt(static_cast<int64_t>(generation_.prompts[prompt].size()));
}

// The prompt's scores are whole, and nobody writes them any more, once its first choice has begun. The others may find
// the prompt in the cache and come first: they wait for that.
void AnswerRun::handle(size_t part, const Event& event) {
  const int index = parts_[part].first + event.choice;
  const auto first = static_cast<size_t>(index - index % generation_.choices);
  Choice& choice = choices_.at(static_cast<size_t>(index));
  if (choice.prompt && static_cast<size_t>(index) != first && !choices_[first].begun) {
    choice.early.push_back(event);
    return;
  }
  const bool opens = choice.prompt && !choice.begun && static_cast<size_t>(index) == first;
  handle_choice(index, event);
  for (size_t c = first + 1; opens && c < first + static_cast<size_t>(generation_.choices); ++c) {
    for (const Event& held : std::exchange(choices_[c].early, {})) handle_choice(static_cast<int>(c), held);
  }
  if (open_ == 0) finish();
}

void AnswerRun::handle_choice(int index, const Event& event) {
  const Choice& choice = choices_[static_cast<size_t>(index)];
  if (done_ || choice.ended) return;  // by a stop string: its cancelling says so too
  measure(index, event);
  if (event.sample.token >= 0) take_token(index, event.sample);
  if (!choice.ended && event.finish != FinishReason::kNone) take_end(index, event);
}

void AnswerRun::measure(int index, const Event& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  const Clock::time_point now = Clock::now();
  Metrics& metrics = context_.metrics;
  caller_->begin();
  // Choices of one prompt share what was found of it.
  if (!std::exchange(choice.begun, true) && index % generation_.choices == 0) {
    metrics.queue_seconds.observe(event.queued_seconds);
    usage_.cached += event.reused;
    metrics.cached_prompt_tokens.add(event.reused);
    caller_->take_cached(event.reused);
  }
  if (event.sample.token < 0) return;
  ++usage_.completion;
  caller_->take_token();
  metrics.generated_tokens.add();
  if (!std::exchange(measured_, true)) {
    usage_.first_seconds = seconds(now - head_.received);
    metrics.first_token_seconds.observe(usage_.first_seconds);
  }
  if (choice.last_token != Clock::time_point()) metrics.gap_seconds.observe(seconds(now - choice.last_token));
  choice.last_token = now;
}

void AnswerRun::take_token(int index, const SampleResult& sample) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  const std::vector<Token>& ends = generation_.end_tokens;
  if (std::ranges::find(ends, sample.token) != ends.end()) return;
  send_echo(index);
  ++choice.unsettled;
  send(index, choice.text.push(sample), false);
  if (stop_of(choice)) {
    end_choice(index, ChoiceEnd::kStopString);
  } else if (choice.parser && choice.parser->complete()) {
    end_choice(index, ChoiceEnd::kToolCalls);
  } else {
    return;
  }
  const auto part =
      std::ranges::find_if(parts_.rbegin(), parts_.rend(), [&](const Part& p) { return p.first <= index; });
  context_.engine().cancel(part->id, index - part->first);
}

void AnswerRun::take_end(int index, const Event& event) {
  const FinishReason reason = event.finish;
  if (reason != FinishReason::kStop && reason != FinishReason::kLength) {
    context_.metrics.finished(reason);
    if (reason == FinishReason::kTimeout) {
      caller_->will_end(CallEnd::kTimeout);
      throw caller_->timeout_error();
    }
    throw engine_error(event.finish, event.reason);
  }
  send_echo(index);
  end_choice(index, reason == FinishReason::kLength ? ChoiceEnd::kLength : ChoiceEnd::kStop);
}

// The prompt, where it is asked for, before the first of the choice's own text.
void AnswerRun::send_echo(int index) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (!choice.echo || choice.echo->empty()) return;
  ChoicePiece out{
      .parts = {}, .scores = {}, .echo = {.text = std::exchange(choice.echo, nullptr), .scores = choice.prompt}};
  if (generation_.stream) {
    write(writer_->piece(index, out));
  } else {
    choice.answer.add(std::move(out));
  }
}

// Scores go out with the text that follows them: what the parser holds back keeps them waiting.
void AnswerRun::send(int index, TextPiece piece, bool last) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  ChoicePiece out;
  if (choice.parser) {
    out.parts = choice.parser->push(piece.text);
    if (last) std::ranges::move(choice.parser->finish(), std::back_inserter(out.parts));
    choice.stops->filter(out.parts, last);
    const auto begins = [](const AnswerPart& part) { return part.kind == AnswerPart::Kind::kCallBegin; };
    choice.called = choice.called || std::ranges::any_of(out.parts, begins);
    count_thoughts(choice, out.parts, last);
  } else if (!piece.text.empty()) {
    out.parts.push_back({.kind = AnswerPart::Kind::kText, .text = std::move(piece.text), .id = {}});
  }
  std::ranges::move(piece.scores, std::back_inserter(choice.scores));
  if (choice.stops && choice.stops->stopped() && out.parts.empty()) choice.scores.clear();  // of the stop string
  if (out.parts.empty() && !(last && !choice.scores.empty())) return;
  out.scores = std::exchange(choice.scores, {});
  if (generation_.stream) {
    write(writer_->piece(index, out));
  } else {
    choice.answer.add(std::move(out));
  }
}

// What gives nothing out belongs to what comes next; the mark that ends the reasoning, to the reasoning.
void AnswerRun::count_thoughts(Choice& choice, const std::vector<AnswerPart>& parts, bool last) {
  const auto is_thought = [](const AnswerPart& part) { return part.kind == AnswerPart::Kind::kReasoning; };
  const bool thinks = std::ranges::any_of(parts, is_thought);
  const bool speaks = !std::ranges::all_of(parts, is_thought);
  if (!thinks && !speaks && !last) return;
  const int64_t tokens = std::exchange(choice.unsettled, 0);
  if (thinks) {
    usage_.reasoning += tokens;
  } else if (choice.thought && !choice.spoke) {
    usage_.reasoning += std::max<int64_t>(0, speaks ? tokens - 1 : tokens);
  }
  choice.thought = choice.thought || thinks;
  choice.spoke = choice.spoke || speaks;
}

void AnswerRun::end_choice(int index, ChoiceEnd end) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  send(index, choice.text.finish(), true);
  if (stop_of(choice)) end = ChoiceEnd::kStopString;  // by what was held back to the end
  if (choice.called && end != ChoiceEnd::kLength) end = ChoiceEnd::kToolCalls;
  choice.ended = true;
  --open_;
  context_.metrics.finished(end == ChoiceEnd::kLength ? FinishReason::kLength : FinishReason::kStop);
  const std::string stop = stop_of(choice).value_or("");
  if (generation_.stream) {
    write(writer_->end_choice(index, end, stop));
  } else {
    choice.answer.end = end;
    choice.answer.stop = stop;
  }
}

const std::optional<std::string>& AnswerRun::stop_of(const Choice& choice) {
  return choice.stops ? choice.stops->matched() : choice.text.matched();
}

// What the answer says of itself beside its bytes.
std::vector<std::pair<std::string, std::string>> AnswerRun::headers() const {
  if (generation_.relaxed.empty()) return {};
  return {{"x-ingot-relaxed-tools", fmt::format("{}", fmt::join(generation_.relaxed, ","))}};
}

// The usage is written down before the client can ask again, and before the event by which it knows that the answer is
// whole.
void AnswerRun::finish() {
  if (done_ || std::exchange(finishing_, true)) return;
  usage_.seconds = seconds(Clock::now() - head_.received);
  if (generation_.stream) {
    last_bytes_ = writer_->end(usage_);
  } else {
    std::vector<ChoiceAnswer> answers;
    for (Choice& choice : choices_) answers.push_back(std::move(choice.answer));
    last_bytes_ = writer_->whole(answers, usage_);
  }
  const auto told = [self = shared_from_this()](const std::optional<ApiError>& refused) {
    self->strand_.post([self, refused] { self->guarded([&] { self->send_end(refused); }); });
  };
  caller_->complete(told, last_bytes_.size());
}

void AnswerRun::send_end(const std::optional<ApiError>& refused) {
  if (done_) return;
  if (refused) throw *refused;
  if (generation_.stream) {
    write(std::move(last_bytes_));
    if (done_) return;
    settle();
    responder_->finish();
  } else {
    settle();
    responder_->send({.status = 200, .body = std::move(last_bytes_), .headers = headers()});
  }
  answered_ = true;
}

void AnswerRun::fail(const ApiError& error) {
  if (done_) return;
  settle();
  caller_->settle(CallEnd::kError, error.status, [self = shared_from_this(), error] {
    self->strand_.post([self, error] { self->send_failure(error); });
  });
}

// What it throws leaves no answer: the end of the run cuts the connection.
void AnswerRun::send_failure(const ApiError& error) {
  if (started_) {
    responder_->write(writer_->failed(error, style_));
    responder_->finish();
  } else {
    responder_->send(error_response(error, style_));
  }
  answered_ = true;
}

// A stream begins with its first event, so that what goes wrong before it still has a status of its own.
void AnswerRun::write(std::string bytes) {
  if (done_ || bytes.empty()) return;
  if (!started_) {
    HttpResponse head{.status = 200,
                      .content_type = writer_->stream_type(),
                      .body = writer_->begin(usage_) + bytes,
                      .headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}}};
    std::ranges::move(headers(), std::back_inserter(head.headers));
    started_ = true;
    responder_->start(std::move(head));
  } else {
    responder_->write(std::move(bytes));
  }
  if (responder_->closed()) settle();  // a reader that stands still is cut by the HTTP layer, which counts it
}

void AnswerRun::cancel_all() {
  for (const Part& part : parts_) {
    if (part.id >= 0) context_.engine().cancel(part.id);
  }
}

// Nothing more is wanted of the engine.
void AnswerRun::settle() {
  if (std::exchange(done_, true)) return;
  if (open_ > 0) cancel_all();
}

}  // namespace ingot
