#include "engine/schedule/admission.h"

#include <algorithm>
#include <cmath>

namespace ingot {
namespace {

// The rate is that of so many targets before now: long enough for some answers to end, short enough to follow the load.
constexpr double kMemory = 8;
// A prompt that takes the target for itself is let in where nobody waits: its own reading counts for at most so much.
constexpr double kOwnPart = 0.5;
// Of the target that is let in: who is sent away for nothing has lost more than who is a little late. With 1.3 of the
// capacity of a whole Azure trace 1.02 gives 91.9 % in time and 1.08 gives 91.3 %, of a Mooncake trace 91.5 and 89.3 %;
// with 0.9 of it 0.27 and 0.22 % are sent away, and 0.23 and 0.20 %.
constexpr double kMargin = 1.02;

// Whether so many more fit into the room; where the room is smaller than a request, one at a time.
bool fits(int choices, int64_t there, int64_t room) {
  return there + std::min<int64_t>(choices, room) <= room && room > 0;
}

}  // namespace

// Of those in the engine, or only those whose prompts are to be read; `with` among them.
double Admission::weights(bool of_readers, const Guest& with) const {
  double all = 0;
  for (const auto& [name, guest] : guests_) {
    const bool counts = of_readers ? guest.rows + guest.coming_rows > 0 : guest.here || guest.coming > 0;
    if (counts || &guest == &with) all += guest.weight;
  }
  return all;
}

Admission::Answer Admission::foresee(const Guest& guest, const Request& request, int free) const {
  if (target_ <= 0 || row_seconds_ <= 0) return {.in = true};
  const double own = row_seconds_ * static_cast<double>(request.prompt.size());
  // Who was left waiting by a step waits for what free seqs do not give: pages, or rows of a step.
  const int64_t seats = left_ ? 0 : free;
  const int64_t all = int64_t{waiting_} + coming_, beyond = std::max(int64_t{0}, all - seats);
  // Where nobody has waited for long prompts are read as fast as the model can. So they are where nobody need wait, or
  // faster: many a row was found.
  const bool known = seconds_ >= target_;
  const double lately = known && read_ > 0 ? seconds_ / read_ : row_seconds_;
  const double row = all < seats ? std::min(lately, row_seconds_) : lately;
  const double turn = known && begun_ > 0 ? seconds_ / begun_ : 0;
  // Those ahead of it have prompts to be read, and wait for a place as it does: whichever takes longer.
  const double turns = static_cast<double>(std::min(int64_t{guest.waiting} + guest.coming, beyond));
  const double ahead = std::max(static_cast<double>(guest.rows + guest.coming_rows) * row, turns * turn);
  const double wait = ahead * weights(true, guest) / guest.weight;
  const double late = wait + std::min(own, kOwnPart * target_) - kMargin * target_;
  if (late <= 0) return {.in = true};
  return {.late = true, .retry_seconds = late};
}

Admission::Answer Admission::ask(const Request& request, int free) {
  const std::lock_guard lock(mutex_);
  Guest& guest = guests_[request.tenant];
  guest.weight = request.weight;
  if (!fits(request.choices, int64_t{waiting_} + coming_, int64_t{max_waiting_} + free)) {
    const double share = std::floor(max_waiting_ * guest.weight / weights(false, guest));
    // Alone it has the whole queue, which is full.
    const auto room = static_cast<int64_t>(std::max(1.0, share));
    if (max_waiting_ == 0 || !fits(request.choices, int64_t{guest.waiting} + guest.coming, room)) return {};
    // What is larger than its tenant's share goes beyond the queue: one does, not one of each tenant.
    const int64_t there = int64_t{waiting_} + coming_;
    if (request.choices > room && there > 2 * int64_t{max_waiting_} + free) return {};
  }
  const Answer answer = foresee(guest, request, free);
  if (!answer.in) return answer;
  guest.coming += request.choices;
  coming_ += request.choices;
  guest.coming_rows += static_cast<int64_t>(request.prompt.size());
  return answer;
}

void Admission::arrived(const Request& request) {
  const std::lock_guard lock(mutex_);
  Guest& guest = guests_.at(request.tenant);
  guest.coming -= request.choices;
  coming_ -= request.choices;
  guest.coming_rows -= static_cast<int64_t>(request.prompt.size());
  // Until the engine tells more.
  guest.here = true;
  guest.waiting += request.choices;
  waiting_ += request.choices;
  guest.rows += static_cast<int64_t>(request.prompt.size());
}

void Admission::tell(const Tenants& tenants) {
  const std::lock_guard lock(mutex_);
  waiting_ = 0;
  for (auto it = guests_.begin(); it != guests_.end();) {
    Guest& guest = it->second;
    const TenantShare* tenant = tenants.find(it->first);
    guest.here = tenant != nullptr;
    guest.waiting = tenant ? tenant->seqs - tenant->held() : 0;
    guest.rows = tenant ? tenant->unread() : 0;
    waiting_ += guest.waiting;
    it = !tenant && guest.coming == 0 ? guests_.erase(it) : std::next(it);
  }
}

void Admission::tell(const Step& step) {
  const std::lock_guard lock(mutex_);
  row_seconds_ = step.row_seconds;
  left_ = step.left;
  if (target_ <= 0) return;
  const double past = std::exp(-std::max(step.seconds, step.at - told_at_) / (kMemory * target_));
  told_at_ = step.at;
  read_ *= past, seconds_ *= past, begun_ *= past;
  if (waiting_ == 0) return;
  read_ += static_cast<double>(step.read);
  seconds_ += step.seconds;
  begun_ += static_cast<double>(step.begun);
}

}  // namespace ingot
