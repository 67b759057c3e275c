// Reads one section of calls in one form (grammar/call_form.h), byte by byte.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/call_form.h"
#include "serve/answer/calls/call_piece.h"
#include "serve/answer/calls/json_stream.h"
#include "serve/answer/calls/literal_stream.h"
#include "serve/answer/calls/parameter_reader.h"

namespace ingot {

// What a reader finds. Arguments of one call, joined, are its JSON object.
class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void begin_call(const std::string& name) = 0;
  virtual void arguments(std::string text) = 0;
  virtual void end_call() = 0;
};

class CallReader {
 public:
  // `is_known` tells tools of the request: a bare object that names none is no call, and with `in_order` neither is one
  // that does not begin with its name and arguments. All of it outlives the reader.
  CallReader(const CallForm& form, const std::vector<ToolSignature>& tools,
             const std::function<bool(std::string_view)>& is_known, CallSink& sink, bool in_order = false);

  enum class Step : unsigned char {
    kMore,
    kDone,  // the byte was taken, and the section is over
    kOver,  // the section is over; held() ends with this byte and is none of it
    kNone,  // no call has begun, and none will: held() is all that was fed
  };
  // Holds back no more than kMaxHeldBytes: then the section is over, or, inside a call, it throws ApiError.
  Step feed(char c);
  // Nothing more comes: gives out what was held back of a text.
  void finish();
  // Bytes that are not settled yet.
  const std::string& held() const { return held_; }
  // Nothing of a call has been given out: what is held is text if nothing more comes.
  bool none_yet() const { return !begun_; }

 private:
  enum class At : unsigned char {
    kOpen,
    kCallOpen,
    kObject,
    kId,
    kName,
    kNameClose,
    kAfterId,
    kBody,
    kCallClose,
    kBetween
  };
  enum class Again : unsigned char { kTaken, kAgain, kDone, kOver, kNone };

  Again step(char c);
  Again open(char c);
  Again object(char c);
  Again id(char c);
  Again name(char c);
  Again name_close(char c);
  Again after_id(char c);
  Again body(char c);
  Again json_body(char c);
  Again literal_body(char c);
  Again parameter_body(char c);
  Again between(char c);
  Again fail() const { return begun_ ? Again::kOver : Again::kNone; }
  void start_call();
  void begin();
  Again end(Again taken);
  Again after_call(Again taken);
  bool goes_on() const { return !form_.open.empty() || form_.call_open.empty(); }
  At behind_call_open() const;
  // What has the place of the tool's name says that text follows.
  bool is_text() const { return !form_.text_name.empty() && name_ == form_.text_name; }

  const CallForm& form_;
  const std::vector<ToolSignature>& tools_;
  const std::function<bool(std::string_view)>& is_known_;
  CallSink& sink_;
  const bool in_order_;

  At at_;
  char byte_ = 0;  // the last that was fed
  std::string held_;
  bool begun_ = false;    // some call was given out
  bool in_call_ = false;  // and has not ended
  PieceMatch piece_, other_;
  std::string text_;  // the name or id that is being read
  std::string name_;
  bool separated_ = false;
  std::optional<CallScanner> scanner_;
  JsonValueStream value_;
  bool value_begun_ = false;
  std::optional<LiteralStream> literal_;
  std::optional<ParameterReader> parameters_;
};

}  // namespace ingot
