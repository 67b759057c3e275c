#include "grammar/call_form.h"

#include <algorithm>
#include <vector>

#include "grammar/form_headers.inc"  // the forms of every family
#include "grammar/form_list.inc"     // INGOT_CALL_FORMS

namespace ingot {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <size_t n>
void append(std::vector<const CallForm*>& all, const CallForm (&family)[n]) {
  for (const CallForm& form : family) all.push_back(&form);
}

std::vector<const CallForm*> make_list() {
  std::vector<const CallForm*> all;
#define INGOT_APPEND(family) append(all, forms::family);
  INGOT_CALL_FORMS(INGOT_APPEND)
#undef INGOT_APPEND
  return all;
}

// Each family with the given form first; one list for every form.
std::vector<std::vector<const CallForm*>> make_families() {
  std::vector<std::vector<const CallForm*>> lists;
  const auto add = [&]<size_t n>(const CallForm(&family)[n]) {
    for (const CallForm& first : family) {
      std::vector<const CallForm*> list{&first};
      for (const CallForm& other : family) {
        if (&other != &first) list.push_back(&other);
      }
      lists.push_back(std::move(list));
    }
  };
#define INGOT_ADD(family) add(forms::family);
  INGOT_CALL_FORMS(INGOT_ADD)
#undef INGOT_ADD
  return lists;
}

// A template spells quotes in strings of its own with a backslash.
bool has_quoted(std::string_view source, std::string_view part) {
  if (has(source, part)) return true;
  std::string escaped;
  for (const char c : part) {
    if (c == '"') escaped += '\\';
    escaped += c;
  }
  return has(source, escaped);
}

// Bytes of the template that the form asks for; 0: it is not this form.
size_t likeness(const CallForm& form, std::string_view source) {
  size_t bytes = 0;
  for (const std::string_view need : form.needs) {
    if (!has_quoted(source, need)) return 0;
    bytes += need.size();
  }
  for (const std::string_view exclude : form.excludes) {
    if (!exclude.empty() && has_quoted(source, exclude)) return 0;
  }
  return bytes;
}

}  // namespace

std::span<const CallForm* const> call_forms() {
  static const std::vector<const CallForm*> all = make_list();
  return all;
}

const CallForm* find_call_form(std::string_view name) {
  const auto found = std::ranges::find(call_forms(), name, [](const CallForm* form) { return form->name; });
  return found == call_forms().end() ? nullptr : *found;
}

const CallForm* call_form_of(std::string_view source) {
  if (!has_tools(source)) return nullptr;
  const CallForm* best = nullptr;
  size_t most = 0;
  for (const CallForm* form : call_forms()) {
    const size_t bytes = likeness(*form, source);
    if (bytes > most) {
      most = bytes;
      best = form;
    }
  }
  return best;
}

std::span<const CallForm* const> also_read(const CallForm& form) {
  static const std::vector<std::vector<const CallForm*>> families = make_families();
  const auto found = std::ranges::find(families, &form, [](const auto& list) { return list.front(); });
  return found == families.end() ? std::span<const CallForm* const>() : *found;
}

std::string_view section_mark(const CallForm& form) {
  const std::string_view first = without_space(form.open.empty() ? form.call_open : form.open);
  return first.substr(0, first.find_first_of(" \n\r\t"));
}

bool has_tools(std::string_view source) { return has(source, "tools"); }

}  // namespace ingot
