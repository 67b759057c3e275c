# CUB as a rival of the ladders: a library of its own, which `ingot bench ladder --rivals tools/rivals.py` loads where it
# lies in a build folder. Off by default: it compiles for a minute, and no program of ours links it.
option(INGOT_CUB "Build CUB's operators as a rival for ingot bench ladder (needs INGOT_CUDA)" OFF)
if(INGOT_CUB)
  if(NOT INGOT_CUDA_BUILT)
    message(FATAL_ERROR "INGOT_CUB is ON, but the CUDA backend is not built")
  endif()
  add_library(ingot_cub_rivals SHARED ${PROJECT_SOURCE_DIR}/tools/cub_rivals.cu)
  set_target_properties(ingot_cub_rivals PROPERTIES CUDA_STANDARD 20 LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(ingot_cub_rivals PRIVATE CUDA::cudart_static)
endif()
