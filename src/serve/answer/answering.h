// One request for text or embeddings, from its body to the last byte of its answer.
//
// handle_*() run on a worker thread: they read and check the body, render and tokenize the prompt, submit to the
// engine and return. The engine's thread then queues events; workers turn these into text and bytes, one at a time for
// each request, so that nothing is reordered. A client that goes is noticed by the io thread and its request cancelled.
// None of them throws: what goes wrong is the answer.
#pragma once

#include <memory>

#include "serve/http/http.h"

namespace ingot {

struct ServeContext;

void handle_chat(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_completions(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_messages(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_responses(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_count_tokens(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_embeddings(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_ollama_chat(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_ollama_generate(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_ollama_embed(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_ollama_embeddings(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);

}  // namespace ingot
