// Runs orders of a tile's instructions on this core: compares their results, times them, and searches for a faster one.
// Built and run by tools/search_orders.py, which says what it is for; its input is what order_search/machine.py writes.
//
// An order is a permutation of machine words in a page that can be written and executed: a candidate costs some tens of
// microseconds, a million of them half an hour.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace {

using Order = std::vector<int>;

// Bytes behind what an operand points to: a prefetch of a page that is not there would wait for the page tables.
constexpr int64_t kBehind = 24 << 10;

// What the code gets: registers v0 to v31 before and behind, the number of blocks, and what its operands point to.
struct alignas(64) Frame {
  uint8_t before[32][16];
  uint8_t behind[32][16];
  int64_t blocks;
  void* operands[15];  // x1 …
};

struct Instruction {
  uint64_t reads, writes;  // bits of vector registers
  bool adds;               // integers, in any order
};

struct Operand {
  int place;
  std::string kind;
  int64_t bytes;
};

struct Tile {
  std::vector<uint32_t> words;
  size_t body;  // where it begins
  std::vector<Instruction> instructions;
  uint64_t outputs;
  int64_t blocks;
  std::vector<Operand> operands;
  std::vector<Order> orders;  // the first is the plain one
};

Tile read_tile(const char* path) {
  std::ifstream in(path);
  Tile tile;
  size_t n = 0, body_words = 0, n_operands = 0, n_orders = 0;
  in >> n;
  tile.words.resize(n);
  for (uint32_t& word : tile.words) in >> word;
  in >> tile.body >> body_words >> tile.outputs >> tile.blocks;
  tile.instructions.resize(body_words);
  for (Instruction& i : tile.instructions) in >> i.reads >> i.writes >> i.adds;
  in >> n_operands;
  tile.operands.resize(n_operands);
  for (Operand& o : tile.operands) in >> o.place >> o.kind >> o.bytes;
  in >> n_orders;
  tile.orders.assign(n_orders, Order(body_words));
  for (Order& order : tile.orders)
    for (int& place : order) in >> place;
  if (!in) {
    std::fprintf(stderr, "%s: not what machine.py writes\n", path);
    std::exit(2);
  }
  return tile;
}

// Whether two instructions that follow each other may change places.
bool commute(const Instruction& a, const Instruction& b) {
  uint64_t shared = (a.writes & (b.reads | b.writes)) | (a.reads & b.writes);
  if (a.adds && b.adds && a.writes == b.writes) shared &= ~a.writes | (a.writes & (a.writes - 1));
  return shared == 0;
}

class Runner {
 public:
  explicit Runner(const Tile& tile) : tile_(tile), frame_(new Frame{}) {
    bytes_ = tile.words.size() * 4;
    code_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code_ == MAP_FAILED) {
      std::fprintf(stderr, "this system gives no page that can be written and executed\n");
      std::exit(2);
    }
    std::memcpy(code_, tile.words.data(), bytes_);
    frame_->blocks = tile.blocks;
    for (const Operand& o : tile.operands) {
      if (o.kind == "offset") {
        frame_->operands[o.place - 1] = reinterpret_cast<void*>(int64_t{2048} * (1 + o.place % 2));
        continue;
      }
      memory_.emplace_back(static_cast<size_t>(o.bytes + kBehind + 64));
      frame_->operands[o.place - 1] =
          reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory_.back().data()) + 63) / 64 * 64);
    }
  }

  // Fills what operands point to: bytes of any value, floats and f16 between 0.5 and 1.
  void fill(uint32_t seed) {
    std::mt19937 random(seed);
    for (const Operand& o : tile_.operands) {
      auto* at = static_cast<uint8_t*>(frame_->operands[o.place - 1]);
      if (o.kind == "offset") continue;
      for (int64_t i = 0; i < o.bytes + kBehind; i += 4) {
        const auto bits = static_cast<uint32_t>(random());
        uint32_t word = bits;
        if (o.kind == "floats") word = 0x3f000000u | (bits & 0x007fffffu);
        if (o.kind == "halves") word = 0x38003800u | (bits & 0x03ff03ffu);
        std::memcpy(at + i, &word, 4);
      }
    }
    for (auto& registers : frame_->before)
      for (uint8_t& byte : registers) byte = 0;
  }

  void use(const Order& order) {
    auto* words = static_cast<uint32_t*>(code_);
    for (size_t i = 0; i < order.size(); ++i)
      words[tile_.body + i] = tile_.words[tile_.body + static_cast<size_t>(order[i])];
    __builtin___clear_cache(static_cast<char*>(code_), static_cast<char*>(code_) + bytes_);
  }

  void call() { reinterpret_cast<void (*)(Frame*)>(code_)(frame_); }

  std::vector<uint8_t> results(const Order& order) {
    use(order);
    call();
    std::vector<uint8_t> bytes;
    for (int r = 0; r < 32; ++r)
      if (tile_.outputs >> r & 1) bytes.insert(bytes.end(), frame_->behind[r], frame_->behind[r] + 16);
    return bytes;
  }

  // Nanoseconds for a block: the best of some tries, of some calls each.
  double time(const Order& order, int tries, int calls) {
    use(order);
    for (int i = 0; i < 3; ++i) call();
    double best = 1e30;
    for (int t = 0; t < tries; ++t) {
      const double start = now();
      for (int i = 0; i < calls; ++i) call();
      best = std::min(best, (now() - start) / (static_cast<double>(calls) * static_cast<double>(tile_.blocks)));
    }
    return best;
  }

  static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
  }

 private:
  const Tile& tile_;
  Frame* frame_;
  void* code_;
  size_t bytes_;
  std::vector<std::vector<uint8_t>> memory_;
};

// Cycles in a nanosecond, by additions that wait for each other.
double cycles_per_ns() {
  double best = 1e30;
  for (int t = 0; t < 20; ++t) {
    uint64_t n = 20000, x = 0;
    const double start = Runner::now();
    asm volatile(
        "1: add %1, %1, #1\n\tadd %1, %1, #1\n\tadd %1, %1, #1\n\tadd %1, %1, #1\n\tadd %1, %1, #1\n\t"
        "add %1, %1, #1\n\tadd %1, %1, #1\n\tadd %1, %1, #1\n\tsubs %0, %0, #1\n\tb.ne 1b"
        : "+r"(n), "+r"(x)
        :
        : "cc");
    best = std::min(best, (Runner::now() - start) / (8 * 20000));
  }
  return 1 / best;
}

int check(const Tile& tile, Runner& runner) {
  for (size_t i = 1; i < tile.orders.size(); ++i)
    for (uint32_t seed = 1; seed <= 20; ++seed) {
      runner.fill(seed);
      if (runner.results(tile.orders[i]) == runner.results(tile.orders[0])) continue;
      std::printf("differs %zu\n", i);
      return 1;
    }
  std::printf("equal\n");
  return 0;
}

int time_all(const Tile& tile, Runner& runner) {
  runner.fill(1);
  std::vector<double> best(tile.orders.size(), 1e30);
  for (int round = 0; round < 20; ++round)  // in turn: what disturbs one disturbs all
    for (size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], runner.time(tile.orders[i], 20, 20));
  const double cycles = cycles_per_ns();
  for (double ns : best) std::printf("cycles %.2f\n", ns * cycles);
  return 0;
}

// Moves a few instructions to other places, as far as those they pass let them.
void move_some(const Tile& tile, std::mt19937& random, Order& order) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  for (int moves = 1 + below(4); moves > 0; --moves) {
    int at = below(static_cast<int>(order.size()));
    const int step = below(2) == 0 ? 1 : -1;
    for (int far = 1 + below(16); far > 0; --far, at += step) {
      const int next = at + step;
      if (next < 0 || next >= static_cast<int>(order.size())) break;
      auto& a = order[static_cast<size_t>(at)];
      auto& b = order[static_cast<size_t>(next)];
      if (!commute(tile.instructions[static_cast<size_t>(a)], tile.instructions[static_cast<size_t>(b)])) break;
      std::swap(a, b);
    }
  }
}

// Begins with the last order. Goes on from candidates that are no slower, within noise, than the best so far.
int search(const Tile& tile, Runner& runner, double seconds, uint32_t seed) {
  constexpr double kNoise = 0.002;
  std::mt19937 random(seed);
  runner.fill(1);
  const double cycles = cycles_per_ns(), end = Runner::now() + 1e9 * seconds;
  Order best = tile.orders.back(), current = best;
  double best_ns = runner.time(best, 50, 20);
  int64_t tried = 0;
  for (; Runner::now() < end; ++tried) {
    if (tried % 1000 == 999) {  // the clock may have changed, and the way from here may lead nowhere
      current = best;
      best_ns = runner.time(best, 50, 20);
    }
    Order next = current;
    move_some(tile, random, next);
    const double ns = runner.time(next, 3, 10);
    if (ns > best_ns * (1 + kNoise)) continue;
    current = next;
    if (ns >= best_ns) continue;
    const double again = runner.time(next, 30, 20), before = runner.time(best, 30, 20);
    best_ns = std::min(again, before);
    if (again >= before) continue;
    best = next;
    std::fprintf(stderr, "%lld orders tried: %.2f cycles\n", static_cast<long long>(tried), best_ns * cycles);
  }
  std::printf("tried %lld\ncycles %.2f\norder", static_cast<long long>(tried), best_ns * cycles);
  for (int place : best) std::printf(" %d", place);
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const Tile tile = read_tile(argv[2]);
  Runner runner(tile);
  const std::string mode = argv[1];
  if (mode == "check") return check(tile, runner);
  if (mode == "time") return time_all(tile, runner);
  if (mode == "search" && argc == 5)
    return search(tile, runner, std::atof(argv[3]), static_cast<uint32_t>(std::atoi(argv[4])));
  return 2;
}
