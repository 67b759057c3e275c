#include "serve/api/token_work.h"

#include <algorithm>

#include "base/error.h"

namespace ingot {
namespace {

constexpr int64_t kBytesPerToken = 4;
// Of a template beyond its text: a conversation of 20 messages with tools takes some thousands.
constexpr int64_t kFreeSteps = 10'000;

}  // namespace

TokenWork::TokenWork(std::shared_ptr<Caller> caller, std::shared_ptr<Responder> responder, Workers* workers)
    : caller_(std::move(caller)), responder_(std::move(responder)), workers_(workers) {}

void TokenWork::pause(size_t tokens) {
  if (tokens > counted_) caller_->take_text(static_cast<int64_t>(tokens - counted_));
  counted_ = std::max(counted_, tokens);
  give_way();
}

void TokenWork::give_way() {
  const auto check = [this] {
    if (responder_->closed()) throw server_busy("nobody waits for this request any more");  // and nobody reads this
  };
  check();
  if (workers_ && workers_->give_way()) check();
}

std::vector<Token> TokenWork::run(size_t bytes, const std::function<std::vector<Token>(const EncodePause&)>& encode) {
  counted_ = 0;
  try {
    std::vector<Token> tokens = encode([this](size_t so_far) { pause(so_far); });
    if (tokens.size() > counted_) caller_->take_text(static_cast<int64_t>(tokens.size() - counted_));
    return tokens;
  } catch (const Error&) {
    const size_t guess = bytes / size_t{kBytesPerToken} + 1;
    if (guess > counted_) caller_->take_text(static_cast<int64_t>(guess - counted_));
    throw;
  }
}

void TokenWork::pay_short_render(int64_t steps, const std::vector<ChatTemplate::Piece>& text) {
  int64_t bytes = 0;
  for (const ChatTemplate::Piece& piece : text) bytes += static_cast<int64_t>(piece.text.size());
  const int64_t beyond = steps - bytes / kBytesPerToken * kStepsPerToken;
  if (beyond > kFreeSteps) pay_render(beyond);
}

void TokenWork::pay_render(int64_t steps) { caller_->take_tokenized(steps / kStepsPerToken + 1); }

}  // namespace ingot
