// The web page's files as answers, with the headers that keep a browser from running anything else.
#pragma once

#include <memory>

#include "serve/http/http.h"

namespace ingot {

class Server;

// "/" is index.html; "/NAME" the file of that name. REQUIRES: the route table has the path.
void handle_page_file(Server& server, HttpRequest request, std::shared_ptr<Responder> responder);

// Scripts and styles of this server alone; nothing is framed, sent elsewhere or made from strings.
extern const char* const kPagePolicy;

}  // namespace ingot
