# The CUDA backend: every src/**/*.cu and src/**/cuda_*.cpp. It is linked behind engine/model/cuda.h, bench/device.h
# and devices/gpu_work.h in one of three forms, each a set of objects that the programs link directly:
#   ingot_cuda_none      a stub, where there is no CUDA
#   ingot_cuda_real      compiled by nvcc
#   ingot_cuda_emulated  compiled as C++, the host plays the device: in tests alone (cmake/emulated)
# INGOT_CUDA: AUTO is ON where a toolkit is found and this machine has a GPU.
set(INGOT_CUDA AUTO CACHE STRING "The CUDA backend: AUTO, ON or OFF")
set(INGOT_CUDA_ARCHS "" CACHE STRING "Compute capabilities that get machine code; empty: all that we have kernels for")

file(GLOB_RECURSE INGOT_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cu ${PROJECT_SOURCE_DIR}/src/cuda_*.cpp
  ${PROJECT_SOURCE_DIR}/src/emulator/*.cpp)
list(FILTER INGOT_CUDA_SOURCES EXCLUDE REGEX "_test\\.cpp$|/cuda_none\\.cpp$|/src/ladder/")  # ladder.cmake
file(GLOB_RECURSE INGOT_CUDA_TESTS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_cuda_test.cpp
  ${PROJECT_SOURCE_DIR}/tests/golden/*_cuda_test.cpp)
set(INGOT_CUDA_EMULATED_ONLY "/cuda_emulated\\.cpp$|/emulator/[a-z_]*\\.cpp$")
set(INGOT_CUDA_REAL_ONLY "/cuda_runtime\\.cpp$|/cuda_parts\\.cpp$")

set(INGOT_CUDA_BUILT OFF)
if(NOT INGOT_CUDA STREQUAL "OFF")
  find_program(INGOT_NVCC nvcc HINTS /usr/local/cuda/bin)
  set(gpu OFF)
  if(EXISTS /dev/nvidia0 OR EXISTS /dev/nvidiactl OR EXISTS /dev/dxg)
    set(gpu ON)
  endif()
  if(INGOT_NVCC AND (INGOT_CUDA STREQUAL "ON" OR gpu))
    set(INGOT_CUDA_BUILT ON)
  elseif(INGOT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "INGOT_CUDA is ON, but there is no nvcc")
  endif()
endif()
message(STATUS "CUDA: ${INGOT_CUDA_BUILT}")

if(INGOT_CUDA_BUILT)
  set(CMAKE_CUDA_COMPILER ${INGOT_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${INGOT_CUDA_ARCHS})
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90a-real)
    execute_process(COMMAND ${INGOT_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    foreach(arch 100 120)
      if(known MATCHES "sm_${arch}[^0-9a-z]")
        list(APPEND CMAKE_CUDA_ARCHITECTURES ${arch}-real)
      endif()
    endforeach()
  endif()
  # Kernels for compute capability 9.0 have instructions that are 90a's alone.
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90$" "90a")
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90-" "90a-")
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # linked by name below: no program needs a library of CUDA's to start
  enable_language(CUDA)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  find_package(CUDAToolkit REQUIRED)
  # CMake 3.25 does not know how nvcc 13 is told of C++20. -Xptxas -v: tools/inspect_cuda_build.py reads what it prints.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_STANDARD__HAS_FULL_SUPPORT ON)
  string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr --fmad=false -Xptxas -v -Xfatbin -compress-all")
  string(APPEND CMAKE_CUDA_FLAGS " -diag-suppress=20012,20013,20014,20015")
endif()
