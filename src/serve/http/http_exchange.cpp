#include "serve/http/http_exchange.h"

#include <algorithm>
#include <utility>

namespace ingot {

namespace {

constexpr size_t kMostFactor = 4;  // of the limit: what comes in a moment, before it is seen whether it is taken

}  // namespace

bool HttpMailbox::post(std::function<void()> body) {
  const std::lock_guard lock(mutex_);
  if (!poster_) return false;
  poster_(std::move(body));
  return true;
}

bool HttpMailbox::wake(const std::shared_ptr<HttpExchange>& exchange) noexcept {
  const std::lock_guard lock(mutex_);
  if (!poster_) return false;
  try {
    poster_([exchange] { exchange->look(); });
  } catch (...) {
    if (!std::exchange(exchange->is_lost_, true)) exchange->next_lost_ = std::exchange(lost_, exchange);
    kick_();
  }
  return true;
}

void HttpMailbox::wake_lost() {
  while (true) {
    std::shared_ptr<HttpExchange> first;
    {
      const std::lock_guard lock(mutex_);
      if (!lost_) return;
      first = std::exchange(lost_, nullptr);
      lost_ = std::exchange(first->next_lost_, nullptr);
      first->is_lost_ = false;
    }
    first->look();
  }
}

void HttpMailbox::close() {
  std::shared_ptr<HttpExchange> lost;  // goes without the lock
  const std::lock_guard lock(mutex_);
  poster_ = nullptr;
  lost = std::exchange(lost_, nullptr);
}

// One message to the io thread for all that is given until it looks.
void HttpExchange::wake_up() {
  if (woken_) return;
  woken_ = mailbox_->wake(shared_from_this());
}

void HttpExchange::end() {
  ended_ = true;
  on_close_.clear();
}

void HttpExchange::hold(size_t bytes) {
  held_ += bytes;
  outbox_->add(bytes);
}

void HttpExchange::freed(size_t bytes) {
  held_ -= bytes;
  outbox_->remove(bytes);
}

void HttpExchange::send(HttpResponse response) {
  std::vector<std::function<void()>> dropped;  // destroyed without the lock: they may own anything
  const std::lock_guard lock(mutex_);
  if (gone_ || begun_) return;
  begun_ = true;
  unsent_ += response.body.size();
  hold(response.body.size());
  output_.response = std::move(response);
  output_.finished = true;
  dropped.swap(on_close_);
  end();
  wake_up();
}

void HttpExchange::start(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (gone_ || begun_) return;
  begun_ = true;
  unsent_ += head.body.size();
  hold(head.body.size());
  largest_ = head.body.size();
  output_.bytes = std::move(head.body);
  output_.response = std::move(head);
  output_.streamed = true;
  wake_up();
}

void HttpExchange::write(std::string bytes) {
  const std::lock_guard lock(mutex_);
  if (gone_ || !begun_ || ended_ || overflowed_ || bytes.empty()) return;
  const size_t before = unsent_.fetch_add(bytes.size());
  // The connection was told of earlier bytes and waits for the reader: this is other news.
  if (before > unsent_limit_ || outbox_->over()) woken_ = false;
  // A single piece may be larger than the limit, however fast the reader.
  const size_t most = kMostFactor * unsent_limit_ + largest_;
  largest_ = std::max(largest_, bytes.size());
  if (before > most) {
    unsent_.fetch_sub(bytes.size());
    overflowed_ = true;
  } else {
    hold(bytes.size());
    if (output_.bytes.empty()) {
      output_.bytes = std::move(bytes);
    } else {
      output_.bytes += bytes;
    }
  }
  wake_up();
}

void HttpExchange::finish() {
  std::vector<std::function<void()>> dropped;
  const std::lock_guard lock(mutex_);
  if (gone_ || !begun_ || ended_) return;
  output_.finished = true;
  dropped.swap(on_close_);
  end();
  wake_up();
}

void HttpExchange::abort() {
  std::vector<std::function<void()>> dropped;
  const std::lock_guard lock(mutex_);
  if (gone_ || ended_) return;
  begun_ = true;
  output_.aborted = true;
  dropped.swap(on_close_);
  end();
  wake_up();
}

void HttpExchange::forget() {
  std::vector<std::function<void()>> dropped;
  const std::lock_guard lock(mutex_);
  if (gone_ || ended_) return;
  (begun_ ? output_.aborted : output_.forgotten) = true;
  begun_ = true;
  dropped.swap(on_close_);
  end();
  wake_up();
}

void HttpExchange::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!gone_) {
      on_close_.push_back(std::move(callback));
      return;
    }
  }
  if (!mailbox_->post(callback)) callback();
}

HttpExchange::Output HttpExchange::take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  Output output = std::move(output_);
  output_ = {};
  output_.streamed = output.streamed;
  return output;
}

void HttpExchange::leave() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    gone_ = true;
    callbacks.swap(on_close_);
    output_ = {};
  }
  free_all();
  for (const auto& callback : callbacks) {
    try {
      callback();
    } catch (...) {  // out of memory: the next is called all the same
    }
  }
}

namespace {

class ExchangeResponder : public Responder {
 public:
  explicit ExchangeResponder(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeResponder() override {
    try {
      exchange_->forget();
    } catch (...) {  // no memory for the message: the connection's end finds it
    }
  }

  void send(HttpResponse response) override { exchange_->send(std::move(response)); }
  void start(HttpResponse head) override { exchange_->start(std::move(head)); }
  void write(std::string bytes) override { exchange_->write(std::move(bytes)); }
  void finish() override { exchange_->finish(); }
  void abort() override { exchange_->abort(); }
  bool closed() const override { return exchange_->gone(); }
  size_t unsent() const override { return exchange_->unsent(); }
  void on_close(std::function<void()> callback) override { exchange_->on_close(std::move(callback)); }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
};

}  // namespace

std::shared_ptr<Responder> make_responder(std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<ExchangeResponder>(std::move(exchange));
}

}  // namespace ingot
