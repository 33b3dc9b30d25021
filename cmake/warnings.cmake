# Warnings for our own code, and the sanitizers of the asan and tsan presets.
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -fno-strict-aliasing)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(VERBENA_SANITIZE)
  add_compile_options(-fsanitize=${VERBENA_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VERBENA_SANITIZE})
endif()
if(VERBENA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
