# Warnings, sanitizers, the faster linker and ccache when the machine has them.

add_library(rocca_warnings INTERFACE)
target_compile_options(rocca_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual)
# As soon as it optimises, GCC 12 sees overlaps in std::string that cannot be (its bug 105651), and at -Og members of
# std::stop_source that nobody has set.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(rocca_warnings INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(ROCCA_WERROR)
  target_compile_options(rocca_warnings INTERFACE -Werror)
  # As soon as it optimises, or a sanitizer is built in, and only behind a precompiled header, it finds strings that are
  # longer than memory.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    if(ROCCA_SANITIZE)
      target_compile_options(rocca_warnings INTERFACE -Wno-error=array-bounds -Wno-error=stringop-overflow)
    endif()
    target_compile_options(rocca_warnings INTERFACE
      "$<$<CONFIG:Release>:-Wno-error=array-bounds;-Wno-error=stringop-overflow>")
  endif()
endif()

if(ROCCA_SANITIZE)
  add_compile_options(-fsanitize=${ROCCA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ROCCA_SANITIZE})
endif()

# rocca holds the keys of clusters: a release is hardened. The folders of the build do not reach the binary, so that two
# builds of one commit are the same; of two prefixes that fit, GCC takes the last.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT ROCCA_SANITIZE)
  add_compile_options(-fPIE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS
    -fstack-protector-strong -fstack-clash-protection
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64")
    add_compile_options(-fcf-protection)
  endif()
  add_link_options(-pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()

find_program(ROCCA_CCACHE ccache)
if(ROCCA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the tree are hashed relative to it, so that two checkouts share one cache. For that ccache hands relative
  # paths to the compiler, and a release would record them in place of those of -ffile-prefix-map. The sloppiness is what
  # ccache asks for before it touches precompiled headers; nothing here uses __DATE__ or __TIME__.
  set(base_folder ${PROJECT_SOURCE_DIR})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set(base_folder "")
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${base_folder} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${PROJECT_SOURCE_DIR}/cmake/compile ${ROCCA_CCACHE})
endif()

find_program(ROCCA_MOLD mold)
if(ROCCA_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT ROCCA_SANITIZE)
  add_link_options(-fuse-ld=mold)
endif()

# Nobody profits from relative RPATHs or unused sections in one static binary.
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections)
