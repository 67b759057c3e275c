// How the codes of packed weights lie in a chunk, and how lanes make the matrix instruction's operand of them.
//
// A chunk is 16 rows by kUnits times 32 columns. Of a unit lane 4g + t has 16 codes, those that it holds as operand A
// of two instructions: pairs of neighbouring columns, pair p of instruction s in rows g (p even) and g + 8 (p odd), at
// columns pair_col(). A lane's words lie in pieces of 16 bytes, [piece][lane][16 bytes], the last in 8 where they are
// an odd number of pairs.
//
// Integers of up to 8 bits are bf16 as they are, times 2^-133: the last bit of the exponent goes on where the mantissa
// of subnormal values ends. So a mask makes an operand, and what stands 4 bits higher is 16 times as large. Codes of
// floats are put where bf16 has exponent and mantissa. Both are the value times a small power of two, which x and scale
// or sums make good.
#pragma once

#include "cuda/pairs.cuh"

namespace ingot::cuda {

// The first of the two columns of pair p of instruction s, in the unit. `by_sixteens`: an instruction has 16
// neighbouring columns, for groups of 16; else a lane has eight of both, so that one 16-byte load of x feeds them.
__host__ __device__ constexpr int pair_col(bool by_sixteens, int t, int s, int p) {
  return (by_sixteens ? 16 * s + 4 * t : 8 * t + 4 * s) + p / 2 * 2;
}

// Where pair j of a unit's 16 pairs of neighbouring columns lies for products by warpgroups: piece 0 … 3 of 16 bytes,
// in which lane t of four has the word t.
struct PairPlace {
  int piece, t;
};
__host__ __device__ constexpr PairPlace pair_place(bool by_sixteens, int j) {
  return by_sixteens ? PairPlace{j / 8 * 2 + j % 2, j % 8 / 2} : PairPlace{j % 4, j / 4};
}

template <int N>
__device__ __forceinline__ void load_words(const std::byte* chunk, int lane, uint32_t (&w)[N]) {
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {
    const uint4 v = *reinterpret_cast<const uint4*>(chunk + i * 512 + lane * 16);
    w[4 * i] = v.x, w[4 * i + 1] = v.y, w[4 * i + 2] = v.z, w[4 * i + 3] = v.w;
  }
  if constexpr (N % 4 != 0) {
    const uint2 v = *reinterpret_cast<const uint2*>(chunk + N / 4 * 512 + lane * 8);
    w[N - 2] = v.x, w[N - 1] = v.y;
  }
}
template <int N>
__device__ void store_words(std::byte* chunk, int lane, const uint32_t (&w)[N]) {
  for (int i = 0; i < N; ++i) {
    const int at = i / 4 == N / 4 ? N / 4 * 512 + lane * 8 + i % 4 * 4 : i / 4 * 512 + lane * 16 + i % 4 * 4;
    *reinterpret_cast<uint32_t*>(chunk + at) = w[i];
  }
}

constexpr float power_of_two(int n) { return __builtin_bit_cast(float, static_cast<uint32_t>(127 + n) << 23); }

// What all have: kUnits, kWords of a lane, kSmall: operands are values times 2^-kSmall; of rows g + 8 times 2^kOdd
// more. put(): code of half h of pair p of instruction s in unit u, into words that were zeros.

struct Integers {
  static constexpr int kSmall = 133, kOdd = 0;
  static constexpr bool kIntegers = true;
};
template <int kSmaller>
struct Floats {
  static constexpr int kSmall = kSmaller, kOdd = 0;
  static constexpr bool kIntegers = false;
};

// 4 bits.
struct Nibbles : Integers {
  static constexpr int kUnits = 4, kWords = 8, kOdd = 4;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    w[u * 2 + s] |= code << (4 * p + 16 * h);
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
    const uint32_t word = w[u * 2 + s], upper = word >> 8;
    a[0] = word & 0x000f000fu, a[1] = word & 0x00f000f0u;
    a[2] = upper & 0x000f000fu, a[3] = upper & 0x00f000f0u;
  }
};

// 5 bits: the low four as nibbles, the rest in words of their own.
struct Fives : Integers {
  static constexpr int kUnits = 4, kWords = 10;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    w[u * 2 + s] |= (code & 15) << (4 * p + 16 * h);
    w[8 + u / 2] |= (code >> 4) << (u % 2 * 8 + s * 4 + p + 16 * h);
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const int at = u % 2 * 8 + s * 4 + p;
      const uint32_t high = at < 4 ? w[8 + u / 2] << (4 - at) : w[8 + u / 2] >> (at - 4);
      a[p] = ((w[u * 2 + s] >> (4 * p)) & 0x000f000fu) | (high & 0x00100010u);
    }
  }
};
// Three words of a unit: each has in 16 bits two codes of instruction 0, or the first two of instruction 1, of which
// the second is masked where it is four times as large; the last two codes are in what is left, 4 bits and 2.
struct Sixes : Integers {
  static constexpr int kUnits = 4, kWords = 12, kOdd = 2;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    uint32_t* words = w + u * 3;
    const int i = s * 2 + p / 2;
    if (i < 3) {
      words[i] |= code << (p % 2 * 6 + 16 * h);
    } else {
      words[p % 2] |= (code & 15) << (12 + 16 * h);
      words[2] |= (code >> 4) << (12 + p % 2 * 2 + 16 * h);
    }
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
    const uint32_t *words = w + u * 3, *of_two = words + s * 2;
    a[0] = of_two[0] & 0x003f003fu, a[1] = (of_two[0] >> 4) & 0x00fc00fcu;
    if (s == 0) {
      a[2] = words[1] & 0x003f003fu, a[3] = (words[1] >> 4) & 0x00fc00fcu;
    } else {
      const uint32_t high = words[2] >> 8;
      a[2] = ((words[0] >> 12) & 0x000f000fu) | (high & 0x00300030u);
      a[3] = ((words[1] >> 10) & 0x003c003cu) | (high & 0x00c000c0u);
    }
  }
};

// 2 and 3 bits, the third in words of its own.
struct Twos : Integers {
  static constexpr int kUnits = 4, kWords = 4;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    w[u] |= code << (s * 8 + p * 2 + 16 * h);
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
#pragma unroll
    for (int p = 0; p < 4; ++p) a[p] = ((w[u] >> (s * 8 + p * 2)) & 0x00030003u);
  }
};
struct Threes : Integers {
  static constexpr int kUnits = 4, kWords = 6;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    w[u] |= (code & 3) << (s * 8 + p * 2 + 16 * h);
    w[4 + u / 2] |= (code >> 2) << (u % 2 * 8 + s * 4 + p + 16 * h);
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const int at = u % 2 * 8 + s * 4 + p;
      const uint32_t high = at < 2 ? w[4 + u / 2] << (2 - at) : w[4 + u / 2] >> (at - 2);
      a[p] = ((w[u] >> (s * 8 + p * 2)) & 0x00030003u) | (high & 0x00040004u);
    }
  }
};

// 8 bits.
template <int U>
struct Bytes : Integers {
  static constexpr int kUnits = U, kWords = 4 * U;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    w[u * 4 + s * 2 + p / 2] |= code << (8 * (p % 2) + 16 * h);
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
#pragma unroll
    for (int p = 0; p < 4; ++p) a[p] = (w[u * 4 + s * 2 + p / 2] >> (8 * (p % 2))) & 0x00ff00ffu;
  }
};

// E4M3: sign, exponent and mantissa to bits 15 and 10…4 of bf16 are the value times 2^-120, subnormal ones too. Of two
// pairs in a word the first lies so; the second's sign and last four bits lie 4 lower, the rest 4 higher.
struct FloatsE4M3 : Floats<120> {
  static constexpr int kUnits = 4, kWords = 16;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    const uint32_t bits = (code & 0x80) << 8 | (code & 0x7f) << 4;
    const uint32_t placed = p % 2 == 0 ? bits : (bits & 0x80f0u) >> 4 | (bits & 0x0700u) << 4;
    w[u * 4 + s * 2 + p / 2] |= placed << (16 * h);
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
#pragma unroll
    for (int p = 0; p < 4; p += 2) {
      const uint32_t word = w[u * 4 + s * 2 + p / 2];
      a[p] = word & 0x87f087f0u;
      a[p + 1] = ((word << 4) & 0x80f080f0u) | ((word >> 4) & 0x07000700u);
    }
  }
};
// E5M2: bits 15 and 11…5, times 2^-112. The second of two pairs: sign 3 lower, the last five bits 5 lower, the next
// two 3 higher.
struct FloatsE5M2 : Floats<112> {
  static constexpr int kUnits = 4, kWords = 16;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    const uint32_t bits = (code & 0x80) << 8 | (code & 0x7f) << 5;
    const uint32_t placed = p % 2 == 0 ? bits : (bits & 0x8000u) >> 3 | (bits & 0x03e0u) >> 5 | (bits & 0x0c00u) << 3;
    w[u * 4 + s * 2 + p / 2] |= placed << (16 * h);
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
#pragma unroll
    for (int p = 0; p < 4; p += 2) {
      const uint32_t word = w[u * 4 + s * 2 + p / 2];
      a[p] = word & 0x8fe08fe0u;
      a[p + 1] = ((word << 3) & 0x80008000u) | ((word << 5) & 0x03e003e0u) | ((word >> 3) & 0x0c000c00u);
    }
  }
};
// E2M1: bits 15 and 8…6, times 2^-126. Of a word's four pairs the second lies 3 lower, the third 6; of the fourth the
// sign lies 1 lower, the next bit 5 higher, the last two 4 higher.
struct FloatsE2M1 : Floats<126> {
  static constexpr int kUnits = 4, kWords = 8;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    // Minus zero is zero, as the reference has it.
    const uint32_t bits = code == 8 ? 0 : (code & 8) << 12 | (code & 7) << 6;
    const uint32_t fourth = (bits & 0x8000u) >> 1 | (bits & 0x0100u) << 5 | (bits & 0x00c0u) << 4;
    w[u * 2 + s] |= (p < 3 ? bits >> (3 * p) : fourth) << (16 * h);
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
    const uint32_t word = w[u * 2 + s];
    a[0] = word & 0x81c081c0u;
    a[1] = (word << 3) & 0x81c081c0u;
    a[2] = (word << 6) & 0x81c081c0u;
    a[3] = ((word << 1) & 0x80008000u) | ((word >> 5) & 0x01000100u) | ((word >> 4) & 0x00c000c0u);
  }
};

// 4 bits that index a table of 16 int8: four at a time become bytes, value + 128.
// The bytes 0…3 that permute_bytes() makes of a word's lower half are its nibbles.
template <class Table>
struct Indices : Integers {
  static constexpr int kUnits = 4, kWords = 8;
  __device__ static void put(uint32_t (&w)[kWords], int u, int s, int p, int h, uint32_t code) {
    // Bytes 0, 2 of the lower half are pair 0, bytes 1, 3 pair 1; the upper half has pairs 2 and 3.
    w[u * 2 + s] |= code << (16 * (p / 2) + 4 * (p % 2) + 8 * h);
  }
  static constexpr uint32_t table_word(int i) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j)
      word |= static_cast<uint32_t>(Table::kTable[static_cast<size_t>(4 * i + j)] + 128) << (8 * j);
    return word;
  }
  __device__ __forceinline__ static void operand(const uint32_t (&w)[kWords], int u, int s, uint32_t (&a)[4]) {
    constexpr uint32_t t0 = table_word(0), t1 = table_word(1), t2 = table_word(2), t3 = table_word(3);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t codes = half == 0 ? w[u * 2 + s] : w[u * 2 + s] >> 16;
      const uint32_t low = permute_bytes(t0, t1, codes & 0x7777u), high = permute_bytes(t2, t3, codes & 0x7777u);
      const uint32_t bytes = permute_bytes(low, high, ((codes >> 1) & 0x4444u) | 0x3210u);
#pragma unroll
      for (int p = 0; p < 2; ++p) a[half * 2 + p] = (bytes >> (8 * p)) & 0x00ff00ffu;
    }
  }
};

}  // namespace ingot::cuda
