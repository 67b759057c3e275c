// The rules of an object: its members in the order of the schema, each there or not, then all others. Where numbers of
// members, members in any order or "at least one such member" are asked for, each state of these has rules of its own.
#include <algorithm>
#include <tuple>

#include "grammar/schema/emit.h"

namespace ingot::grammar {

class ObjectEmitter {
 public:
  ObjectEmitter(SchemaEmitter& emitter, const ObjectShape& shape, Members& members)
      : emitter_(emitter),
        members_(members),
        sets_(emitter.sets_),
        builder_(emitter.builder_),
        pool_(emitter.builder_.regexes()),
        shape_(shape) {}

  void add_to(Symbol rule) {
    if (!prepare()) return;
    const Symbol start = state_rule({});
    while (!waiting_.empty()) {
      const State state = waiting_.back();
      waiting_.pop_back();
      if (state.next < ordered_.size()) {
        member_state(known_.at(state), state);
      } else {
        last_state(known_.at(state), state);
      }
    }
    builder_.add(rule, {members_.open(), start, members_.close()});
  }

 private:
  struct State {
    size_t next = 0;    // of the members in order
    bool any = false;   // a member came: the next needs a comma
    size_t count = 0;   // of members, where that matters
    uint32_t mask = 0;  // of `some` (low bits), then of members in any order
    auto operator<=>(const State&) const = default;
  };
  struct Other {
    Expr keys;
    SetId set;
    uint32_t mask;  // of `some` that it fulfils
  };
  static constexpr size_t kMaxLoose = 4;
  static constexpr size_t kMaxSome = 4;

  // False where the shape is empty for sure.
  bool prepare() {
    std::vector<Member> loose;
    size_t required = 0;
    for (const Member& member : shape_.members) {
      names_.push_back(member.name);
      required += member.required ? 1 : 0;
      if (member.set == kNever) {
        if (member.required) return false;
        continue;
      }
      (member.placed ? ordered_ : loose).push_back(member);
    }
    if (shape_.some.size() > kMaxSome) throw LimitError("[schema] too complex: negated conditions on members");
    const bool is_counted = shape_.min > required || shape_.max != kNoEnd;
    count_end_ = !is_counted ? 0 : shape_.max != kNoEnd ? shape_.max + 1 : shape_.min;
    if (shape_.max != kNoEnd && shape_.others.empty() && shape_.max >= shape_.members.size()) {
      count_end_ = shape_.min > required ? shape_.min : 0;
    }
    if (loose.size() > kMaxLoose) {
      for (Member& member : loose) ordered_.push_back(std::move(member));
    } else {
      loose_ = std::move(loose);
    }
    if (members_.sorted()) sort_members();
    for (size_t i = 0; i < shape_.some.size(); i++) full_ |= uint32_t{1} << i;
    for (size_t i = 0; i < loose_.size(); i++) {
      if (loose_[i].required) full_ |= loose_bit(i);
    }
    split_others();
    return true;
  }

  // As Jinja's dictsort has them.
  void sort_members() {
    const auto lower = [](const Member& member) {
      std::string name = member.name;
      for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      return name;
    };
    std::ranges::stable_sort(ordered_, {}, lower);
  }

  uint32_t loose_bit(size_t i) const { return uint32_t{1} << (shape_.some.size() + i); }

  // What may follow the named members: classes of keys without the names, each also as what fulfils a `some`.
  void split_others() {
    const Expr names = pool_.literals(names_);
    for (const KeyClass& known : shape_.others) {
      if (known.set == kNever) continue;
      const Expr keys = names == kNothing ? known.keys : pool_.without(known.keys, names);
      if (sets_.is_empty(keys)) continue;
      for (uint32_t mask = 0; mask < uint32_t{1} << shape_.some.size(); mask++) {
        Other other{keys, known.set, mask};
        for (size_t i = 0; i < shape_.some.size(); i++) {
          if ((mask >> i & 1) == 0) continue;
          other.keys = pool_.all_of({other.keys, shape_.some[i].keys});
          other.set = sets_.all_of({other.set, shape_.some[i].set});
        }
        if (other.set != kNever && !sets_.is_empty(other.keys)) others_.push_back(other);
      }
    }
  }

  Symbol state_rule(const State& state) {
    constexpr size_t kMaxStates = 60'000;
    const auto [it, is_new] = known_.try_emplace(state, 0);
    if (is_new) {
      if (known_.size() > kMaxStates) throw LimitError("[schema] an object has more than {} states", kMaxStates);
      it->second = builder_.rule();
      waiting_.push_back(state);
    }
    return it->second;
  }

  State after(const State& state, uint32_t mask) const {
    State to = state;
    to.any = true;
    to.count = std::min(state.count + 1, count_end_);
    to.mask |= mask;
    return to;
  }
  bool is_full(const State& state) const {
    return count_end_ != 0 && shape_.max != kNoEnd && count_end_ > shape_.max && state.count >= shape_.max;
  }

  void add_member(Symbol rule, Symbol key, SetId set, const State& to) {
    builder_.add(rule, {key, members_.value(emitter_, set), state_rule(to)});
  }

  // All ways in which the member may fulfil what `some` still asks for.
  void add_named(Symbol rule, const State& state, const Member& member, uint32_t own_bit, bool advance) {
    const Symbol name = members_.key(state.any, member.name);
    uint32_t open = 0;
    for (size_t i = 0; i < shape_.some.size(); i++) {
      const bool asked = (state.mask >> i & 1) == 0;
      if (asked && pool_.matches(shape_.some[i].keys, member.name)) open |= uint32_t{1} << i;
    }
    for (uint32_t mask = open;; mask = (mask - 1) & open) {
      SetId set = member.set;
      for (size_t i = 0; i < shape_.some.size(); i++) {
        if ((mask >> i & 1) != 0) set = sets_.all_of({set, shape_.some[i].set});
      }
      State to = after(state, mask | own_bit);
      if (advance) to.next++;
      if (set != kNever) add_member(rule, name, set, to);
      if (mask == 0) break;
    }
  }

  void member_state(Symbol rule, const State& state) {
    const Member& member = ordered_[state.next];
    if (!is_full(state)) add_named(rule, state, member, 0, true);
    if (!member.required) {
      State to = state;
      to.next++;
      builder_.add(rule, {state_rule(to)});
    }
  }

  void last_state(Symbol rule, const State& state) {
    if ((state.mask & full_) == full_ && (count_end_ == 0 || state.count >= std::min(shape_.min, count_end_))) {
      builder_.add(rule, {});
    }
    if (is_full(state)) return;
    for (size_t i = 0; i < loose_.size(); i++) {
      if ((state.mask & loose_bit(i)) == 0) add_named(rule, state, loose_[i], loose_bit(i), false);
    }
    for (const Other& other : others_) {
      if ((other.mask & ~state.mask) != other.mask) continue;  // only what is still asked for
      const Symbol keys = members_.keys(state.any, other.keys, other.keys == sets_.any_text());
      add_member(rule, keys, other.set, after(state, other.mask));
    }
  }

  SchemaEmitter& emitter_;
  Members& members_;
  SetAlgebra& sets_;
  GrammarBuilder& builder_;
  Regexes& pool_;
  const ObjectShape& shape_;
  std::vector<std::string> names_;
  std::vector<Member> ordered_, loose_;
  std::vector<Other> others_;
  size_t count_end_ = 0;  // counts are followed up to here; 0: not at all
  uint32_t full_ = 0;     // the bits that must be set at the end
  std::map<State, Symbol> known_;
  std::vector<State> waiting_;
};

void SchemaEmitter::object(Symbol rule, const ObjectShape& shape) {
  const bool is_any = shape.members.empty() && shape.some.empty() && shape.min == 0 && shape.max == kNoEnd &&
                      shape.others.size() == 1 && shape.others[0].keys == sets_.any_text() &&
                      shape.others[0].set == kAlways;
  if (is_any) return builder_.add(rule, {notation_.any_object()});
  object(rule, shape, notation_);
}

void SchemaEmitter::object(Symbol rule, const ObjectShape& shape, Members& members) {
  ObjectEmitter(*this, shape, members).add_to(rule);
}

}  // namespace ingot::grammar
