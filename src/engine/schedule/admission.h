// Who is let in: whoever finds room for its choices in the queue, or in its tenant's share of it, and whose first token
// is foreseen within the target. Work is foreseen in rows and in turns: what its tenant has ahead of it of both, over
// the tenant's share of the rows a second that prompts have been read at, and of the seqs that began, while somebody
// waited. Where seqs are free there are no turns, and prompts are read at least as fast as the model can: how slow it
// was while all were taken says nothing of that.
//
// Thread-safe: any thread asks; the engine's thread tells how things stand after each step.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "engine/request.h"
#include "engine/schedule/tenants.h"

namespace ingot {

class Admission {
 public:
  struct Answer {
    bool in = false;
    bool late = false;         // not in, since its first token would miss the target
    double retry_seconds = 0;  // of one that is late
  };
  struct Step {
    double seconds = 0;
    double at = 0;      // when it ended, by a clock in seconds
    bool left = false;  // somebody waits who waited when it began: of free seqs there was none to be had, or no page
    int64_t read = 0;   // tokens of prompts that were read, or found
    int64_t begun = 0;  // seqs that began
    double row_seconds = 0;  // that a row of a prompt adds to a step
  };

  // target_seconds 0: none.
  Admission(int max_waiting, double target_seconds) : max_waiting_(max_waiting), target_(target_seconds) {}

  // Whether the request may come; one that may counts as coming until arrived(). `free`: seqs that would begin at once.
  Answer ask(const Request& request, int free);
  // The core has it, or it was given up.
  void arrived(const Request& request);

  // As things stand. Allocates nothing.
  void tell(const Tenants& tenants);
  // A step has ended. What was measured counts less as time goes by, whether anybody waits or not.
  void tell(const Step& step);

 private:
  struct Guest {
    double weight = 1;
    int coming = 0;  // seqs
    int64_t coming_rows = 0;
    int waiting = 0;   // seqs
    int64_t rows = 0;  // of prompts, of those that wait and those that run
    bool here = false;
  };

  Answer foresee(const Guest& guest, const Request& request, int free) const;
  double weights(bool of_readers, const Guest& with) const;

  mutable std::mutex mutex_;
  const int max_waiting_;
  const double target_;
  std::map<std::string, Guest> guests_;
  int waiting_ = 0, coming_ = 0;  // of all
  bool left_ = false;             // of the last step
  // What was read and who began while somebody waited, and how long that took; the past counts less and less.
  double read_ = 0, begun_ = 0, seconds_ = 0;
  double told_at_ = 0;  // the end of the last step
  double row_seconds_ = 0;
};

}  // namespace ingot
