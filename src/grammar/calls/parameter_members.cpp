#include "grammar/calls/parameter_members.h"

#include <algorithm>
#include <string>
#include <utility>

#include "grammar/schema/emit.h"

namespace ingot::grammar {
namespace {

constexpr std::string_view kCdataOpen = "<![CDATA[", kCdataClose = "]]>";

}  // namespace

ParameterMembers::ParameterMembers(GrammarBuilder& builder, Marks& marks, const CallForm& form)
    : builder_(builder),
      pool_(builder.regexes()),
      marks_(marks),
      form_(form),
      key_end_(without_space(form.key_close)),
      value_end_(without_space(form.value_close)),
      free_(marks.any_but(value_end_)) {}

Symbol ParameterMembers::key(bool later, std::string_view name) { return keys(later, pool_.literal(name), false); }

// The reader takes the first byte of the closing text for the key's end.
Symbol ParameterMembers::keys(bool, Expr names, bool all) {
  const Expr one = pool_.chars(other_chars(
      {{static_cast<unsigned char>(key_end_.front()), static_cast<unsigned char>(key_end_.front())}, {0, 0x1F}}));
  const Expr fits = pool_.repeat(one, 1, 200);
  const Symbol open = marks_.around(marks_.space(), form_.key_open, all ? fits : pool_.all_of({names, fits}));
  // Values begin behind the text without its last white space, which is theirs to ask for.
  std::string_view close = form_.key_close;
  if (form_.attribute_close.empty()) {
    while (!close.empty() && (close.back() == '\n' || close.back() == ' ')) close.remove_suffix(1);
  }
  return builder_.sequence({open, marks_.symbol(close)});
}

Symbol ParameterMembers::attribute(std::string_view names) {
  if (form_.attribute_close.empty()) return builder_.empty();
  std::vector<std::string> list;
  while (!names.empty()) {
    const size_t end = std::min(names.find('|'), names.size());
    list.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return marks_.around(pool_.literals(std::move(list)), form_.attribute_close, kEmpty);
}

// What is asked of a text holds between the line ends that the form writes around values, which the reader takes away.
Symbol ParameterMembers::bare(Expr text, bool free) {
  const bool lines = form_.attribute_close.empty() && form_.key_close.ends_with('\n');
  const Expr line = pool_.literal("\n");
  Expr whole = pool_.all_of({text, free_});
  if (form_.cdata) {
    const Expr any = pool_.star(pool_.any_char());
    const auto has = [&](std::string_view part) { return pool_.concat({any, pool_.literal(part), any}); };
    const Expr wrapped =
        pool_.concat({pool_.literal(kCdataOpen), pool_.without(pool_.all_of({text, free_}), has(kCdataClose)),
                      pool_.literal(kCdataClose)});
    whole = pool_.any_of({pool_.without(whole, has(kCdataOpen)), wrapped});
  }
  if (lines && !free) whole = pool_.concat(line, whole);
  if (form_.value_close.starts_with('\n') && !free) whole = pool_.concat(whole, line);
  std::string_view close = form_.value_close;
  while (!close.empty() && close.front() == '\n') close.remove_prefix(1);
  return builder_.sequence({attribute(form_.text_attribute), builder_.lexeme(whole), marks_.symbol(close)});
}

Symbol ParameterMembers::text_value(const std::function<Symbol()>& make) {
  const bool lines = form_.attribute_close.empty() && form_.key_close.ends_with('\n');
  std::string_view close = form_.value_close;
  while (!close.empty() && close.front() == '\n') close.remove_prefix(1);
  const Symbol before = lines ? builder_.text("\n") : builder_.empty();
  const Symbol after = form_.value_close.starts_with('\n') ? builder_.text("\n") : builder_.empty();
  const Symbol head = attribute(form_.text_attribute), tail = marks_.symbol(close);
  const Expr fits = marks_.no_begin_of(value_end_);
  const auto held = [this, fits](Expr expr) { return pool_.all_of({expr, fits}); };
  return builder_.sequence({head, before, spelled_part(builder_, held, make), after, tail});
}

Symbol ParameterMembers::json(Symbol value) {
  return builder_.sequence(
      {attribute(form_.json_attribute), value, marks_.around(marks_.space(), form_.value_close, kEmpty)});
}

// Texts that the reader would take for one of the other values.
Expr ParameterMembers::readable_as_json(const Values& values) {
  const Expr space = pool_.star(pool_.bytes(ByteSet::of(" \t\r\n"))), any = pool_.star(pool_.any_char());
  std::vector<Expr> parts;
  std::vector<std::string> words;
  const auto add = [&](bool has, std::initializer_list<const char*> list) {
    for (const char* word : list) {
      if (has) words.emplace_back(word);
    }
  };
  add(values.null, {"null", "None"});
  add(values.yes || values.no, {"true", "false", "True", "False"});
  if (!words.empty()) parts.push_back(pool_.literals(std::move(words)));
  if (values.numbers.extent != Extent::kNone) parts.push_back(JsonParts(builder_).number);
  if (!values.arrays.empty()) parts.push_back(pool_.concat(pool_.literal("["), any));
  if (!values.objects.empty()) parts.push_back(pool_.concat(pool_.literal("{"), any));
  return pool_.concat({space, pool_.any_of(parts), space});
}

Symbol ParameterMembers::value(SchemaEmitter& emitter, SetId set) {
  SetAlgebra& sets = emitter.sets();
  if (set == kNever) return builder_.nothing();
  const Expr any = pool_.star(pool_.any_char());
  const bool told = !form_.attribute_close.empty();
  if (set == kAlways && !told) return bare(any, true);
  Values values = sets.values(set);
  const TextSet texts = std::exchange(values.texts, TextSet{});
  const bool others = values.null || values.yes || values.no || values.numbers.extent != Extent::kNone ||
                      !values.arrays.empty() || !values.objects.empty();
  std::vector<Symbol> choices;
  if (texts.extent != Extent::kNone) {
    Expr text = texts.extent == Extent::kAll ? any : sets.expr_of(texts);
    const bool free = texts.extent == Extent::kAll && (!others || told);
    if (others && !told) text = pool_.without(text, readable_as_json(values));
    choices.push_back(bare(text, free));
  }
  if (others) choices.push_back(json(emitter.value(sets.of_values(std::move(values)))));
  return builder_.choice(choices);
}

}  // namespace ingot::grammar
