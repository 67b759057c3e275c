# ingot_embed(TARGET FOLDER): every file of FOLDER becomes bytes inside TARGET, found by name through serve/ui_files.h.
# One generated .cpp holds them all; it is written anew when a file changes.
function(ingot_embed target folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/generated/ui_files.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUTPUT=${output} -P ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
