// Handlers that tell about the server and its tokenizer: no request of theirs enters the engine.
#pragma once

#include <memory>
#include <string>

#include "serve/http/http.h"

namespace ingot {

class Server;

// 200 while the process can do its work, 503 where a restart would help: the engine makes no step, a worker does not
// come to an end, or a file of the model was cut short. {"status": "ok"}, or {"status", "reason"}
void handle_health(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
// 200 while new requests are taken.
void handle_ready(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
// Prometheus' text format; with series of each tenant for an admin.
void handle_metrics(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
// What was used since the server began: in all and by the caller's own tenant; by every one for an admin.
void handle_usage(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
// OpenAI's list of models, and one of them by its name.
void handle_models(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_model(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
// Every limit of requests: those of the fields, of the body and of the model; and of the caller's key.
std::string limits_text(Server& server);  // but for the key's
void handle_limits(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_openapi(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
// Numbers for the page's charts; docs/web-page.md lists them.
void handle_engine(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);

// {"text"} → {"tokens", "count", "max_model_len"} and {"tokens"} → {"content", "prompt"}: what clients of other servers
// send and read is understood under their names too.
void handle_tokenize(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_detokenize(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);

}  // namespace ingot
