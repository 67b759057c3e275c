// For sources that are compiled once for each instruction set (cmake/isa.cmake) and for the headers they are made of.
//
// Such a source defines INGOT_ISA, the name of its set (its own suffix), before its first include. All that its headers
// define lies in `namespace ingot::cpu::INGOT_ISA` and has internal linkage there: the linker keeps one copy of an
// inline function that several objects define, and were it one compiled for a newer CPU, every other would run it too.
// tools/check_isa.py looks at the objects.
#pragma once

#if !defined(INGOT_ISA)
#error "INGOT_ISA, the instruction set of this source, is to be defined before its first include"
#endif

// "i8mm" where INGOT_ISA is i8mm.
#define INGOT_ISA_NAME INGOT_ISA_QUOTE(INGOT_ISA)
#define INGOT_ISA_QUOTE(SET) INGOT_ISA_QUOTE_EXPANDED(SET)
#define INGOT_ISA_QUOTE_EXPANDED(SET) #SET
