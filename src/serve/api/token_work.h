// The cutting of one request's texts into tokens, which may take seconds: it costs the caller also where the request is
// refused then, ends where nobody waits for it any more, and lets others have the thread between two pieces; the
// template before it does the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "serve/http/http.h"
#include "serve/http/workers.h"
#include "serve/tenants/caller.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ingot {

// One thread at a time: the one that reads the request.
class TokenWork {
 public:
  static constexpr int64_t kStepsPerToken = 32;  // of templates: 1 to 3 us, what a tokenizer takes for a token

  // `workers`: those whose thread it runs on; none: it is nobody else's.
  TokenWork(std::shared_ptr<Caller> caller, std::shared_ptr<Responder> responder, Workers* workers = nullptr);
  TokenWork(const TokenWork&) = delete;
  TokenWork& operator=(const TokenWork&) = delete;

  // encode(pause) gives the tokens of a text of so many bytes: it passes `pause` to the tokenizer. What they cost is
  // the caller's (Caller::take_text); where the tokenizer gives up on a text, a token for every four bytes. Throws
  // ApiError where the client has gone or the request's time is over.
  std::vector<Token> run(size_t bytes, const std::function<std::vector<Token>(const EncodePause&)>& encode);
  // Lets others have the thread where they wait for it. Throws as run() does.
  void give_way();
  // The caller pays for so many steps of a template that came to no text.
  void pay_render(int64_t steps);
  // The same of steps beyond those that the tokens of the text pay for.
  void pay_short_render(int64_t steps, const std::vector<ChatTemplate::Piece>& text);

 private:
  void pause(size_t tokens);

  const std::shared_ptr<Caller> caller_;
  const std::shared_ptr<Responder> responder_;
  Workers* const workers_;
  size_t counted_ = 0;  // of the text at hand
};

}  // namespace ingot
