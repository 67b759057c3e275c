// How families of models write calls of tools: one description of each form, from which both the parser of answers
// (serve/answer/calls/tool_calls.h) and the grammar of calls (grammar/calls/calls.cpp) are made. A family is a header
// in grammar/forms/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ingot {

// A section of calls is
//   open  call  (separator call)…  close
// and a call
//   kObject       call_open  {name_key: NAME, arguments_key: {…}}  call_close
//   others        call_open  [ID id_close]  name_prefix NAME  [id_open ID]  name_close  ARGUMENTS  call_close
// White space in a text stands for any white space or none where an answer is read, and for itself where one is made.
// A text that is empty is not there.
struct CallForm {
  enum class Body : uint8_t {
    kObject,      // a JSON object that holds the name and the arguments
    kJson,        // the arguments as a JSON object
    kParameters,  // key_open KEY key_close VALUE value_close …: text bare, anything else as JSON
    kPython,      // key=value, …: literals of Python; call_close ends them
    kMarked,      // key:value,…: text between `quote`s, keys bare; call_close ends them
  };

  std::string_view name = {};         // for people
  std::string_view needs[3] = {};     // a template teaches this form if it has all of these …
  std::string_view excludes[3] = {};  // … and none of these
  Body body = Body::kObject;

  std::string_view open = {}, close = {};
  std::string_view call_open = {}, call_close = {};
  std::string_view separator = {};

  std::string_view id_close = {};     // an id stands before the name, and this after it
  std::string_view name_prefix = {};  // "functions."
  std::string_view id_open = {};      // an id may stand between the name and name_close, and this before it
  std::string_view name_close = {};

  std::string_view name_key = "name", arguments_key = "arguments";
  std::string_view members = {};  // kObject: what templates write before the name, as text

  // kParameters. With `attribute_close`, what stands between key_close and it says the kind of the value:
  // text_attribute for text, one of json_attribute (separated by '|') for the rest where an answer is made.
  std::string_view key_open = {}, key_close = {}, value_close = {};
  std::string_view attribute_close = {}, text_attribute = {}, json_attribute = {};
  bool cdata = false;  // text may be wrapped in <![CDATA[ and ]]>

  std::string_view quote = {};  // kMarked

  std::string_view text_name = {};  // in the place of a tool's name: text follows, and no call

  // What tells an answer's call in place of all that stands before its name, where that begins other things as well.
  std::string_view trigger = {};

  bool bare = false;       // an object that is the whole answer is a call too, where it names a tool of the request
  bool short_ids = false;  // ids have nine letters and digits: the family's templates refuse any other
  bool one_call = false;   // the template refuses a second call in one answer
};

// All of them, by family.
std::span<const CallForm* const> call_forms();

// By its name; null where there is none.
const CallForm* find_call_form(std::string_view name);

// The form that a chat template teaches its model: the one that asks for most of the template's text. Null where it has
// none of them. Several forms that begin alike may be read in one answer: see also_read().
const CallForm* call_form_of(std::string_view template_source);

// Forms of the same family, `form` first: what its models are known to write too.
std::span<const CallForm* const> also_read(const CallForm& form);

// Without the white space at both ends.
inline std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \n\r\t";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// Bytes of the <…> or […] that the text begins with; 0: it begins with none. Vocabularies have tokens for many of them.
inline size_t mark_size(std::string_view text) {
  if (!text.starts_with('<') && !text.starts_with('[')) return 0;
  return text.find(text.front() == '<' ? '>' : ']') + 1;  // 0 where there is none
}

// The text that begins a section of calls, up to its first white space; empty for a bare object.
std::string_view section_mark(const CallForm& form);

// A template has a place for tools at all.
bool has_tools(std::string_view template_source);

}  // namespace ingot
