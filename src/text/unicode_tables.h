// The generated tables of unicode_tables.cpp. Read through text/unicode.h only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot::unicode {

// A character's class is kStage2[kStage1[cp >> 7] << 7 | (cp & 127)]: bits 0 to 4 the general category, 0x20 where NFC
// may change it or its neighbours, 0x40 White_Space.
extern const uint16_t kStage1[];
extern const uint8_t kStage2[];

extern const uint32_t kDecompositions[][3];  // {character, first, second or 0}, by character
extern const size_t kDecompositionCount;
extern const uint16_t kCompositions[];  // into kDecompositions, by (first, second): those that compose again
extern const size_t kCompositionCount;
extern const uint32_t kCombiningClasses[][3];  // {first, last, combining class}, by character
extern const size_t kCombiningClassCount;

}  // namespace ingot::unicode
