#include "serve/answer/answering.h"

#include "serve/answer/answer_run.h"
#include "serve/api/fields.h"
#include "serve/api/generation.h"
#include "serve/api/token_work.h"
#include "serve/responses/response_store.h"
#include "serve/responses/response_writer.h"
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
}

// What `read` makes of the body, by the table's fields: read(object, work).
template <class Read>
auto read_request(ServeContext& context, HttpRequest& request, const std::shared_ptr<Responder>& responder,
                  const FieldTable& table, const Read& read) {
  const Json body = read_body(request.body, table);
  request.body = std::string();
  TokenWork work(caller_of(request.head), responder, &context.workers);
  return read(body.get_object(), &work);
}

// `make_writer` of the answer's names.
template <class MakeWriter>
void start(ServeContext& context, HttpHead head, Generation generation, std::shared_ptr<Responder> responder,
           const MakeWriter& make_writer) {
  make_constraint(context, head, generation);
  std::unique_ptr<AnswerWriter> writer = make_writer(answer_names(context.model, generation));
  std::make_shared<AnswerRun>(context, std::move(head), std::move(generation), std::move(writer), std::move(responder))
      ->start();
}

using Reader = Generation (*)(const JsonObject&, const ServedModel&, TokenWork*);
using MakeWriter = std::unique_ptr<AnswerWriter> (*)(const Tokenizer&, AnswerNames);

void answer(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder, const FieldTable& table,
            Reader read, MakeWriter make_writer) {
  const TrimAfter trim(request.body.size());
  Generation generation =
      read_request(context, request, responder, table,
                   [&](const JsonObject& body, TokenWork* work) { return read(body, context.model, work); });
  start(context, std::move(request.head), std::move(generation), std::move(responder),
        [&](AnswerNames names) { return make_writer(*context.model.tokenizer, std::move(names)); });
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

void handle_responses(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  const TrimAfter trim(request.body.size());
  ResponseStore& store = context.responses;
  const std::string tenant = caller_of(request.head)->tenant();
  const KeptResponses kept{.on = store.on(), .conversation = [&](const std::string& id) -> std::optional<std::string> {
                             const std::shared_ptr<const KeptResponse> found = store.get(tenant, id);
                             if (!found) return std::nullopt;
                             return found->conversation();
                           }};
  ResponseRequest asked = read_request(
      context, request, responder, kResponseFields,
      [&](const JsonObject& body, TokenWork* work) { return read_response(body, context.model, kept, work); });
  KeepResponse keep;
  const std::shared_ptr<void> room = asked.frame.store ? store.hold(asked.frame.input.size()) : nullptr;
  asked.frame.store = room != nullptr;
  if (asked.frame.store) {
    keep = [&store, room, tenant, id = asked.frame.id, input = std::move(asked.frame.input)](
               const std::string& response, const std::string& output) {
      return store.put(tenant, id, {.response = response, .input = input, .output = output});
    };
  }
  start(context, std::move(request.head), std::move(asked.generation), std::move(responder), [&](AnswerNames names) {
    return response_writer(*context.model.tokenizer, std::move(names), std::move(asked.frame), std::move(keep));
  });
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
