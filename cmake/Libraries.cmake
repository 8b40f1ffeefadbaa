# Every foreign library, found once. Their headers stay in .cpp files, so modules name them under PRIVATE.

# A static library that libcurl uses as a shared one, in another version (zstd, nghttp2), must not take its place: the
# linker would export its symbols for libcurl to find first.
add_link_options(-Wl,--exclude-libs,ALL)

# A package must run on Debian releases whose versions of these libraries differ: their code becomes a part of the binary.
# Libraries that get security updates of their own (OpenSSL, curl, zlib) stay shared.
option(ROCCA_STATIC_LIBRARIES "Link fmt, protobuf, yaml, nghttp2 and http_parser statically (scripts/package sets it)" OFF)

find_package(Threads REQUIRED)
if(ROCCA_STATIC_LIBRARIES)
  set(Protobuf_USE_STATIC_LIBS ON)
  add_link_options(-Wl,--as-needed)
  find_path(ROCCA_FMT_INCLUDE fmt/format-inl.h REQUIRED)
  add_library(rocca_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
  target_include_directories(rocca_fmt SYSTEM PUBLIC ${ROCCA_FMT_INCLUDE})
  add_library(fmt::fmt ALIAS rocca_fmt)
else()
  find_package(fmt REQUIRED)
endif()
find_package(OpenSSL 3.0 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(yaml REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(nghttp2 REQUIRED IMPORTED_TARGET libnghttp2)
if(ROCCA_STATIC_LIBRARIES)
  foreach(library yaml nghttp2)
    find_library(ROCCA_STATIC_${library} lib${library}.a REQUIRED)
    set_property(TARGET PkgConfig::${library} PROPERTY INTERFACE_LINK_LIBRARIES ${ROCCA_STATIC_${library}})
  endforeach()
endif()

# Headers only; Debian's package ships a CMake file that exports no target.
find_path(ROCCA_RAPIDJSON rapidjson/reader.h REQUIRED)
add_library(rocca_rapidjson INTERFACE)
target_include_directories(rocca_rapidjson SYSTEM INTERFACE ${ROCCA_RAPIDJSON})

find_path(ROCCA_HTTP_PARSER_INCLUDE http_parser.h REQUIRED)
if(ROCCA_STATIC_LIBRARIES)
  find_library(ROCCA_HTTP_PARSER_LIBRARY libhttp_parser.a REQUIRED)
else()
  find_library(ROCCA_HTTP_PARSER_LIBRARY http_parser REQUIRED)
endif()
add_library(rocca_http_parser INTERFACE)
target_include_directories(rocca_http_parser SYSTEM INTERFACE ${ROCCA_HTTP_PARSER_INCLUDE})
target_link_libraries(rocca_http_parser INTERFACE ${ROCCA_HTTP_PARSER_LIBRARY})

# The flavour that uses OpenSSL; net/curl_library.cpp refuses others at run time.
find_package(CURL 7.87 REQUIRED)

if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  find_package(ZLIB REQUIRED)
  find_path(ROCCA_RAPIDCHECK_INCLUDE rapidcheck.h REQUIRED)
  find_library(ROCCA_RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  add_library(rocca_rapidcheck INTERFACE)
  target_include_directories(rocca_rapidcheck SYSTEM INTERFACE ${ROCCA_RAPIDCHECK_INCLUDE})
  target_link_libraries(rocca_rapidcheck INTERFACE ${ROCCA_RAPIDCHECK_LIBRARY})
endif()

# Static: only SOPS files with a regular expression need it, and a start should not pay for one more library.
find_path(ROCCA_RE2_INCLUDE re2/re2.h REQUIRED)
find_library(ROCCA_RE2_LIBRARY libre2.a REQUIRED)
add_library(rocca_re2 INTERFACE)
target_include_directories(rocca_re2 SYSTEM INTERFACE ${ROCCA_RE2_INCLUDE})
target_link_libraries(rocca_re2 INTERFACE ${ROCCA_RE2_LIBRARY} Threads::Threads)

# Static: only the lab unpacks zstd, and nobody else's start should pay for one more library.
find_library(ROCCA_ZSTD libzstd.a REQUIRED)
add_library(rocca_zstd INTERFACE)
target_link_libraries(rocca_zstd INTERFACE ${ROCCA_ZSTD})
