// The generated tables of unicode_tables.cpp and unicode_library_tables.cpp. Read through text/unicode/unicode.h and
// text/unicode/unicode_library.h only.
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

// {character, where its form KD begins among the characters}, by character; one row more than the count, for the end.
extern const uint32_t kCompatibility[][2];
extern const size_t kCompatibilityCount;
extern const uint32_t kCompatibilityCharacters[];

// Sets of characters as {first, last}, sorted; the number is a version of Unicode.
extern const uint32_t kHan[][2];
extern const size_t kHanCount;
extern const uint32_t kMarks9[][2];  // Mn, Mc, Me
extern const size_t kMarks9Count;
extern const uint32_t kNonspacing8[][2];  // Mn
extern const size_t kNonspacing8Count;
extern const uint32_t kPunctuation8[][2];  // P
extern const size_t kPunctuation8Count;
extern const uint32_t kOther8[][2];  // Cc, Cf, Co
extern const size_t kOther8Count;
extern const uint32_t kNumbers17[][2];  // N
extern const size_t kNumbers17Count;

extern const uint32_t kScripts9[][3];  // {first, last, script}; kana count as Han, U+0020 is of none
extern const size_t kScripts9Count;
extern const uint32_t kBreaks16[][3];  // {first, last, GraphemeBreak}, without Hangul syllables
extern const size_t kBreaks16Count;
extern const uint32_t kLower17[][2];  // {character, lower case}, by character, where it is one other character
extern const size_t kLower17Count;

}  // namespace ingot::unicode
