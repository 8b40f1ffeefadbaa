# Every foreign library, found once. Their headers stay in .cpp files, so modules name them under PRIVATE.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(yaml REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(nghttp2 REQUIRED IMPORTED_TARGET libnghttp2)

# Headers only; Debian's package ships a CMake file that exports no target.
find_path(ROCCA_RAPIDJSON rapidjson/reader.h REQUIRED)
add_library(rocca_rapidjson INTERFACE)
target_include_directories(rocca_rapidjson SYSTEM INTERFACE ${ROCCA_RAPIDJSON})

find_path(ROCCA_HTTP_PARSER_INCLUDE http_parser.h REQUIRED)
find_library(ROCCA_HTTP_PARSER_LIBRARY http_parser REQUIRED)
add_library(rocca_http_parser INTERFACE)
target_include_directories(rocca_http_parser SYSTEM INTERFACE ${ROCCA_HTTP_PARSER_INCLUDE})
target_link_libraries(rocca_http_parser INTERFACE ${ROCCA_HTTP_PARSER_LIBRARY})

# curl is opened with dlopen at first use (net/curl_library.cpp): only its headers are needed to build.
find_path(ROCCA_CURL_INCLUDE curl/curl.h REQUIRED)
add_library(rocca_curl_headers INTERFACE)
target_include_directories(rocca_curl_headers SYSTEM INTERFACE ${ROCCA_CURL_INCLUDE})
target_link_libraries(rocca_curl_headers INTERFACE ${CMAKE_DL_LIBS})

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
