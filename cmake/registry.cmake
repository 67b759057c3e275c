# The directory is the registry: the lists of ops, models, weight formats and fuzz targets are written from what
# lies in ops/*/, models/*.cpp, quant/formats/*.h and tests/fuzz/*_fuzz.cpp. A new one is a new file; no list
# is kept by hand.
set(INGOT_GENERATED ${CMAKE_BINARY_DIR}/generated)

# rms_norm -> RmsNorm
function(ingot_camel_case name out)
  string(REPLACE "_" ";" parts ${name})
  set(result "")
  foreach(part ${parts})
    string(SUBSTRING ${part} 0 1 first)
    string(SUBSTRING ${part} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND result ${first}${rest})
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# Writes `text` to `path` only when it differs, so that nothing is rebuilt without a reason.
function(ingot_write path text)
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)
endfunction()

function(ingot_generate_formats)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src/quant/formats ${PROJECT_SOURCE_DIR}/src/quant/formats/*.h)
  list(SORT headers)
  set(includes "")
  set(names "")
  foreach(header ${headers})
    string(REGEX REPLACE "\\.h$" "" name ${header})
    string(TOUPPER ${name} upper)
    string(APPEND includes "#include \"quant/formats/${header}\"\n")
    string(APPEND names " \\\n  X(${upper})")
  endforeach()
  ingot_write(${INGOT_GENERATED}/quant/format_list.inc
    "// Written by cmake/registry.cmake from src/quant/formats/*.h.\n#define INGOT_FORMATS(X)${names}\n")
  ingot_write(${INGOT_GENERATED}/quant/format_headers.inc
    "// Written by cmake/registry.cmake from src/quant/formats/*.h.\n${includes}")
endfunction()

function(ingot_generate_ops)
  file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE ${PROJECT_SOURCE_DIR}/src/ops ${PROJECT_SOURCE_DIR}/src/ops/*)
  list(SORT folders)
  set(includes "")
  set(names "")
  foreach(folder ${folders})
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/ops/${folder}/${folder}.h)
      ingot_camel_case(${folder} camel)
      string(APPEND includes "#include \"ops/${folder}/${folder}.h\"\n")
      string(APPEND names " \\\n  X(${camel}, ${folder})")
    endif()
  endforeach()
  ingot_write(${INGOT_GENERATED}/ops/op_list.inc
    "// Written by cmake/registry.cmake from src/ops/*/.\n${includes}#define INGOT_OPS(X)${names}\n")
endfunction()

function(ingot_generate_models)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src/models ${PROJECT_SOURCE_DIR}/src/models/*.cpp)
  list(SORT sources)
  set(names "")
  foreach(source ${sources})
    string(REGEX REPLACE "\\.cpp$" "" name ${source})
    # model.cpp and blocks.cpp are the shared parts; every other file is an architecture.
    if(NOT name MATCHES "^(model|blocks)$" AND NOT name MATCHES "_test$")
      string(APPEND names " \\\n  X(${name})")
    endif()
  endforeach()
  ingot_write(${INGOT_GENERATED}/models/model_list.inc
    "// Written by cmake/registry.cmake from src/models/*.cpp.\n#define INGOT_MODELS(X)${names}\n")
endfunction()

function(ingot_generate_fuzz_targets)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests/fuzz ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)
  list(SORT sources)
  set(names "")
  foreach(source ${sources})
    string(REGEX REPLACE "_fuzz\\.cpp$" "" name ${source})
    string(APPEND names " \\\n  X(${name})")
  endforeach()
  ingot_write(${INGOT_GENERATED}/fuzz_target_list.inc
    "// Written by cmake/registry.cmake from tests/fuzz/*_fuzz.cpp.\n#define INGOT_FUZZ_TARGETS(X)${names}\n")
endfunction()

ingot_generate_formats()
ingot_generate_ops()
ingot_generate_models()
ingot_generate_fuzz_targets()
