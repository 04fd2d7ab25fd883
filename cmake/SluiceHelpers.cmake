# The helpers every folder's CMakeLists.txt is made of.
#
#   sluice_library(core HDRS a.h … SRCS a.cc … DEPS absl::status …)
#       one static library per folder, alias sluice::core, headers in a file set
#   sluice_program(sluiced SRCS main.cc DEPS sluice::target)
#   sluice_test(task_test DEPS sluice::core [LABELS unit])
#       one gtest binary from <name>.cc, registered with ctest as one test; its
#       folder's name is a label too
include(GNUInstallDirs)

add_library(sluice_options INTERFACE)
target_compile_features(sluice_options INTERFACE cxx_std_20)
target_compile_options(sluice_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wold-style-cast -Wnon-virtual-dtor
  -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 warns about frame members of coroutines that it made up itself.
  target_compile_options(sluice_options INTERFACE -Wno-maybe-uninitialized)
endif()
if(SLUICE_SANITIZERS)
  target_compile_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZERS}
                         -fno-sanitize-recover=all)
  target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZERS})
endif()
if(SLUICE_FUZZERS)
  target_compile_options(sluice_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(sluice_library name)
  cmake_parse_arguments(ARG "" "" "HDRS;SRCS;DEPS" ${ARGN})
  add_library(sluice_${name} STATIC ${ARG_SRCS})
  add_library(sluice::${name} ALIAS sluice_${name})
  target_sources(sluice_${name} PUBLIC FILE_SET HEADERS
                 BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HDRS})
  target_link_libraries(sluice_${name} PUBLIC ${ARG_DEPS} sluice_options)
endfunction()

function(sluice_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} sluice_options)
endfunction()

# UBSan's checks of each pointer triple the time that g++ takes over a test and
# find nothing there that ASan does not; the libraries keep them.
# Linked last: -fsanitize=undefined behind it would switch them on again.
add_library(sluice_test_options INTERFACE)
if(SLUICE_SANITIZERS MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(sluice_test_options INTERFACE
    -fno-sanitize=null,vptr,alignment,object-size,nonnull-attribute,returns-nonnull-attribute)
endif()

function(sluice_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_SRCS)
    set(ARG_SRCS ${name}.cc)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                        ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main sluice_options
                        sluice_test_options)
  add_test(NAME ${name} COMMAND ${name})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS};${folder}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
