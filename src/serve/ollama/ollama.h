// Ollama's API on the same engine: its requests become a Generation like all others, its answers are one object, or one
// a line. What fetches, makes or removes models has no route: this server has one model, and keeps it.
#pragma once

#include <memory>
#include <string>

#include "serve/answer/answer_writer.h"
#include "serve/answer/embedding.h"

namespace ingot {

struct ServeContext;
class Server;

// The release whose fields these routes know; clients ask for it to learn what they may send.
inline constexpr const char* kOllamaVersion = "0.13.0";

// /api/chat and /api/generate. `body` has passed read_body() with their tables. A request without messages or prompt
// asks whether the model is there: its Generation has no prompts. Throw ApiError.
Generation read_ollama_chat(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);
Generation read_ollama_generate(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);
// /api/embed and /api/embeddings.
EmbeddingJob read_ollama_embed(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);
EmbeddingJob read_ollama_embeddings(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);

// Their objects. Calls come whole, once their arguments are; one that the answer's end cut is left out.
std::unique_ptr<AnswerWriter> ollama_chat_writer(const Tokenizer& tokenizer, AnswerNames names);
std::unique_ptr<AnswerWriter> ollama_generate_writer(const Tokenizer& tokenizer, AnswerNames names);

// "2026-01-31T12:00:00.000000Z" of a time in seconds.
std::string ollama_time(double unix_seconds);

// The model as it is listed, as it runs, and in detail; and the version. No path of this machine is told.
void handle_ollama_tags(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_ollama_ps(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_ollama_show(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_ollama_version(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);

}  // namespace ingot
