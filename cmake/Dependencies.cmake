# Libraries of the system (Debian 12 packages; see tools/packages.txt). LibTorch is found by FindLibTorchWheel.cmake.
include_guard(GLOBAL)

find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)

# lockstep_header_library(<target> <header>): a header-only library without a CMake package.
function(lockstep_header_library target header)
  find_path(${target}_INCLUDE "${header}" REQUIRED)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE "${${target}_INCLUDE}")
endfunction()

# lockstep_pkg_library(<target> <pkg-config names...>)
function(lockstep_pkg_library target)
  pkg_check_modules(pc_${target} REQUIRED IMPORTED_TARGET GLOBAL ${ARGN})
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(${target} INTERFACE PkgConfig::pc_${target})
endfunction()

lockstep_header_library(nlohmann_json nlohmann/json.hpp)
lockstep_pkg_library(xxhash libxxhash)
lockstep_pkg_library(jpeg libjpeg)
lockstep_pkg_library(webp libwebp libwebpdemux)
lockstep_pkg_library(png libpng)
lockstep_pkg_library(hwy libhwy)
lockstep_pkg_library(pcre2 libpcre2-8)
lockstep_pkg_library(icu icu-uc icu-i18n)
if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
endif()
