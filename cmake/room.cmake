# verbena_room(NAME LINKS...): the static library of src/NAME, made of every .cc in that folder
# (and its subfolders), linked to the rooms below it.
function(verbena_room name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  if(NOT sources)
    add_library(verbena_${name} INTERFACE)
    target_link_libraries(verbena_${name} INTERFACE ${ARGN})
  else()
    add_library(verbena_${name} STATIC ${sources})
    target_link_libraries(verbena_${name} PUBLIC ${ARGN})
  endif()
endfunction()

# Under a sanitizer the optimizer costs more time than it saves, but for the code that moves bytes.
function(verbena_compile_fast target)
  if(VERBENA_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# verbena_test(NAME SOURCES... [LINKS ...] [LABELS ...]): one GoogleTest program registered with
# ctest as NAME.
function(verbena_test name)
  cmake_parse_arguments(T "" "" "LINKS;LABELS" ${ARGN})
  add_executable(${name} ${T_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${T_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O1)  # tests want to compile fast
  verbena_compile_fast(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
  if(T_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}")
  endif()
endfunction()
