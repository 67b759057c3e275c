#include "serve/answer/answering.h"

#include "serve/answer/answer_run.h"
#include "serve/api/compile_work.h"
#include "serve/api/fields.h"
#include "serve/api/generation.h"
#include "serve/api/token_work.h"
#include "serve/request_guard.h"
#include "tensor/memory.h"

namespace ingot {
namespace {

// The C library keeps what large requests took for the next one; few come, and the memory is worth more elsewhere.
class TrimAfter {
 public:
  explicit TrimAfter(size_t bytes) : large_(bytes > kLarge) {}
  ~TrimAfter() {
    if (large_) trim_heap();
  }
  TrimAfter(const TrimAfter&) = delete;
  TrimAfter& operator=(const TrimAfter&) = delete;

 private:
  static constexpr size_t kLarge = 512 << 10;
  const bool large_;
};

using Reader = Generation (*)(const JsonObject&, const ServedModel&, TokenWork*);
using MakeWriter = std::unique_ptr<AnswerWriter> (*)(const Tokenizer&, AnswerNames);

// A request that was read, until the engine has it.
struct Ready {
  HttpHead head;
  Generation generation;
  std::shared_ptr<Responder> responder;
  MakeWriter make_writer;
};

void begin(ServeContext& context, Ready ready) {
  auto writer = ready.make_writer(*context.model.tokenizer, answer_names(context.model, ready.generation));
  std::make_shared<AnswerRun>(context, std::move(ready.head), std::move(ready.generation), std::move(writer),
                              std::move(ready.responder))
      ->start();
}

// What the answer is held to; `Run`: of CompileWork.
template <class Run>
auto make_constraint(ServeContext& context, Ready& ready, Run run) {
  CompileWork work(caller_of(ready.head), ready.responder, &context.workers);
  try {
    return (work.*run)([&](const CompileCall& call) {
      compile_constraint(*context.model.constraints, caller_of(ready.head)->tenant(), ready.generation, call);
    });
  } catch (const ApiError& error) {
    if (error.status == 400) context.metrics.grammars_refused.add();
    throw;
  }
}

// One that takes long, on the worker of large bodies, in its tenant's turn.
void compile_later(ServeContext& context, Ready ready) {
  JobCost cost{.payer = ready.head.tenant,
               .bytes = Workers::kLargeBytes + 1 + ready.generation.wanted->source.text.size()};
  const auto held = std::make_shared<Ready>(std::move(ready));
  const bool taken = context.workers.post(
      [&context, held] {
        const TrimAfter trim(SIZE_MAX);
        const std::shared_ptr<Responder> responder = held->responder;
        const ApiStyle style = style_of(held->head.path);
        if (responder->closed()) {  // while it waited
          if (!caller_of(held->head)->ended_early()) context.metrics.client_gone.add();
          return;
        }
        guard_request(
            [&] {
              make_constraint(context, *held, &CompileWork::run_long);
              begin(context, std::move(*held));
            },
            [&](const ApiError& error) { responder->send(error_response(error, style)); }, [&] { responder->abort(); });
      },
      std::move(cost));
  if (taken) return;
  context.metrics.rejected(Rejected::kQueueFull);
  throw server_busy("too many requests are waiting; try again");
}

void answer(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder, const FieldTable& table,
            Reader read, MakeWriter make_writer) {
  const TrimAfter trim(request.body.size());
  const std::shared_ptr<Caller> caller = caller_of(request.head);
  Generation generation = [&] {
    const Json body = read_body(request.body, table);
    request.body = std::string();
    TokenWork work(caller, responder, &context.workers);
    return read(body.get_object(), context.model, &work);
  }();
  if (generation.timeout_seconds > 0) caller->set_timeout(generation.timeout_seconds);
  Ready ready{std::move(request.head), std::move(generation), std::move(responder), make_writer};
  if (ready.generation.wanted && !make_constraint(context, ready, &CompileWork::run_short)) {
    return compile_later(context, std::move(ready));
  }
  begin(context, std::move(ready));
}

}  // namespace

void handle_chat(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  answer(context, std::move(request), std::move(responder), kChatFields, read_chat, chat_writer);
}

void handle_completions(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  answer(context, std::move(request), std::move(responder), kCompletionFields, read_completion, completion_writer);
}

void handle_messages(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  answer(context, std::move(request), std::move(responder), kMessagesFields, read_messages,
         [](const Tokenizer&, AnswerNames names) { return messages_writer(std::move(names)); });
}

void handle_count_tokens(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  const TrimAfter trim(request.body.size());
  const Json body = read_body(request.body, kCountTokensFields);
  const std::shared_ptr<Caller> caller = caller_of(request.head);
  TokenWork work(caller, responder, &context.workers);
  const int64_t tokens = count_message_tokens(body.get_object(), context.model, &work);
  send_complete(*caller, std::move(responder), style_of(request.head.path),
                {.status = 200, .body = to_json(JsonObject{{"input_tokens", tokens}})});
}

}  // namespace ingot
