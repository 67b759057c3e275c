"""The orders of instructions: the headers are those of orders.ini, every order is right, and a wrong one is found."""
import unittest

import search_orders
from order_search import instructions, machine
from order_search.instructions import OrderError, load, multiply, multiply_add, smmla, zero
from order_search.tiles import TILES


class HeadersTest(unittest.TestCase):
    def test_are_generated(self):
        self.assertEqual(search_orders.generate(search_orders.Orders(search_orders.ORDERS), only_check=True), [])

    def test_every_tile_is_in_one(self):
        for name in TILES:
            self.assertEqual(sum(name.startswith(prefix) for prefix in search_orders.HEADERS.values()), 1, name)


class OrdersTest(unittest.TestCase):
    def setUp(self):
        self.orders = search_orders.Orders(search_orders.ORDERS)

    def test_are_right(self):
        for tile in TILES.values():
            self.assertIsNone(search_orders.check_one(tile, self.orders[tile.name], None))

    def test_leave_the_plain_order_s_bits(self):
        if reason := machine.missing():
            self.skipTest(reason)
        with machine.Machine() as cpu:
            for tile in TILES.values():
                self.assertIsNone(search_orders.check_one(tile, self.orders[tile.name], cpu))

    def test_a_wrong_order_leaves_other_bits(self):
        if reason := machine.missing():
            self.skipTest(reason)
        tile = TILES["packed_q8_two"]
        with machine.Machine() as cpu, self.assertRaises(OrderError):
            cpu.check(tile, list(reversed(range(len(tile.plain)))))

    def test_a_search_finds_a_right_order(self):
        if reason := machine.missing():
            self.skipTest(reason)
        tile = TILES["packed_q8_two"]
        with machine.Machine() as cpu:
            tried, cycles, found = cpu.search(tile, list(range(len(tile.plain))), seconds=0.5, seed=1, silent=True)
            self.assertGreater(tried, 10)
            self.assertGreater(cycles, 1)
            self.assertIsNone(search_orders.check_one(tile, found, cpu))


class CheckTest(unittest.TestCase):
    """Of a small program: sums 8 = 8 + (1 · 2) · 3."""

    PLAIN = [zero(4), load(0, "w", 0), load(1, "x", 0), smmla(4, 0, 1), smmla(4, 1, 0), load(1, "s", 0), load(2, "s", 16),
             multiply(3, 1, 2), multiply_add(8, 4, 3)]

    def check(self, places):
        instructions.check([self.PLAIN[place] for place in places], self.PLAIN, inputs=(8,), outputs=(8,))

    def test_the_plain_order_and_free_moves(self):
        self.check(range(9))
        self.check([2, 1, 0, 4, 3, 6, 5, 7, 8])  # sums of integers in any order

    def test_read_before_it_is_there(self):
        with self.assertRaisesRegex(OrderError, "holds nothing yet"):
            self.check([0, 1, 3, 2, 4, 5, 6, 7, 8])

    def test_overwritten_while_it_is_to_be_read(self):
        with self.assertRaisesRegex(OrderError, "overwritten"):
            self.check([0, 1, 2, 3, 5, 4, 6, 7, 8])

    def test_an_instruction_twice(self):
        with self.assertRaisesRegex(OrderError, "each instruction"):
            self.check([0, 1, 2, 3, 3, 5, 6, 7, 8])


if __name__ == "__main__":
    unittest.main()
