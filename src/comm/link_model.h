// How long collectives last by arithmetic: a model of the links between ranks, for figures on paper.
//
//   seconds = call_us + steps * latency_us + bytes / gbs
//
// with n ranks, S bytes in all, m the largest part (of a gather: a rank's; of a sum: S), r the root's part:
//
//                    ring                          direct                        switch
//   all_gather       n-1 steps, (n-1) m            1 step, (n-1) m               1 step, S less the smallest part
//   gather           1 step, S - r                 the same                      the same
//   all_reduce       2 (n-1) steps, 2 (n-1)/n S    <= 64 KiB: 1 step, (n-1) S    1 step, S
//                                                  more: 2 steps, 2 (n-1)/n S
//   reduce_scatter   n-1 steps, (n-1)/n S          1 step, (n-1)/n S             1 step, S
//   all_to_all       n-1 steps, what a rank gives  1 step, the same              1 step, the same
//   broadcast        n-1 steps, S                  1 step, (n-1) S               1 step, S
//   message          1 step, its bytes             the same                      the same
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ingot {

enum class LinkForm : uint8_t {
  kRing,    // each rank gives to the next one, which gives it on
  kDirect,  // each gives to every other one, through one port
  kSwitch,  // each gives once: a switch hands it to all, and adds
};

// What a rank does in a collective: so many bytes through its port, in so many steps that follow each other.
struct LinkWork {
  double steps = 0, bytes = 0;

  bool operator==(const LinkWork&) const = default;
};

struct LinkModel {
  LinkForm form = LinkForm::kDirect;
  double call_us = 0;     // of each collective, whatever it carries
  double latency_us = 0;  // of a step
  double gbs = 1;         // 10^9 bytes a second, of each direction of one rank's port

  double seconds(const LinkWork& work) const {
    return 1e-6 * (call_us + work.steps * latency_us) + work.bytes / (1e9 * gbs);
  }
  // `parts`: bytes of each rank's.
  LinkWork all_gather(std::span<const int64_t> parts) const;
  static LinkWork gather(std::span<const int64_t> parts, int root);
  LinkWork all_reduce(int ranks, int64_t bytes) const;
  LinkWork reduce_scatter(int ranks, int64_t bytes) const;
  // `given`: to all others.
  LinkWork all_to_all(int ranks, int64_t given) const;
  LinkWork broadcast(int ranks, int64_t bytes) const;
  static LinkWork message(int64_t bytes) { return {.steps = 1, .bytes = static_cast<double>(bytes)}; }
};

}  // namespace ingot
