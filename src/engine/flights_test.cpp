#include "engine/flights.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

// Of any number of flights: as many as there are can be in flight, the oldest is retired first, and its place is used
// again.
TEST(Flights, GoRoundInOrder) {
  for (const int n : {2, 3, 5}) {
    Flights flights(n, {.rows = 8, .seqs = 2, .logits = 2, .context = 16, .page_rows = 4}, 1, 0);
    EXPECT_FALSE(flights.flying());
    EXPECT_EQ(&flights.front(), flights.next());
    int64_t oldest = 1;
    for (int64_t number = 1; number < 40; ++number) {
      Flight* next = flights.next();
      ASSERT_NE(next, nullptr);
      flights.launched();
      EXPECT_EQ(next->number, number);
      EXPECT_EQ(flights.newest().number, number);
      EXPECT_EQ(flights.front().number, oldest);
      if (flights.in_flight() < n && number % 3 != 0) continue;
      EXPECT_EQ(flights.next() == nullptr, flights.in_flight() == n);
      flights.front().plan.rows = 5;
      Flight& front = flights.front();
      flights.retire();
      EXPECT_EQ(front.plan.rows, 0);
      ++oldest;
    }
    flights.clear();
    EXPECT_FALSE(flights.flying());
  }
}

}  // namespace
}  // namespace ingot
