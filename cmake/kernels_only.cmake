# The kernels and their tests alone, for an architecture that is not this machine's: no library of that architecture is
# needed, only fmt's headers and the source of GoogleTest.
set(INGOT_GTEST_SOURCE /usr/src/googletest CACHE PATH "GoogleTest's source")
add_library(fmt::fmt INTERFACE IMPORTED)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
add_subdirectory(${INGOT_GTEST_SOURCE} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
