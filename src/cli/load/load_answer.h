// One answer of a server under load: what came when, and how it ended. Knows OpenAI's streams of chat and completions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/load/sse_parser.h"
#include "files/json.h"

namespace ingot {

// Times are seconds since the load began.
struct LoadRecord {
  enum class State : uint8_t {
    kOpen,
    kOk,
    kCancelled,  // by this client, as planned
    kRejected,   // 429 or 503: the server is busy and says so
    kFailed,     // any other error that the server named, or no connection
    kLost,       // the connection ended, or the time was up, without an end of the answer
  };
  State state = State::kOpen;
  double due = 0;   // waiting counts from here even where the client was late
  double sent = 0;  // when it was handed to the network
  double first = 0, last = 0;
  double end = 0;
  int prompt_tokens = 0;  // as the server counted them; 0: not told
  int tokens = 0;         // likewise; where it does not tell, the pieces of text
  int pieces = 0;
  bool counted = false;          // by the server
  std::vector<float> gaps = {};  // seconds between pieces
  long status = 0;               // of HTTP; 0: no answer
  double retry_after = -1;       // seconds, as the header says; below 0: there was none
  std::string finish = {};       // finish_reason of the last choice that ended
  std::string problem = {};      // why it failed or was lost: one line
};

// Reads the answer's body into a record. Single-threaded.
class AnswerReader {
 public:
  explicit AnswerReader(LoadRecord& record);
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  // Bytes of the body; the record's status is known. What is no event stream is kept for the error, up to a few KiB.
  void feed(std::string_view bytes, double at);
  // The body is complete, or `problem` says why no more of it comes. Decides the record's state.
  void end(double at, std::string_view problem = {});

 private:
  void on_event(std::string_view data);
  void on_choice(const JsonObject& choice);
  void on_text();

  LoadRecord& record_;
  SseParser parser_;
  double at_ = 0;
  bool done_ = false;  // [DONE] came
  std::string failure_;
  std::string body_;
};

// The message in the body of an error, or its first words.
std::string error_text(std::string_view body);

}  // namespace ingot
