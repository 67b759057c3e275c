// What asks about answers that are kept: GET and DELETE of /v1/responses/ID, and the items before one.
#pragma once

#include <cstddef>
#include <memory>

#include "serve/http/http.h"

namespace ingot {

class Caller;
struct KeptResponse;
struct ServeContext;

// Reading JSON takes about as long for so many bytes as a tokenizer takes for a token.
inline constexpr size_t kKeptBytesPerToken = 128;

// The caller pays for reading the items that are kept of an answer and of what came before it; their bytes.
size_t charge_reading(Caller& caller, const KeptResponse& kept);

// The object of one, or the list /v1/responses/ID/input_items.
void handle_stored_response(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_delete_response(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);

}  // namespace ingot
