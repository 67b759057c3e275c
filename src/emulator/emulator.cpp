#include "emulator/emulator.h"

#include <algorithm>

#include "emulator/emulator_machine.h"

namespace ingot::cuda {
namespace emulated {

dim3 g_thread, g_block, g_threads, g_grid;

std::vector<Late> g_late;
Machine* g_machine = nullptr;

int lane() { return g_machine->current % 32; }

unsigned live_lanes() { return g_machine->warp().lanes; }

const Slots& meet_warp(const void* mine, size_t bytes) {
  Machine& m = *g_machine;
  Warp& w = m.warp();
  const int me = m.current;
  Slots& slots = w.slots[w.turn % 2];
  if (bytes > 0) std::memcpy(slots[me % 32], mine, bytes);
  if (++w.arrived == w.live) {
    m.finish_warp(w);
  } else {
    m.wait(w.turn);
  }
  return slots;
}

void meet_block() { __syncthreads_count(0); }

void meet_some(int id, int count) {
  Machine& m = *g_machine;
  Meeting& meeting = m.named[id];
  if (++meeting.arrived == count) {
    m.finish(meeting);
  } else {
    m.wait(meeting.turn);
  }
}

void arrive_some(int id, int count) {
  Machine& m = *g_machine;
  Meeting& meeting = m.named[id];
  CHECK(meeting.arrived < count, "more than {} threads at barrier {}", count, id);
  if (++meeting.arrived == count) m.finish(meeting);
}

void wait_a_while() {
  Machine& m = *g_machine;
  m.only_looked = true;
  m.fibers[static_cast<size_t>(m.current)]->leave();
}

std::byte* dynamic_shared() { return g_machine->shared.get(); }
size_t dynamic_shared_bytes() { return g_machine->shared_bytes; }
std::shared_ptr<void>& block_state() { return g_machine->more; }

void write_late(void* to, const void* from, size_t bytes) {
  const auto* old_bytes = static_cast<const std::byte*>(to);
  const auto* new_bytes = static_cast<const std::byte*>(from);
  g_late.push_back({static_cast<std::byte*>(to), {old_bytes, old_bytes + bytes}, {new_bytes, new_bytes + bytes}});
}

}  // namespace emulated

void wait_for_inputs() {
  if (emulated::g_late.empty()) return;
  emulated::meet_block();
  for (const emulated::Late& late : emulated::g_late) std::ranges::copy(late.after, late.to);
  emulated::meet_block();
}

unsigned __ballot_sync(unsigned mask, int predicate) {
  const auto [all, lane] = emulated::meet(predicate);
  const unsigned wanted = emulated::live_lanes() & mask;
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) {
    if (wanted >> i & 1) bits |= (emulated::from<int>(all, i) != 0 ? 1u : 0u) << i;
  }
  return bits;
}

float4 take_over_one(float* from) {
  const auto missing = [&](int i) { return __float_as_uint(from[i]) == emulated::kNotHanded; };
  while (missing(0) || missing(1) || missing(2) || missing(3)) emulated::wait_a_while();
  const float4 values = make_float4(from[0], from[1], from[2], from[3]);
  std::fill_n(from, 4, __uint_as_float(emulated::kNotHanded));
  return values;
}

int __syncthreads_count(int predicate) {
  emulated::Machine& m = *emulated::g_machine;
  m.block.sum += predicate != 0;
  if (++m.block.arrived == m.live) {
    m.finish(m.block);
  } else {
    m.wait(m.block.turn);
  }
  return m.block.result;
}

}  // namespace ingot::cuda
