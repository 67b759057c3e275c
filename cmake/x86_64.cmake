# Toolchain: x86-64 from another architecture, tests run by qemu. Used by tools/check_isa.py:
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/x86_64.cmake -DINGOT_KERNELS_ONLY=ON
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
find_program(INGOT_CROSS_CXX NAMES x86_64-linux-gnu-g++-12 x86_64-linux-gnu-g++ REQUIRED)
set(CMAKE_CXX_COMPILER ${INGOT_CROSS_CXX})
