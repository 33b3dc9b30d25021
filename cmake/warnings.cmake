# Warnings for our own code, and the sanitizers of the asan and tsan presets.
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -fno-strict-aliasing)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(VERBENA_SANITIZE)
  add_compile_options(-fsanitize=${VERBENA_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VERBENA_SANITIZE})
  # One runtime per process, shared: it can be preloaded into programs that know nothing of it.
  # libFuzzer's own runtime is static.
  if(NOT VERBENA_FUZZ)
    string(REGEX REPLACE "address.*" "asan" runtime ${VERBENA_SANITIZE})
    string(REGEX REPLACE "thread.*" "tsan" runtime ${runtime})
    execute_process(
      COMMAND ${CMAKE_CXX_COMPILER}
              -print-file-name=libclang_rt.${runtime}-${CMAKE_SYSTEM_PROCESSOR}.so
      OUTPUT_VARIABLE VERBENA_SANITIZER_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(folder ${VERBENA_SANITIZER_RUNTIME} DIRECTORY)
    add_link_options(-shared-libsan LINKER:-rpath,${folder})
  endif()
endif()
if(VERBENA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
