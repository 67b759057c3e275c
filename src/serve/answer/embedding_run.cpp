// /v1/embeddings, /api/embed and /api/embeddings: the inputs are read by the engine, each in a request of its own, and
// answered together.
#include <chrono>
#include <utility>

#include "serve/answer/answering.h"
#include "serve/answer/embedding.h"
#include "serve/api/token_work.h"
#include "serve/ollama/ollama.h"
#include "serve/request_guard.h"
#include "serve/serve_context.h"

namespace ingot {
namespace {

// All of it runs on the strand but the callbacks of the engine and of the socket.
class EmbeddingRun : public std::enable_shared_from_this<EmbeddingRun> {
 public:
  EmbeddingRun(ServeContext& context, HttpHead head, EmbeddingJob job, std::shared_ptr<Responder> responder)
      : context_(context),
        head_(std::move(head)),
        job_(std::move(job)),
        responder_(std::move(responder)),
        caller_(caller_of(head_)),
        strand_(context.workers) {}
  ~EmbeddingRun() {
    if (answered_) return;
    try {
      responder_->abort();  // as AnswerRun does it
    } catch (...) {
      // The connection's own deadlines end it.
    }
  }
  EmbeddingRun(const EmbeddingRun&) = delete;
  EmbeddingRun& operator=(const EmbeddingRun&) = delete;

  void start() {
    const std::shared_ptr<EmbeddingRun> self = shared_from_this();
    strand_.post([self] {
      self->guarded([&] {
        if (self->responder_->closed()) return self->leave();
        const std::string& param = self->job_.param;
        for (const auto& input : self->job_.inputs) self->caller_->check_context(input.size(), param);
        if (self->job_.timeout_seconds > 0) self->caller_->set_timeout(self->job_.timeout_seconds);
        for (size_t i = 0; i < self->job_.inputs.size(); ++i) self->submit(i);
        self->responder_->on_close([weak = std::weak_ptr(self)] {
          const std::shared_ptr<EmbeddingRun> run = weak.lock();
          if (!run) return;
          run->strand_.post([run] { run->leave(); });
        });
      });
    });
  }

 private:
  template <class F>
  void guarded(F&& body) {
    guard_request(
        body, [this](const ApiError& error) { fail(error); }, [this] { give_up(); });
  }

  // Nobody waits for it.
  void leave() {
    if (!done_ && !caller_->ended_early()) context_.metrics.client_gone.add();
    settle();
  }

  void give_up() {
    try {
      settle();
    } catch (...) {
      done_ = true;
    }
    responder_->abort();
  }

  void submit(size_t index) {
    const std::vector<Token>& input = job_.inputs[index];
    const auto pooled =
        std::make_shared<PooledVector>(job_.pooling, input.size(), static_cast<size_t>(context_.model.hidden));
    Request request;
    request.prompt = input;
    request.max_tokens = 0;
    caller_->apply(request);
    if (index == 0) request.queue_seconds = context_.queue_seconds;
    request.hidden_from = pooled->first_row();
    request.on_hidden = [pooled](int position, std::span<const float> hidden) { pooled->take(position, hidden); };
    vectors_.push_back(pooled);
    const Submitted submitted =
        context_.engine().submit(std::move(request), [self = shared_from_this()](const Event& e) {
          self->caller_->begin();
          if (e.finish == FinishReason::kNone) return;
          self->strand_.post([self, reason = e.finish] { self->guarded([&] { self->ended(reason); }); });
        });
    if (submitted.busy) throw turned_away(context_, submitted);
    if (submitted.id < 0) throw bad_field(job_.param, job_.param + " cannot be computed: " + submitted.refused);
    ids_.push_back(submitted.id);
    tokens_ += static_cast<int64_t>(input.size());
    caller_->take_prompt(static_cast<int64_t>(input.size()));
  }

  void ended(FinishReason reason) {
    if (done_) return;
    context_.metrics.finished(reason);
    if (reason == FinishReason::kTimeout) {
      caller_->will_end(CallEnd::kTimeout);
      throw caller_->timeout_error();
    }
    if (reason == FinishReason::kCancelled) throw server_busy("the server is shutting down");
    if (reason == FinishReason::kDeadline) throw server_busy("the request waited too long for its turn");
    if (reason == FinishReason::kDamaged) throw model_damaged();
    if (reason != FinishReason::kLength && reason != FinishReason::kStop) {
      throw ApiError{.status = 500,
                     .message = "the model could not compute this vector",
                     .code = "model_error",
                     .type = "server_error"};
    }
    if (++ended_ == job_.inputs.size()) answer();
  }

  void append_vector(std::string& body, size_t index) const {
    const std::vector<float> vector = vectors_[index]->vector(job_.normalize);
    if (vector.empty()) throw internal_error();
    if (job_.base64) return append_json(body, base64_floats(vector));
    for (size_t v = 0; v < vector.size(); ++v) {
      body += v > 0 ? ',' : '[';
      append_json(body, vector[v]);
    }
    body += ']';
  }

  // As text from the start: of 64 inputs it would be a value of half a million numbers first.
  std::string openai_body() const {
    std::string body = "{\"object\":\"list\",\"data\":[";
    for (size_t i = 0; i < vectors_.size(); ++i) {
      body += fmt::format("{}{{\"object\":\"embedding\",\"index\":{},\"embedding\":", i > 0 ? "," : "", i);
      append_vector(body, i);
      body += '}';
    }
    const JsonObject rest{{"model", context_.model.name},
                          {"usage", JsonObject{{"prompt_tokens", tokens_}, {"total_tokens", tokens_}}}};
    return body + "]," + to_json(rest).substr(1);
  }

  std::string ollama_body() const {
    if (job_.shape == EmbeddingShape::kOllamaOne) {
      std::string body = "{\"embedding\":";
      append_vector(body, 0);
      return body + "}";
    }
    std::string body = "{\"embeddings\":[";
    for (size_t i = 0; i < vectors_.size(); ++i) {
      if (i > 0) body += ',';
      append_vector(body, i);
    }
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - head_.received;
    const JsonObject rest{{"model", context_.model.name},
                          {"total_duration", int64_t{taken.count()}},
                          {"load_duration", 0},
                          {"prompt_eval_count", tokens_}};
    return body + "]," + to_json(rest).substr(1);
  }

  void answer() {
    body_ = job_.shape == EmbeddingShape::kOpenAi ? openai_body() : ollama_body();
    context_.metrics.prompt_tokens.add(tokens_);
    // Before the client can ask again.
    const auto told = [self = shared_from_this()](const std::optional<ApiError>& refused) {
      self->strand_.post([self, refused] { self->guarded([&] { self->send(refused); }); });
    };
    caller_->complete(told, body_.size());
  }

  void send(const std::optional<ApiError>& refused) {
    if (done_) return;
    if (refused) throw *refused;
    settle();
    responder_->send({.status = 200, .body = std::move(body_)});
    answered_ = true;
  }

  void fail(const ApiError& error) {
    if (done_) return;
    settle();
    caller_->settle(CallEnd::kError, error.status, [self = shared_from_this(), error] {
      self->strand_.post([self, error] {
        self->responder_->send(error_response(error, style_of(self->head_.path)));
        self->answered_ = true;
      });
    });
  }

  void settle() {
    if (std::exchange(done_, true)) return;
    if (ended_ < ids_.size()) {
      for (const SeqId id : ids_) context_.engine().cancel(id);
    }
  }

  ServeContext& context_;
  const HttpHead head_;
  const EmbeddingJob job_;
  const std::shared_ptr<Responder> responder_;
  const std::shared_ptr<Caller> caller_;
  Strand strand_;
  std::vector<std::shared_ptr<PooledVector>> vectors_;  // [inputs]
  std::vector<SeqId> ids_;
  size_t ended_ = 0;
  int64_t tokens_ = 0;
  std::string body_;       // of the answer, while its usage is written down
  bool done_ = false;      // nothing more is wanted of the engine
  bool answered_ = false;  // the responder has the answer
};

using Reader = EmbeddingJob (*)(const JsonObject&, const ServedModel&, TokenWork*);

void embed(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder, const FieldTable& table,
           Reader read) {
  const Json body = read_body(request.body, table);
  TokenWork work(caller_of(request.head), responder, &context.workers);
  EmbeddingJob job = read(body.get_object(), context.model, &work);
  check_list(job.param, job.inputs.size(), context.engine());
  job.room = take_room(context, caller_of(request.head)->tenant(), job.held_bytes(context.model.hidden), job.param);
  std::make_shared<EmbeddingRun>(context, std::move(request.head), std::move(job), std::move(responder))->start();
}

}  // namespace

void handle_embeddings(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  embed(context, std::move(request), std::move(responder), kEmbeddingFields, read_embedding);
}

void handle_ollama_embed(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  embed(context, std::move(request), std::move(responder), kOllamaEmbedFields, read_ollama_embed);
}

void handle_ollama_embeddings(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  embed(context, std::move(request), std::move(responder), kOllamaEmbeddingsFields, read_ollama_embeddings);
}

}  // namespace ingot
