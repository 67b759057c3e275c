#include "grammar/regex/regex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "base/utf8.h"

namespace ingot::grammar {
namespace {

// What an expression means, by definition: for texts of a few letters.
struct Model {
  enum Kind { kBytes, kConcat, kAny, kAll, kNot, kRepeat } kind;
  std::string letters;
  std::vector<Model> parts;
  uint32_t min = 0, max = 0;
};

bool means(const Model& model, std::string_view text, size_t part = 0);

bool repeats(const Model& one, std::string_view text, uint32_t min, uint32_t max) {
  if (text.empty()) return min == 0 || means(one, "");
  if (max == 0) return false;
  for (size_t cut = 1; cut <= text.size(); cut++) {
    if (means(one, text.substr(0, cut)) &&
        repeats(one, text.substr(cut), min == 0 ? 0 : min - 1, max == kUnbounded ? max : max - 1)) {
      return true;
    }
  }
  return false;
}

bool means(const Model& model, std::string_view text, size_t part) {
  switch (model.kind) {
    case Model::kBytes:
      return text.size() == 1 && model.letters.find(text[0]) != std::string::npos;
    case Model::kConcat:
      if (part == model.parts.size()) return text.empty();
      for (size_t cut = 0; cut <= text.size(); cut++) {
        if (means(model.parts[part], text.substr(0, cut)) && means(model, text.substr(cut), part + 1)) return true;
      }
      return false;
    case Model::kAny:
      return std::ranges::any_of(model.parts, [&](const Model& one) { return means(one, text); });
    case Model::kAll:
      return std::ranges::all_of(model.parts, [&](const Model& one) { return means(one, text); });
    case Model::kNot:
      return !means(model.parts[0], text);
    default:
      return repeats(model.parts[0], text, model.min, model.max);
  }
}

Model random_model(std::mt19937& random, int depth) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Model model{};
  model.kind = depth == 0 ? Model::kBytes : static_cast<Model::Kind>(below(6));
  if (model.kind == Model::kBytes) {
    for (const char c : {'a', 'b', 'c'}) {
      if (below(2) == 0) model.letters += c;
    }
    return model;
  }
  const bool one = model.kind == Model::kNot || model.kind == Model::kRepeat;
  const uint32_t count = one ? 1 : 1 + below(3);
  for (uint32_t i = 0; i < count; i++) model.parts.push_back(random_model(random, depth - 1));
  model.min = below(3);
  model.max = below(3) == 0 ? kUnbounded : model.min + below(3);
  return model;
}

Expr build(Regexes& pool, const Model& model) {
  std::vector<Expr> parts;
  for (const Model& part : model.parts) parts.push_back(build(pool, part));
  switch (model.kind) {
    case Model::kBytes:
      return pool.bytes(ByteSet::of(model.letters));
    case Model::kConcat:
      return pool.concat(parts);
    case Model::kAny:
      return pool.any_of(parts);
    case Model::kAll:
      return pool.all_of(parts);
    case Model::kNot:
      return pool.complement(parts[0]);
    default:
      return pool.repeat(parts[0], model.min, model.max);
  }
}

TEST(Regexes, RandomExpressionsMatchWhatTheyMean) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < 121; i++) {  // all texts of at most five of the three letters and one foreign
    for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[i] + c);
  }
  texts.push_back("az");
  std::mt19937 random(1);
  for (int round = 0; round < 2000; round++) {
    const Model model = random_model(random, 3);
    Regexes pool;
    const Expr expr = build(pool, model);
    bool any = false;
    for (const std::string& text : texts) {
      const bool expected = means(model, text);
      any |= expected;
      ASSERT_EQ(pool.matches(expr, text), expected) << "round " << round << " text '" << text << "'";
    }
    const bool is_empty = pool.is_empty(expr);
    ASSERT_FALSE(any && is_empty) << round;
  }
}

TEST(Regexes, EmptinessSeesThroughIntersections) {
  Regexes pool;
  const Expr letters = pool.plus(pool.bytes(ByteSet::range('a', 'z')));
  const Expr digits = pool.plus(pool.bytes(ByteSet::range('0', '9')));
  EXPECT_TRUE(pool.is_empty(pool.all_of({letters, digits})));
  EXPECT_FALSE(pool.is_empty(pool.all_of({letters, pool.complement(pool.literal("abc"))})));
  const Expr even = pool.star(pool.literal("aa")), odd = pool.concat(pool.literal("a"), even);
  EXPECT_TRUE(pool.is_empty(pool.all_of({even, odd})));
  EXPECT_TRUE(pool.includes(pool.star(pool.literal("a")), odd));
  EXPECT_FALSE(pool.includes(odd, even));
  // A dead end behind a first byte that fits.
  EXPECT_TRUE(pool.is_empty(pool.concat(pool.literal("x"), pool.all_of({letters, digits}))));
}

TEST(Regexes, LongRepeatsAreOneNode) {
  Regexes pool;
  const Expr many = pool.repeat(pool.any_char(), 0, 65'536);
  const size_t before = pool.size();
  EXPECT_LT(before, 60u);
  EXPECT_TRUE(pool.matches(many, std::string(65'536, 'x')));
  EXPECT_FALSE(pool.matches(many, std::string(65'537, 'x')));
  // Alternatives that count from several places do not multiply.
  const Expr bomb =
      pool.concat(pool.repeat(pool.optional(pool.literal("a")), 64, 64), pool.repeat(pool.literal("a"), 64, 64));
  EXPECT_TRUE(pool.matches(bomb, std::string(64, 'a')));
  EXPECT_TRUE(pool.matches(bomb, std::string(128, 'a')));
  EXPECT_FALSE(pool.matches(bomb, std::string(63, 'a')));
  EXPECT_FALSE(pool.matches(bomb, std::string(129, 'a')));
}

TEST(Regexes, LiteralsAreATree) {
  Regexes pool;
  const Expr some = pool.literals({"north", "nor", "south", "", "nor"});
  for (const char* text : {"north", "nor", "south", ""}) EXPECT_TRUE(pool.matches(some, text)) << text;
  for (const char* text : {"n", "nort", "northn", "sout", "norsouth"}) EXPECT_FALSE(pool.matches(some, text)) << text;
  EXPECT_EQ(pool.literals({}), kNothing);
  std::vector<std::string> many;
  for (int i = 0; i < 3000; i++) many.push_back("key" + std::to_string(i * 7));
  const Expr keys = pool.literals(many);
  EXPECT_TRUE(pool.matches(keys, "key20993"));
  EXPECT_FALSE(pool.matches(keys, "key20994"));
}

TEST(Regexes, CharactersAreValidUtf8) {
  Regexes pool;
  const Expr any = pool.any_char();
  const std::vector<CharRange> some = {
      {0x7E, 0x81}, {0x7FF, 0x801}, {0xFFFE, 0x10001}, {0x1F600, 0x1F64F}, {0xD000, 0xE010}};
  const Expr set = pool.chars(some), rest = pool.chars(other_chars(some));
  for (uint32_t cp = 0; cp <= 0x10FFFF; cp += cp < 0x900 || cp > 0xFFF0 ? (cp > 0x10100 ? 97 : 1) : 13) {
    if (cp >= 0xD800 && cp < 0xE000) continue;
    std::string text;
    utf8_append(text, cp);
    const bool inside = std::ranges::any_of(some, [&](CharRange r) { return cp >= r.first && cp <= r.last; });
    ASSERT_EQ(pool.matches(set, text), inside) << cp;
    ASSERT_EQ(pool.matches(rest, text), !inside) << cp;
    ASSERT_TRUE(pool.matches(any, text)) << cp;
  }
  for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xFF", "\xE0\x80\x80", "ab", ""}) {
    EXPECT_FALSE(pool.matches(any, bad));
  }
}

TEST(Regexes, DeepExpressionsNeedNoStack) {
  Regexes pool;
  const Expr a = pool.literal("a"), b = pool.literal("b");
  Expr deep = a;
  for (int i = 0; i < 200'000; i++) deep = pool.concat(pool.optional(b), pool.any_of({deep, pool.literal("c")}));
  EXPECT_TRUE(pool.matches(deep, "c"));
  Expr nested = a;
  for (int i = 0; i < 100'000; i++) nested = pool.complement(pool.concat(pool.optional(b), nested));
  EXPECT_NO_THROW(pool.matches(nested, "b"));
}

// The hash that the pool had, known to everyone: of two numbers of a sequence.
uint64_t known_hash(Expr head, Expr tail) {
  uint64_t hash = static_cast<uint64_t>(Regexes::Kind::kConcat) + 1;
  for (const uint64_t value : {uint64_t{head} << 32 | tail, uint64_t{0}}) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

// Seconds for a literal of `n` bytes, each chosen by the expression of what follows it.
template <class Choose>
double seconds_of_literal(int n, Choose choose) {
  Regexes pool;
  std::vector<Expr> letters;
  for (char c = '!'; c <= '~'; c++) letters.push_back(pool.literal(std::string(1, c)));
  double seconds = 0;
  Expr text = kEmpty;
  for (int done = 0; done < n;) {
    std::vector<Expr> next;
    Expr last = text;
    // The ids to come are known: each sequence is a new expression.
    auto id = static_cast<Expr>(pool.size());
    for (int i = 0; i < 1000; i++, done++) {
      next.push_back(choose(letters, last));
      last = last == kEmpty ? next.back() : id++;
    }
    const std::clock_t before = std::clock();
    for (const Expr letter : next) text = pool.concat(letter, text);
    seconds += static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    if (text != last) ADD_FAILURE() << "the ids were others: the test shows nothing";
  }
  return seconds;
}

TEST(Regexes, NobodyCanFillOnePlaceOfItsTable) {
  std::mt19937 random(7);
  const auto any = [&](const std::vector<Expr>& letters, Expr) { return letters[random() % letters.size()]; };
  const auto crowded = [](const std::vector<Expr>& letters, Expr tail) {
    const auto place = [&](Expr letter) { return known_hash(letter, tail) & 0x1FFFF; };  // of the table in the end
    return *std::ranges::min_element(letters, {}, place);
  };
  const int n = 60'000;
  const double usual = std::min({seconds_of_literal(n, any), seconds_of_literal(n, any), seconds_of_literal(n, any)});
  EXPECT_LT(seconds_of_literal(n, crowded), 5 * usual + 0.05);
}

TEST(Regexes, ALimitOfNodesThrows) {
  Regexes pool(100);
  EXPECT_THROW(pool.literal(std::string(200, 'x')), LimitError);
}

TEST(Regexes, ClassesOfBytesSplitWhatExpressionsTellApart) {
  Regexes pool;
  const Expr expr = pool.concat(pool.bytes(ByteSet::range('a', 'f')),
                                pool.any_of({pool.literal("d"), pool.bytes(ByteSet::range('0', '9'))}));
  std::array<uint8_t, 256> classes{};
  const int count = pool.byte_classes(std::span(&expr, 1), classes);
  EXPECT_EQ(count, 4);  // d, the other letters, digits (joined with d in one set), the rest
  EXPECT_NE(classes['d'], classes['a']);
  EXPECT_EQ(classes['a'], classes['f']);
  EXPECT_EQ(classes['x'], classes[0]);
  EXPECT_NE(classes['5'], classes['d']);
}

}  // namespace
}  // namespace ingot::grammar
