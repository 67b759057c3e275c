#include "serve/answering.h"

#include "serve/answer_run.h"
#include "serve/fields.h"
#include "serve/generation.h"

namespace ingot {

void handle_chat(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  const AnswerRun::Clock::time_point arrival = AnswerRun::Clock::now();
  const Json body = read_body(request.body, kChatFields);
  Generation generation = read_chat(body.get_object(), context.model);
  auto writer = chat_writer(*context.model.tokenizer, answer_names(context.model, generation));
  std::make_shared<AnswerRun>(context, std::move(request.head), std::move(generation), std::move(writer),
                              std::move(responder), arrival)
      ->start();
}

void handle_completions(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  const AnswerRun::Clock::time_point arrival = AnswerRun::Clock::now();
  const Json body = read_body(request.body, kCompletionFields);
  Generation generation = read_completion(body.get_object(), context.model);
  auto writer = completion_writer(*context.model.tokenizer, answer_names(context.model, generation));
  std::make_shared<AnswerRun>(context, std::move(request.head), std::move(generation), std::move(writer),
                              std::move(responder), arrival)
      ->start();
}

void handle_messages(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  const AnswerRun::Clock::time_point arrival = AnswerRun::Clock::now();
  const Json body = read_body(request.body, kMessagesFields);
  Generation generation = read_messages(body.get_object(), context.model);
  auto writer = messages_writer(answer_names(context.model, generation));
  std::make_shared<AnswerRun>(context, std::move(request.head), std::move(generation), std::move(writer),
                              std::move(responder), arrival)
      ->start();
}

void handle_count_tokens(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  const Json body = read_body(request.body, kCountTokensFields);
  const int64_t tokens = count_message_tokens(body.get_object(), context.model);
  responder->send({.status = 200, .body = to_json(JsonObject{{"input_tokens", tokens}})});
}

}  // namespace ingot
