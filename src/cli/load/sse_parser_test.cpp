#include "cli/load/sse_parser.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace ingot {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

// The events of `text` when it comes in pieces of `piece` bytes.
Events parse(std::string_view text, size_t piece) {
  Events events;
  SseParser parser([&](std::string_view name, std::string_view data) { events.emplace_back(name, data); });
  for (size_t at = 0; at < text.size(); at += piece) parser.feed(text.substr(at, piece));
  return events;
}

TEST(SseParser, AnyPiecesGiveTheSameEvents) {
  const std::string text =
      "data: {\"a\": 1}\n\n: a comment\n\nevent: delta\r\ndata:two\r\ndata: lines\r\n\r\n"
      "id: 7\rdata:\r\rretry: 5\n\ndata\n\nevent: none\n\ndata:  [DONE]\n\ndata: the end is missing\n";
  const Events expected = {{"", "{\"a\": 1}"}, {"delta", "two\nlines"}, {"", ""}, {"", ""}, {"", " [DONE]"}};
  for (size_t piece = 1; piece <= text.size(); ++piece) EXPECT_EQ(parse(text, piece), expected) << piece;
}

TEST(SseParser, LongEventsAreRefused) {
  SseParser parser([](std::string_view, std::string_view) {}, 100);
  for (int i = 0; i < 50; ++i) parser.feed("data: short\n\n");
  parser.feed("data: " + std::string(90, 'x') + "\n");
  EXPECT_THROW(parser.feed("data: " + std::string(90, 'x')), Error);
}

}  // namespace
}  // namespace ingot
