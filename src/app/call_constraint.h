// Calls of tools that a model makes where it likes, as the engine's constraint: text is free, and costs no mask, until
// the mark of a call is written; from there the grammar of calls holds to the end of the section, and text is free
// again.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "app/grammar_constraint.h"
#include "grammar/calls/calls.h"

namespace ingot {

// What an answer is searched for.
struct CallSearch {
  std::vector<grammar::CallStart> starts = {};  // of sections of calls
  std::string name_key = {};                    // of a bare object: the member that names the tool, which is its first
  std::vector<std::string> names = {};          // and the tools
  std::vector<Token> marks = {};                // special tokens whose names are text here
  bool one = false;                             // nothing may follow a section
  std::string opened = {};                      // the beginning of a section that the prompt ends with
  std::string before = {};                      // the end of the prompt, where a mark may begin in it
  // Marks of reasoning, in which nothing is searched for; empty: there is none.
  std::string reasoning_open = {}, reasoning_close = {};
  bool in_reasoning = false;   // the prompt ends with reasoning_open
  bool reasons_often = false;  // not at the beginning alone
};

// Tokens that hold the end of a mark and something after it, for each mark. Any thread.
class CrossingTokens {
 public:
  struct List {
    std::vector<Token> ends;   // that hold the mark's last byte, and more after it
    std::vector<Token> whole;  // of these, those that hold the whole mark
  };
  std::shared_ptr<const List> of(const std::string& mark, const grammar::Vocabulary& vocabulary);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const List>> lists_;  // one for each mark of the model's forms
};

class CallConstraint : public TokenConstraint {
 public:
  // `section`: of the grammar of one section, at its beginning.
  CallConstraint(std::shared_ptr<const CallSearch> search, std::shared_ptr<const grammar::Compiled> section,
                 std::shared_ptr<CrossingTokens> crossing, std::shared_ptr<const ConstraintFacts> facts);
  ~CallConstraint() override;

  std::unique_ptr<TokenConstraint> clone() const override;
  // Throw ConstraintError where the matcher has failed.
  void mask(std::span<uint32_t> words) override;
  void advance(int32_t token) override;
  void rollback(int n) override;
  bool complete() const override;

 private:
  enum class At : uint8_t { kReasoning, kText, kCall };
  // Where the text is.
  struct Place {
    At at = At::kText;
    bool begun = false;     // something but white space came
    bool bare = false;      // it may be the beginning of a bare object, all of which is `tail`
    std::string tail = {};  // the last bytes of the text, in which a mark may have begun
  };
  struct Step {
    Place before;
    size_t sections;    // of sections_
    bool matched_text;  // the last of them took it
  };
  struct Found {
    size_t start;  // of search_->starts
    size_t end;    // bytes of the text up to the mark's end
  };

  std::string text_of(int32_t token) const;
  std::optional<Found> find(std::string_view text) const;
  std::unique_ptr<grammar::Matcher> section_after(std::string_view mark, int32_t token) const;
  void take_text(std::string_view text);
  bool take_reasoning(std::string& text);
  void begin_section(std::unique_ptr<grammar::Matcher> matcher);
  void keep_tail(std::string text);
  void mask_crossing(std::span<uint32_t> words);
  void forbid_crossing(std::span<uint32_t> words, const std::vector<Token>& tokens);
  void end_if_over();
  void allow_beyond_end(std::span<uint32_t> words);
  bool advance_beyond_end(int32_t token);

  const std::shared_ptr<const CallSearch> search_;
  const std::shared_ptr<const grammar::Compiled> section_;
  const std::shared_ptr<CrossingTokens> crossing_;
  const std::shared_ptr<const ConstraintFacts> facts_;
  size_t longest_ = 0;  // mark
  Place place_;
  std::vector<std::unique_ptr<grammar::Matcher>> sections_;  // so far; the last is open where place_.at is kCall
  std::deque<Step> steps_;
  std::vector<uint32_t> words_;
};

}  // namespace ingot
