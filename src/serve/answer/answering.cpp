#include "serve/answer/answering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "serve/answer/answer_run.h"
#include "serve/answer/long_work.h"
#include "serve/api/compile_work.h"
#include "serve/api/fields.h"
#include "serve/api/generation.h"
#include "serve/api/token_work.h"
#include "serve/ollama/ollama.h"
#include "serve/responses/response_store.h"
#include "serve/responses/response_writer.h"
#include "serve/responses/stored_responses.h"
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

// The writer of an answer of these names.
using MakeWriter = std::function<std::unique_ptr<AnswerWriter>(AnswerNames)>;

// A request that was read, until the engine has it.
struct Ready {
  HttpHead head;
  Generation generation;
  std::shared_ptr<Responder> responder;
  MakeWriter make_writer;
};

// Tools whose calls are not held to their schemas.
void tell_relaxed(ServeContext& context, const Ready& ready) {
  const std::vector<std::string>& relaxed = ready.generation.relaxed;
  if (relaxed.empty()) return;
  context.metrics.tools_relaxed.add(static_cast<int64_t>(relaxed.size()));
  context.log.warning("tools relaxed", {{"tenant", caller_of(ready.head)->tenant()},
                                        {"tools", fmt::format("{}", fmt::join(relaxed, ","))}});
}

void begin(ServeContext& context, Ready ready) {
  tell_relaxed(context, ready);
  Generation& generation = ready.generation;
  generation.wanted.reset();  // it is compiled, and may be a MiB of text
  std::unique_ptr<AnswerWriter> writer = ready.make_writer(answer_names(context.model, ready.generation));
  if (ready.generation.prompts.empty()) {  // whether the model is there is all that was asked
    return send_complete(*caller_of(ready.head), std::move(ready.responder), style_of(ready.head.path),
                         {.body = writer->whole({}, {})});
  }
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

// One that takes long.
void compile_later(ServeContext& context, Ready ready) {
  const auto held = std::make_shared<Ready>(std::move(ready));
  run_as_large(context, held->head, held->responder,
               {.bytes = Workers::kLargeBytes + 1 + held->generation.wanted->source.bytes(),
                .generates = true,
                .run = [&context, held] {
                  make_constraint(context, *held, &CompileWork::run_long);
                  begin(context, std::move(*held));
                }});
}

void start(ServeContext& context, Ready ready) {
  if (ready.generation.timeout_seconds > 0) caller_of(ready.head)->set_timeout(ready.generation.timeout_seconds);
  Generation& asked = ready.generation;  // what waits for the compiler is held, too
  asked.room = take_room(context, caller_of(ready.head)->tenant(), asked.held_bytes(), asked.param);
  if (ready.generation.wanted && !make_constraint(context, ready, &CompileWork::run_short)) {
    return compile_later(context, std::move(ready));
  }
  begin(context, std::move(ready));
}

using Reader = Generation (*)(const JsonObject&, const ServedModel&, TokenWork*);
using WriterOf = std::unique_ptr<AnswerWriter> (*)(const Tokenizer&, AnswerNames);

void answer(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder, const FieldTable& table,
            Reader read, WriterOf writer_of) {
  const TrimAfter trim(request.body.size());
  Generation generation;
  {
    const Json body = read_body(request.body, table);
    request.body = std::string();
    TokenWork work(caller_of(request.head), responder, &context.workers);
    generation = read(body.get_object(), context.model, &work);
  }
  start(context,
        {std::move(request.head), std::move(generation), std::move(responder),
         [&context, writer_of](AnswerNames names) { return writer_of(*context.model.tokenizer, std::move(names)); }});
}

// A request for an answer of /v1/responses, with what it goes on from.
struct AskedResponse {
  HttpHead head;
  Json body;
  std::shared_ptr<const KeptResponse> previous;  // null: nothing, or what is not kept
  std::shared_ptr<Responder> responder;
};

ResponseRequest read_asked(ServeContext& context, AskedResponse& asked) {
  const std::shared_ptr<Caller> caller = caller_of(asked.head);
  const KeptResponses kept{.on = context.responses.on(),
                           .conversation = [&](const std::string&) -> std::optional<std::string> {
                             if (!asked.previous) return std::nullopt;
                             return asked.previous->conversation();
                           }};
  const int of_key = caller->rights().context, of_model = context.model.context;
  const int positions = of_key > 0 ? std::min(of_key, of_model) : of_model;
  TokenWork work(caller, asked.responder, &context.workers);
  ResponseRequest request = read_response(asked.body.get_object(), context.model, positions, kept, &work);
  asked.body = nullptr;
  asked.previous = nullptr;
  return request;
}

void respond(ServeContext& context, AskedResponse from) {
  ResponseStore& store = context.responses;
  const std::string tenant = caller_of(from.head)->tenant();
  ResponseRequest asked = read_asked(context, from);
  KeepResponse keep;
  const std::shared_ptr<void> room = asked.frame.store ? store.hold(tenant, asked.frame.input.size()) : nullptr;
  asked.frame.store = room != nullptr;
  if (!asked.frame.store) asked.frame.input = {};
  if (asked.frame.store) {
    keep = [&store, room, tenant, id = asked.frame.id, input = std::move(asked.frame.input)](
               const std::string& response, const std::string& output) {
      return store.put(tenant, id, {.response = response, .input = input, .output = output});
    };
  }
  start(context, {std::move(from.head), std::move(asked.generation), std::move(from.responder),
                  [&context, frame = std::move(asked.frame), keep = std::move(keep)](AnswerNames names) mutable {
                    return response_writer(*context.model.tokenizer, std::move(names), std::move(frame),
                                           std::move(keep));
                  }});
}

// Versions are dates. Those from this one on have the same messages; the one before it streams in another form. What a
// client asks for by anthropic-beta is known by its fields: the header itself says nothing here.
void check_version(const HttpHead& head) {
  constexpr std::string_view kFirst = "2023-06-01";
  const std::string_view asked = head.header("anthropic-version");
  if (asked.empty()) return;
  bool date = asked.size() == kFirst.size();
  for (size_t i = 0; date && i < asked.size(); ++i) {
    date = kFirst[i] == '-' ? asked[i] == '-' : asked[i] >= '0' && asked[i] <= '9';
  }
  if (date && asked >= kFirst) return;
  throw bad_field({}, fmt::format("the header anthropic-version must be {} or a later date", kFirst));
}

}  // namespace

void handle_chat(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  answer(context, std::move(request), std::move(responder), kChatFields, read_chat, chat_writer);
}

void handle_completions(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  answer(context, std::move(request), std::move(responder), kCompletionFields, read_completion, completion_writer);
}

void handle_messages(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  check_version(request.head);
  try {
    answer(context, std::move(request), std::move(responder), kMessagesFields, read_messages,
           [](const Tokenizer&, AnswerNames names) { return messages_writer(std::move(names)); });
  } catch (ApiError& error) {
    // The code by which clients know to send the whole conversation instead.
    if (error.param == "thread") error.code = "thread_unsupported_request";
    throw;
  }
}

void handle_ollama_chat(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  answer(context, std::move(request), std::move(responder), kOllamaChatFields, read_ollama_chat, ollama_chat_writer);
}

void handle_ollama_generate(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  answer(context, std::move(request), std::move(responder), kOllamaGenerateFields, read_ollama_generate,
         ollama_generate_writer);
}

void handle_responses(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  std::string text = std::move(request.body);
  const size_t bytes = text.size();
  const TrimAfter trim(bytes);
  const std::shared_ptr<Caller> caller = caller_of(request.head);
  AskedResponse asked{.head = std::move(request.head),
                      .body = read_body(text, kResponseFields),
                      .previous = nullptr,
                      .responder = std::move(responder)};
  if (const std::optional<std::string> id = Fields(asked.body.get_object()).string("previous_response_id")) {
    asked.previous = context.responses.get(caller->tenant(), *id);
  }
  const size_t kept = asked.previous ? charge_reading(*caller, *asked.previous) : 0;
  // A large body is on that worker already.
  if (bytes > Workers::kLargeBytes || bytes + kept <= Workers::kLargeBytes) {
    text = std::string();
    return respond(context, std::move(asked));
  }
  // It waits as the text that it came as: many small objects take 15 times as much once they are parsed.
  asked.body = Json();
  const auto held = std::make_shared<AskedResponse>(std::move(asked));
  const auto again = [&context, held, text = std::move(text)] {
    held->body = read_body(text, kResponseFields);
    respond(context, std::move(*held));
  };
  run_as_large(context, held->head, held->responder, {.bytes = bytes + kept, .generates = true, .run = again});
}

void handle_count_tokens(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  check_version(request.head);
  const TrimAfter trim(request.body.size());
  const Json body = read_body(request.body, kCountTokensFields);
  const std::shared_ptr<Caller> caller = caller_of(request.head);
  TokenWork work(caller, responder, &context.workers);
  const int64_t tokens = count_message_tokens(body.get_object(), context.model, &work);
  send_complete(*caller, std::move(responder), style_of(request.head.path),
                {.status = 200, .body = to_json(JsonObject{{"input_tokens", tokens}})});
}

}  // namespace ingot
