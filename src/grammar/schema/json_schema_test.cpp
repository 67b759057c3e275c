// Each keyword of JSON Schema: what it lets through, what not, and what is refused with its place.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/front_ends.h"
#include "grammar/plain_matcher_test_support.h"
#include "grammar/schema/document.h"

namespace ingot::grammar {
namespace {

void expect(const std::string& schema, const std::vector<std::string>& taken, const std::vector<std::string>& refused) {
  SCOPED_TRACE(schema);
  try {
    PlainMatcher matcher(json_schema_grammar(schema, false, {}));
    for (const std::string& text : taken) EXPECT_TRUE(matcher.accepts(text)) << text;
    for (const std::string& text : refused) EXPECT_FALSE(matcher.accepts(text)) << text;
  } catch (const GrammarError& error) {
    ADD_FAILURE() << error.place() << " " << error.what();
  }
}

// The place where it is refused; "taken" where it is not.
std::string place_of(const std::string& schema, bool strict = false) {
  try {
    json_schema_grammar(schema, strict, {});
  } catch (const GrammarError& error) {
    return error.place();
  }
  return "taken";
}

TEST(JsonSchema, Types) {
  expect("{}", {"1", "null", "true", R"("x")", "[1,[]]", R"({"a":{"b":1}})", " 1"}, {"", "x", "[1,]", "01"});
  expect("true", {"1"}, {""});
  expect(R"({"type":"integer"})", {"0", "-5", "123"}, {"1.5", "01", "1.0", "true", "+1"});
  expect(R"({"type":"number"})", {"0", "-5.25", "1e10", "1E-3"}, {"1.", ".5", "01"});
  expect(R"({"type":["string","null"]})", {R"("")", "null", R"("a\n\u00e9é")"}, {"1", "\"\n\""});
  expect(R"({"type":"boolean"})", {"true", "false"}, {"null", "tru"});
  expect(R"({"not":{"type":["integer","string"]}})", {"1.5", "null", "[]"}, {"1", "1.0", R"("x")"});
}

TEST(JsonSchema, Numbers) {
  expect(R"({"type":"integer","minimum":-12,"maximum":105})", {"-12", "-9", "0", "9", "99", "105"},
         {"-13", "106", "110", "1000"});
  expect(R"({"minimum":1.25,"exclusiveMaximum":10})", {"1.25", "1.3", "2", "9.999", "1.250"},
         {"1.2499", "1", "10", "10.0"});
  expect(R"({"exclusiveMinimum":0})", {"0.001", "1"}, {"0", "0.0", "-0", "-1"});
  expect(R"({"maximum":0})", {"0", "-0", "-0.5", "-100"}, {"0.5", "1"});
  expect(R"({"maximum":-1.5})", {"-1.5", "-2", "-1.51"}, {"-1.4", "-1", "0"});
  expect(R"({"type":"integer","multipleOf":7})", {"0", "7", "-49", "700"}, {"1", "8", "71"});
  expect(R"({"multipleOf":0.01})", {"0.01", "5", "12.34", "1.50", "1.500"}, {"0.001", "1.234"});
  expect(R"({"multipleOf":1.5,"minimum":4})", {"4.5", "6", "7.5"}, {"3", "5", "4.0"});
  expect(R"({"minimum":5,"exclusiveMinimum":true,"$schema":"http://json-schema.org/draft-04/schema#"})", {"5.1", "6"},
         {"5", "4"});
  EXPECT_EQ(place_of(R"({"properties":{"a":{"multipleOf":0}}})"), "#/properties/a/multipleOf");
}

TEST(JsonSchema, Strings) {
  expect(R"({"type":"string","minLength":2,"maxLength":3})", {R"("ab")", R"("äöü")", R"("\n\n")", R"("😀😀")"},
         {R"("a")", R"("abcd")"});
  expect(R"({"type":"string","pattern":"b+"})", {R"("abbc")", R"("b")"}, {R"("ac")"});
  expect(R"({"type":"string","pattern":"^a\\sb$"})", {R"("a\nb")", R"("a b")", R"("a\u000ab")"}, {R"("ab")"});
  expect(R"({"type":"string","pattern":"^[^\"]\\\\$"})", {R"("a\\")"}, {R"("\"\\")", R"("a")"});
  expect(R"({"type":"string","pattern":"^a","not":{"pattern":"z$"}})", {R"("ab")"}, {R"("az")", R"("b")"});
  EXPECT_EQ(place_of(R"x({"items":{"pattern":"(?=a)"}})x"), "#/items/pattern");
  EXPECT_EQ(place_of(R"({"type":"string","minLength":3,"maxLength":2})"), "#");
}

TEST(JsonSchema, Formats) {
  const auto format = [](const std::string& name, const std::vector<std::string>& taken,
                         const std::vector<std::string>& refused) {
    const auto quoted = [](std::vector<std::string> texts) {
      for (std::string& text : texts) text = "\"" + text + "\"";
      return texts;
    };
    expect(R"({"type":"string","format":")" + name + "\"}", quoted(taken), quoted(refused));
  };
  format("date", {"2024-02-29", "2000-02-29", "1999-12-31"}, {"2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31"});
  format("time", {"12:30:00Z", "23:59:60Z", "08:30:06.28+02:00"}, {"12:30:00", "24:00:00Z", "22:59:60Z"});
  format("date-time", {"2024-02-29T12:30:00.5Z"}, {"2024-02-29 12:30:00Z", "2024-02-30T12:30:00Z"});
  format("duration", {"P4DT12H30M5S", "P1Y", "PT1M", "P2W"}, {"P", "PT", "P1D2H", "P2Y3W"});
  format("email", {"a.b@example.com", "x@[127.0.0.1]"}, {"a@", ".a@b.c", "a b@c.d"});
  format("hostname", {"example.com", "a-b.c"}, {"-a.com", "a..b", "a_b"});
  format("ipv4", {"127.0.0.1", "255.255.255.255"}, {"256.0.0.1", "1.2.3", "01.2.3.4"});
  format("ipv6", {"::1", "::", "1::8", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "fe80::a"},
         {"12345::", "1:2:3", "1::2::3"});
  format("uri", {"https://a.b/c?d=e#f", "urn:isbn:1", "http://[::1]:80/"}, {"a/b", "http://a b", "//a"});
  format("uri-reference", {"/a/b", "", "#x", "https://a.b"}, {"a b"});
  format("uuid", {"2eb8aa08-aa98-11ea-b4aa-73b441d16380"}, {"2eb8aa08aa9811eab4aa73b441d16380"});
  format("json-pointer", {"", "/a/~0b"}, {"a", "/~2"});
  format("made-up", {"anything"}, {});
}

TEST(JsonSchema, ConstAndEnum) {
  expect(R"({"const":{"a":[1,"x"],"b":null}})", {R"({"a":[1,"x"],"b":null})", R"({ "a": [1, "x"], "b": null})"},
         {R"({"a":[1,"x"]})", R"({"a":[1,"y"],"b":null})", "1"});
  expect(R"({"enum":["red","green",3,null,[true]]})", {R"("red")", "3", "null", "[true]"}, {R"("blue")", "4", "true"});
  expect(R"({"type":"string","enum":["a","b",1]})", {R"("a")"}, {"1"});
  expect(R"({"enum":["a\"b\\c"]})", {R"("a\"b\\c")"}, {R"("abc")"});
  EXPECT_EQ(place_of(R"({"type":"string","const":1})"), "#");
}

TEST(JsonSchema, Arrays) {
  expect(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})", {"[1]", "[1,2,3]", "[1, 2]"},
         {"[]", "[1,2,3,4]", "[true]"});
  expect(R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
         {"[]", "[1]", R"([1,"a"])"}, {R"([1,"a",2])", R"(["a"])"});
  expect(R"({"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"string"},"minItems":2})",
         {R"([1,"a"])", R"([1,"a","b"])"}, {"[1]", "[1,2]"});
  expect(R"({"type":"array","contains":{"const":5},"minContains":2,"maxContains":3})", {"[5,5]", "[1,5,2,5,5]"},
         {"[5]", "[5,5,5,5]", "[]"});
  expect(R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1})",
         {R"(["a"])", R"(["c","a","b"])"}, {"[]", R"(["a","a"])", R"(["a","b","a"])"});
  expect(R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[]", "[1]"}, {"[1,2]"});
  EXPECT_EQ(place_of(R"({"properties":{"a":{"uniqueItems":true}}})"), "#/properties/a/uniqueItems");
  expect(R"({"type":"array","items":false})", {"[]"}, {"[1]"});
}

TEST(JsonSchema, Objects) {
  expect(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],
             "additionalProperties":false})",
         {R"({"a":1})", R"({"a":1,"b":"x"})", R"({ "a": 1, "b": "x"})", "{\n  \"a\": 1\n}"},
         {"{}", R"({"b":"x"})", R"({"a":1,"c":2})", R"({"b":"x","a":1})", R"({"a":1,"a":1})"});
  expect(R"({"type":"object","properties":{"a":{"type":"integer"}}})", {"{}", R"({"a":1,"x":[]})", R"({"ab":true})"},
         {R"({"a":"x"})", R"({"x":1,"a":"x"})", R"({"x":1,"a":1})"});
  expect(R"({"type":"object","required":["x","y"]})", {R"({"x":1,"y":2})", R"({"y":1,"z":0,"x":2})"},
         {R"({"x":1})", "{}"});
  expect(R"({"type":"object","patternProperties":{"^s_":{"type":"string"},"_i$":{"type":"integer"}},
             "additionalProperties":false})",
         {R"({"s_a":"x"})", R"({"n_i":1})", "{}"}, {R"({"s_a":1})", R"({"x":1})", R"({"s_i":1})", R"({"s_i":"x"})"});
  expect(R"({"type":"object","minProperties":1,"maxProperties":2,"properties":{"a":true,"b":true,"c":true}})",
         {R"({"a":1})", R"({"b":1,"z":1})"}, {"{}", R"({"a":1,"b":1,"c":1})", R"({"a":1,"b":1,"z":1})"});
  expect(R"({"type":"object","propertyNames":{"pattern":"^[a-z]$"},"properties":{"LONG":true}})", {"{}", R"({"a":1})"},
         {R"({"LONG":1})", R"({"ab":1})"});
  expect(R"({"type":"object","properties":{"gone":false,"stays":true},"additionalProperties":false})",
         {"{}", R"({"stays":1})"}, {R"({"gone":1})"});
  EXPECT_EQ(place_of(R"({"type":"object","properties":{"a":false},"required":["a"]})"), "#");
}

TEST(JsonSchema, Combinations) {
  expect(R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
                      {"properties":{"a":{"minimum":5},"b":{"type":"string"}}}]})",
         {R"({"a":5,"b":"x"})"}, {R"({"a":4})", R"({"a":5,"b":1})", "{}"});
  expect(R"({"anyOf":[{"type":"string"},{"type":"object","required":["x"]}]})", {R"("s")", R"({"x":1})"}, {"1", "{}"});
  expect(R"({"oneOf":[{"multipleOf":2},{"multipleOf":3}],"type":"integer"})", {"2", "3", "9"}, {"6", "1", "12"});
  expect(R"({"type":"object","properties":{"length":true,"width":true,"radius":true},"additionalProperties":false,
             "oneOf":[{"required":["length","width"]},{"required":["radius"]}]})",
         {R"({"length":1,"width":2})", R"({"radius":1})", R"({"width":2,"radius":1})"},
         {R"({"length":1,"width":2,"radius":3})", "{}", R"({"length":1})"});
  expect(R"({"type":"object","properties":{"kind":{"enum":["a","b"]},"x":{"type":"integer"}},"required":["kind"],
             "if":{"properties":{"kind":{"const":"a"}}},"then":{"required":["x"]},"else":{"properties":{"x":false}}})",
         {R"({"kind":"a","x":1})", R"({"kind":"b"})"}, {R"({"kind":"a"})", R"({"kind":"b","x":1})"});
  expect(R"({"type":"object","properties":{"a":true,"b":true},"dependentRequired":{"a":["b"]}})",
         {"{}", R"({"b":1})", R"({"a":1,"b":1})"}, {R"({"a":1})"});
  expect(R"({"type":"object","properties":{"a":true,"b":true},"dependencies":{"a":{"properties":{"b":{"const":7}}}}})",
         {R"({"b":1})", R"({"a":1,"b":7})", R"({"a":1})"}, {R"({"a":1,"b":1})"});
  expect(R"({"not":{"type":"object","additionalProperties":{"type":"integer"}}})",
         {"1", R"({"a":"x"})", R"({"a":1,"b":[]})"}, {"{}", R"({"a":1})"});
}

TEST(JsonSchema, Unevaluated) {
  expect(
      R"({"type":"object","properties":{"a":true},"allOf":[{"properties":{"b":true}}],"unevaluatedProperties":false})",
      {R"({"a":1,"b":1})", "{}"}, {R"({"c":1})"});
  expect(R"({"type":"object","anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":true}}],
             "unevaluatedProperties":false})",
         {R"({"a":1,"b":2})", R"({"b":2})"}, {R"({"c":1})", R"({"a":2})"});
  expect(R"({"prefixItems":[{"type":"string"}],"unevaluatedItems":{"type":"integer"}})", {R"(["a",1,2])", "[]"},
         {R"(["a","b"])"});
}

TEST(JsonSchema, References) {
  expect(R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},
             "next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/node"}]}},"required":["v","next"],
             "additionalProperties":false}}})",
         {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"}, {R"({"v":1})", R"({"v":1,"next":{}})"});
  expect(R"({"items":{"$ref":"#it"},"type":"array","$defs":{"x":{"$anchor":"it","type":"integer"}}})", {"[1]"},
         {"[null]"});
  EXPECT_EQ(place_of(R"({"properties":{"a":{"$ref":"http://example.com/x.json"}}})"), "#/properties/a");
  EXPECT_EQ(place_of(R"({"properties":{"a":{"$ref":"#/nothing"}}})"), "#/properties/a");
  EXPECT_EQ(place_of(R"({"$ref":"#"})"), "#");
  // Every value would have to be within itself.
  EXPECT_EQ(place_of(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"), "#");
  expect(R"({"type":"object","properties":{"a":{"$ref":"#/$defs/endless"}},
             "$defs":{"endless":{"type":"array","items":{"$ref":"#/$defs/endless"},"minItems":1}},
             "additionalProperties":false})",
         {"{}"}, {R"({"a":[]})"});
}

TEST(JsonSchema, StrictRefusesUnknownKeywords) {
  EXPECT_EQ(place_of(R"({"properties":{"a":{"nullable":true}}})"), "taken");
  EXPECT_EQ(place_of(R"({"properties":{"a":{"nullable":true}}})", true), "#/properties/a/nullable");
  EXPECT_EQ(place_of(R"({"title":"x","properties":{"a":{"description":"y","default":1}}})", true), "taken");
}

TEST(JsonSchema, NeverOpen) {
  EXPECT_EQ(place_of("false"), "#");
  EXPECT_EQ(place_of("{"), "");
  EXPECT_EQ(place_of("3"), "#");
  EXPECT_EQ(place_of(R"({"type":"strin"})"), "#/type");
  EXPECT_EQ(place_of(R"({"properties":[]})"), "#/properties");
  EXPECT_EQ(place_of(R"({"minLength":-1})"), "#/minLength");
  EXPECT_EQ(place_of(R"({"allOf":[1]})"), "#/allOf");
  std::string deep = "{}";
  for (int i = 0; i < 10'000; i++) deep = R"({"anyOf":[)" + deep + "]}";
  EXPECT_NE(place_of(deep), "taken");
}

TEST(JsonSchema, LargeOnesAreTaken) {
  EXPECT_EQ(place_of(R"({"type":"string","maxLength":65536})"), "taken");
  EXPECT_EQ(place_of(R"({"type":"array","items":{"type":"integer"},"maxItems":1000})"), "taken");
  std::string many = R"({"type":"object","properties":{)";
  for (int i = 0; i < 300; i++) many += fmt::format(R"({}"property_{}":{{"type":"string"}})", i == 0 ? "" : ",", i);
  EXPECT_EQ(place_of(many + "}}"), "taken");
  expect(many + R"(},"additionalProperties":false})", {R"({"property_7":"a","property_299":"b"})"},
         {R"({"property_299":"a","property_7":"b"})", R"({"property_300":"a"})"});
}

TEST(JsonSchema, UrisAreResolved) {
  EXPECT_EQ(resolve_uri("http://a/b/c?q", "d"), "http://a/b/d");
  EXPECT_EQ(resolve_uri("http://a/b/c", "../d"), "http://a/d");
  EXPECT_EQ(resolve_uri("http://a/b/c", "/d"), "http://a/d");
  EXPECT_EQ(resolve_uri("http://a", "d"), "http://a/d");
  EXPECT_EQ(resolve_uri("http://a/b/c", "./d"), "http://a/b/d");
  EXPECT_EQ(resolve_uri("http://a/b", "urn:x:y"), "urn:x:y");
}

}  // namespace
}  // namespace ingot::grammar
