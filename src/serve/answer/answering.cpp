#include "serve/answer/answering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/answer/answer_run.h"
#include "serve/api/fields.h"
#include "serve/api/generation.h"
#include "serve/api/token_work.h"
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

// On a worker, like all that may take long: what streams goes on.
void make_constraint(ServeContext& context, const HttpHead& head, Generation& generation) {
  if (!generation.wanted) return;
  try {
    compile_constraint(*context.model.constraints, caller_of(head)->tenant(), generation);
  } catch (const ApiError&) {
    context.metrics.grammars_refused.add();
    throw;
  }
  if (generation.relaxed.empty()) return;
  context.metrics.tools_relaxed.add(static_cast<int64_t>(generation.relaxed.size()));
  context.log.warning("tools relaxed", {{"tenant", caller_of(head)->tenant()},
                                        {"tools", fmt::format("{}", fmt::join(generation.relaxed, ","))}});
}

using Reader = Generation (*)(const JsonObject&, const ServedModel&, TokenWork*);
using MakeWriter = std::unique_ptr<AnswerWriter> (*)(const Tokenizer&, AnswerNames);

void answer(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder, const FieldTable& table,
            Reader read, MakeWriter make_writer) {
  const TrimAfter trim(request.body.size());
  Generation generation = [&] {
    const Json body = read_body(request.body, table);
    request.body = std::string();
    TokenWork work(caller_of(request.head), responder, &context.workers);
    return read(body.get_object(), context.model, &work);
  }();
  make_constraint(context, request.head, generation);
  auto writer = make_writer(*context.model.tokenizer, answer_names(context.model, generation));
  std::make_shared<AnswerRun>(context, std::move(request.head), std::move(generation), std::move(writer),
                              std::move(responder))
      ->start();
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
