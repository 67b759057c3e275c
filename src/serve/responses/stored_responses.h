// What asks about answers that are kept: GET and DELETE of /v1/responses/ID, and the items before one.
#pragma once

#include <memory>

#include "serve/http/http.h"

namespace ingot {

struct ServeContext;

// The object of one, or the list /v1/responses/ID/input_items.
void handle_stored_response(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);
void handle_delete_response(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder);

}  // namespace ingot
