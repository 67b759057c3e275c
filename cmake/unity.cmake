# Sources compiled together. Most of a file's time is the headers that it shares with its neighbours: eight files of
# src/serve take 35 s apart and 9 s as one, four small .cu files take nvcc 35 s and 10 s, and a fresh build about half
# the time. What is edited often is built apart: cmake -DINGOT_UNITY=OFF.
option(INGOT_UNITY "Compile up to eight neighbouring sources as one unit" ON)
set(INGOT_UNITY_FILES 8)  # an edit of one compiles them all
# Files with a name of their own that a neighbour's header has too.
set(INGOT_UNITY_ALONE serve/api/tools_request.cpp serve/answer/calls/parameter_reader.cpp
  serve/answer/calls/call_forms_test.cpp serve/answer/held_text_test.cpp
  ops/all_gather/all_gather_cuda_test.cpp ops/all_reduce/all_reduce_cuda_test.cpp matmul/cuda/gather_cuda_test.cpp
  matmul/cuda/stream/stream_f8_cuda.cu)
# And those that nvcc takes longest for, more than a minute for some: no neighbour waits with them.
list(APPEND INGOT_UNITY_ALONE matmul/cuda/any_cuda.cu matmul/cuda/wide/wide_16bit_cuda.cu
  matmul/cuda/wide/wide_4bit_cuda.cu matmul/cuda/wide/wide_8bit_cuda.cu matmul/cuda/wide/wide_k_cuda.cu)
list(TRANSFORM INGOT_UNITY_ALONE PREPEND ${PROJECT_SOURCE_DIR}/src/)
# nvcc takes about 20 s for such a file, 6 of them for its headers. Each counts as four, so that no unit takes more than
# a minute.
set(INGOT_UNITY_SLOW
  "/cuda/(stream|tall|experts)/.*_([0-9]+bit|k|table)_cuda\\.cu$|/attention_(split|group|latent)_.*_cuda\\.cu$")

# ingot_names(SOURCE OUT): what a source defines at the start of a line. Two files of one unit share none of these.
function(ingot_names source out)
  file(READ ${source} text)
  string(REGEX REPLACE "[][;]" "@" text "\n${text}")  # a list of CMake ends at each of them
  # A kernel's name comes after its bounds.
  string(REGEX REPLACE "__launch_bounds__\\(([^()]|\\([^()]*\\))*\\)[ \n]*" "" text "${text}")
  string(REGEX MATCHALL "\n[A-Za-z_][^\n({=@]*[({=@]" starts "${text}")
  set(names "")
  foreach(start ${starts})
    if(start MATCHES "^\n(namespace|template|return|extern|TEST|TEST_F|TEST_P|INSTANTIATE|INGOT_)")
      continue()
    elseif(source MATCHES "\\.cu$" AND start MATCHES "^\n(void|bool) (run|prepare|link)\\($")
      continue()  # of an operator each: they differ by its type
    elseif(start MATCHES "^\nusing [A-Za-z0-9_:]*::([A-Za-z0-9_]+)@$")
      list(APPEND names ${CMAKE_MATCH_1})
    elseif(start MATCHES "^\n(struct|class|union|enum class|enum|using) ([A-Za-z0-9_]+)")
      list(APPEND names ${CMAKE_MATCH_2})
    elseif(start MATCHES "([A-Za-z0-9_:~]+) *[({=@]$")
      list(APPEND names ${CMAKE_MATCH_1})
    endif()
  endforeach()
  string(REGEX MATCHALL "\nconstexpr [^\n@]*@" constants "${text}")
  string(REGEX MATCHALL ", [A-Za-z0-9_]+ =" more "${constants}")  # of one line
  list(TRANSFORM more REPLACE ", ([A-Za-z0-9_]+) =" "\\1")
  list(APPEND names ${more})
  string(REGEX MATCHALL "\n +using [A-Za-z0-9_]+ =" local "${text}")  # would shadow
  list(TRANSFORM local REPLACE ".*using ([A-Za-z0-9_]+) =" "\\1")
  list(APPEND names ${local})
  list(REMOVE_DUPLICATES names)
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# ingot_groups(source...): INGOT_GROUPS, their number, and INGOT_GROUP_0 and so on, the sources of each.
function(ingot_groups)
  set(sources ${ARGN})
  list(SORT sources)
  set(groups 0)
  set(open 0)  # the first group that may take a file
  foreach(source ${sources})
    ingot_names(${source} names)
    set(counts 1)
    if(source MATCHES "${INGOT_UNITY_SLOW}")
      set(counts 4)
    endif()
    set(place ${groups})
    if(open LESS groups)
      math(EXPR last "${groups} - 1")
      foreach(group RANGE ${open} ${last})
        math(EXPR count "${count_${group}} + ${counts}")
        set(clash NO)
        foreach(name ${names})
          if(name IN_LIST names_${group})
            set(clash YES)
            break()
          endif()
        endforeach()
        if(NOT clash AND NOT count GREATER INGOT_UNITY_FILES)
          set(place ${group})
          break()
        endif()
      endforeach()
    endif()
    if(place EQUAL groups)
      math(EXPR groups "${groups} + 1")
      set(count_${place} 0)
    endif()
    math(EXPR count_${place} "${count_${place}} + ${counts}")
    list(APPEND files_${place} ${source})
    list(APPEND names_${place} ${names})
    set(INGOT_GROUP_${place} ${files_${place}} PARENT_SCOPE)
    while(open LESS groups)
      if(count_${open} LESS INGOT_UNITY_FILES)
        break()
      endif()
      math(EXPR open "${open} + 1")
    endwhile()
  endforeach()
  set(INGOT_GROUPS ${groups} PARENT_SCOPE)
endfunction()

# ingot_unity(TARGET): its sources in groups. Files with flags of their own, or that precompile nothing, stay alone.
function(ingot_unity target)
  if(NOT INGOT_UNITY OR NOT TARGET ${target})
    return()
  endif()
  get_target_property(all ${target} SOURCES)
  list(FILTER all INCLUDE REGEX "\\.cpp$")
  list(REMOVE_ITEM all ${INGOT_UNITY_ALONE})
  set(sources "")
  foreach(source ${all})
    get_source_file_property(flags ${source} COMPILE_OPTIONS)
    get_source_file_property(alone ${source} SKIP_PRECOMPILE_HEADERS)
    if(NOT flags AND NOT alone)
      list(APPEND sources ${source})
    endif()
  endforeach()
  ingot_groups(${sources})
  set(group 0)
  while(group LESS INGOT_GROUPS)
    set_source_files_properties(${INGOT_GROUP_${group}} PROPERTIES UNITY_GROUP ${target}_${group})
    math(EXPR group "${group} + 1")
  endwhile()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Of types with parts of an unnamed namespace: it tells headers, and takes the sources of a unit for such.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# ingot_cuda_units(LIST): its .cu files in groups, each a file that includes them: CMake 3.25 has no units of CUDA's.
function(ingot_cuda_units list)
  if(NOT INGOT_UNITY)
    return()
  endif()
  set(sources ${${list}})
  list(FILTER sources INCLUDE REGEX "\\.cu$")
  list(REMOVE_ITEM sources ${INGOT_UNITY_ALONE})
  list(REMOVE_ITEM ${list} ${sources})
  # A *_kernel.cuh defines a template that one file calls and others instantiate, some formats each. Where it is defined
  # before it is called, it would be compiled for every format again.
  set(formats "")
  foreach(source ${sources})
    file(STRINGS ${source} kernel REGEX "^#include .*_kernel\\.cuh\"$" LIMIT_COUNT 1)
    if(kernel)
      list(APPEND formats ${source})
    endif()
  endforeach()
  list(REMOVE_ITEM sources ${formats})
  foreach(kind sources formats)
    ingot_groups(${${kind}})
    set(group 0)
    while(group LESS INGOT_GROUPS)
      set(unit ${CMAKE_BINARY_DIR}/Unity/cuda_${kind}_${group}.cu)  # as CMake names the folder
      list(TRANSFORM INGOT_GROUP_${group} REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE includes)
      string(JOIN "" includes ${includes})
      ingot_write(${unit} "// Written by cmake/unity.cmake.\n${includes}")
      list(APPEND ${list} ${unit})
      math(EXPR group "${group} + 1")
    endwhile()
  endforeach()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()
