# One folder of src/ is one static library, rocca::NAME, and one test program, NAME_test. A folder inside another may
# be a module of its own: platform/proxmox is rocca::platform_proxmox and platform_proxmox_test.
#
#   rocca_module(proxmox
#     SOURCES                            # one per line
#       client.cpp
#       tasks.cpp
#     TESTS
#       client_test.cpp
#     USES    rocca::base rocca::net     # the arrows of this folder, visible in its headers
#     PRIVATE rocca::text OpenSSL::SSL   # arrows and libraries that only its .cpp files know
#     TEST_USES rocca_rapidcheck)        # what only the tests need
#
# Every arrow is written to layers.txt, which the `layers` test compares with the #include lines.

set(ROCCA_LAYERS_FILE "${PROJECT_BINARY_DIR}/layers.txt")
file(WRITE "${ROCCA_LAYERS_FILE}" "")

# What nearly every file includes is read once for all: a file of src/ takes 2.0 s instead of 2.8 s, a test, which also
# includes gmock and perhaps RapidCheck, 1.4 s less. ccache sees through a precompiled header only with -fpch-preprocess.
# Other compilers do without, and so does clang-tidy, which thereby still finds a missing #include.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_library(rocca_headers OBJECT ${CMAKE_CURRENT_LIST_DIR}/headers.cpp)
  target_link_libraries(rocca_headers PRIVATE fmt::fmt rocca_warnings)
  target_compile_options(rocca_headers PRIVATE -fpch-preprocess)
  target_precompile_headers(rocca_headers PRIVATE <algorithm> <array> <charconv> <chrono> <coroutine> <cstdint> <deque>
    <filesystem> <functional> <map> <memory> <mutex> <optional> <ostream> <set> <span> <stop_token> <string>
    <string_view> <utility> <variant> <vector> <fmt/format.h>)
endif()
if(BUILD_TESTING AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_library(rocca_test_headers OBJECT ${CMAKE_CURRENT_LIST_DIR}/headers.cpp)
  target_link_libraries(rocca_test_headers PRIVATE GTest::gmock rocca_rapidcheck rocca_warnings)
  target_compile_options(rocca_test_headers PRIVATE -fpch-preprocess)
  target_precompile_headers(rocca_test_headers PRIVATE <gmock/gmock.h> <rapidcheck.h> <rapidcheck/gtest.h>)
endif()

function(rocca_reuse_headers target)
  if(TARGET rocca_headers)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    target_precompile_headers(${target} REUSE_FROM rocca_headers)
  endif()
endfunction()

function(rocca_reuse_test_headers target)
  if(TARGET rocca_test_headers)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    target_precompile_headers(${target} REUSE_FROM rocca_test_headers)
  endif()
endfunction()

function(rocca_module folder)
  cmake_parse_arguments(arg "" "" "SOURCES;TESTS;USES;PRIVATE;TEST_USES" ${ARGN})
  string(REPLACE "/" "_" name "${folder}")
  add_library(rocca_${name} STATIC ${arg_SOURCES})
  add_library(rocca::${name} ALIAS rocca_${name})
  target_include_directories(rocca_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(rocca_${name} PUBLIC ${arg_USES} PRIVATE ${arg_PRIVATE} rocca_warnings)
  rocca_reuse_headers(rocca_${name})
  file(APPEND "${ROCCA_LAYERS_FILE}" "${folder}: ${arg_USES};${arg_PRIVATE}\n")
  file(APPEND "${ROCCA_LAYERS_FILE}" "${folder} tests: ${arg_TEST_USES}\n")
  if(BUILD_TESTING AND arg_TESTS)
    add_executable(${name}_test ${arg_TESTS})
    target_link_libraries(${name}_test PRIVATE rocca_${name} ${arg_PRIVATE} ${arg_TEST_USES}
      rocca_warnings GTest::gmock_main)
    rocca_reuse_test_headers(${name}_test)
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
      PROPERTIES LABELS ${name} TIMEOUT 120)
  endif()
endfunction()

# A test over recordings of tests/reference and ROCCA_SHARED/vectors: one CTest entry that runs every file found there.
# NAME begins with the folder it reads. Exit code 77 means that the data is not there; CTest then says so.
function(rocca_reference_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  add_executable(${name}_reference ${arg_SOURCES})
  target_include_directories(${name}_reference PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name}_reference PRIVATE ${arg_USES} rocca_warnings GTest::gmock
    rocca_reference_main)
  rocca_reuse_test_headers(${name}_reference)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src" OUTPUT_VARIABLE folder)
  if(NOT folder MATCHES "^\\.\\.")
    file(APPEND "${ROCCA_LAYERS_FILE}" "${folder} tests: ${arg_USES};rocca_test_support\n")
  endif()
  add_test(NAME ${name} COMMAND ${name}_reference)
  set_tests_properties(${name} PROPERTIES LABELS reference TIMEOUT 600 SKIP_RETURN_CODE 77)
endfunction()

# A libFuzzer target: SOURCES define LLVMFuzzerTestOneInput. SEEDS is a folder of inputs to begin with.
# scripts/fuzz runs every target that stands in fuzz_targets.txt.
if(ROCCA_FUZZ)
  set(ROCCA_FUZZ_FILE "${PROJECT_BINARY_DIR}/fuzz_targets.txt")
  file(WRITE "${ROCCA_FUZZ_FILE}" "")
endif()

function(rocca_fuzz name)
  cmake_parse_arguments(arg "" "SEEDS" "SOURCES;USES" ${ARGN})
  add_executable(${name}_fuzz ${arg_SOURCES})
  set_target_properties(${name}_fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  target_include_directories(${name}_fuzz PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name}_fuzz PRIVATE ${arg_USES} rocca_warnings)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  set(seeds "")
  if(arg_SEEDS)
    get_filename_component(seeds "${arg_SEEDS}" ABSOLUTE)
  endif()
  file(APPEND "${ROCCA_FUZZ_FILE}" "${name} ${seeds}\n")
endfunction()
