# Compiler flags, ccache and mold (each used when present), sanitizers.
include_guard(GLOBAL)

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  # Objects are shared between checkouts (paths are seen relative to the root), precompiled headers are no obstacle, and a miss costs no second
  # run of the preprocessor.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" "${LOCKSTEP_CCACHE}")
endif()
find_program(LOCKSTEP_MOLD mold)
if(LOCKSTEP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # other compilers warn of other things: tools/fuzz.sh builds with clang
  add_compile_options(-Wshadow -Werror)
  # GCC 12 reports these inside its own headers at -O2 (std::string and std::vector of small size): false positives.
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized -Wno-dangling-pointer)
endif()

if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -g1 -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()
if(LOCKSTEP_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
