# Kernels that are compiled once per instruction set and chosen at start: the suffix of a source names
# the set. ingot_isa(LIST) drops from LIST the sources of other architectures and sets the others' flags.
set(INGOT_SETS "(avx2|avx512|avx512vnni|amx|baseline|neon|dotprod|i8mm)")
set(INGOT_AVX2_FLAGS "-mavx2;-mfma;-mf16c;-mprefer-vector-width=256")
set(INGOT_AVX512_FLAGS
  "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c;-mprefer-vector-width=512")

set(INGOT_AVX512VNNI_FLAGS "${INGOT_AVX512_FLAGS};-mavx512vnni")
set(INGOT_AMX_FLAGS "${INGOT_AVX512VNNI_FLAGS};-mamx-tile;-mamx-int8;-mamx-bf16")
set(INGOT_DOTPROD_FLAGS "-march=armv8.2-a+dotprod")
set(INGOT_I8MM_FLAGS "-march=armv8.2-a+dotprod+i8mm+bf16+fp16fml")

# The formats' inner loops have 16 turns: g++ would unroll them whole before it vectorizes, and decoding is
# 1.3 to 4 times slower then.
set(INGOT_KERNEL_FLAGS "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(INGOT_KERNEL_FLAGS "--param=max-completely-peel-times=8")
endif()

function(ingot_isa list)
  set(sources ${${list}})
  string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
  if(NOT processor MATCHES "^(x86_64|amd64)$")
    list(FILTER sources EXCLUDE REGEX "_(avx2|avx512|avx512vnni|amx)\\.cpp$")
  endif()
  if(processor MATCHES "^(aarch64|arm64)$")
    list(FILTER sources EXCLUDE REGEX "_baseline\\.cpp$")  # NEON is the baseline there
  else()
    list(FILTER sources EXCLUDE REGEX "_(neon|dotprod|i8mm)\\.cpp$")
  endif()
  foreach(source ${sources})
    if(NOT source MATCHES "_${INGOT_SETS}\\.cpp$")
      continue()
    endif()
    string(TOUPPER "${CMAKE_MATCH_1}" set)
    # A precompiled header is of one instruction set, and these files share no inline code with others.
    set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
      COMPILE_OPTIONS "${INGOT_${set}_FLAGS};${INGOT_KERNEL_FLAGS}")
  endforeach()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()
