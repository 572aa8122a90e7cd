# Unity builds and precompiled headers: a file that includes LibTorch costs 20 s of processor time by itself, 2 s as a part of a unit.
# -DLOCKSTEP_UNITY=OFF compiles file by file with what each includes: for tools that look at single files (clang-tidy), and to see that every
# file includes what it uses.
#
# Units name their files relative to src/ and tests/, where CMake's own UNITY_BUILD has absolute paths: so ccache shares objects between checkouts.
include_guard(GLOBAL)

option(LOCKSTEP_UNITY "Compile several files at a time behind precompiled headers" ON)
set(LOCKSTEP_UNITY_FILES 20 CACHE STRING "Most source files of one unit")
set(LOCKSTEP_SINGLE_FILES "" CACHE STRING "Pattern of files to compile alone, such as those that are being worked on or new:
the units of all other files stay as they are")
# These do not share a unit. Highway compiles resize_kernels.cpp again for each instruction set. The front needs none of
# the sounds: in a unit with what it needs they would bring libsoxr, and with it libgomp, into its archive. Programs of the
# tests put another NCCL in the place of the real one. parallel_for.cpp alone is compiled with OpenMP.
set(lockstep_single_files "nn/parallel_for\\.cpp$|data/pictures/resize_kernels\\.cpp$|data/sounds/(audio_resample|clap_decoder|waveform)\\.cpp$|comm/backend_nccl_(cuda|cpu)\\.cpp$")
if(LOCKSTEP_SINGLE_FILES)
  string(APPEND lockstep_single_files "|${LOCKSTEP_SINGLE_FILES}")
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-heapsize=600000)  # 600 MB before GCC collects garbage: a tenth of its time
endif()
if(LOCKSTEP_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-subobject-linkage)  # a class of one .cpp looks as if it came from a header
endif()

# lockstep_precompiled_header(<name> <options> <libraries> <headers...>): a precompiled header for
# lockstep_sources(... <name>). GCC takes it only where the same options of the compiler are given.
function(lockstep_precompiled_header name options libraries)
  if(NOT LOCKSTEP_UNITY)
    return()
  endif()
  set(source "${CMAKE_BINARY_DIR}/units/${name}_headers.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// Holds a precompiled header.\n")
  add_library(lockstep_pch_${name} OBJECT "${source}")
  target_compile_options(lockstep_pch_${name} PRIVATE ${options})
  target_link_libraries(lockstep_pch_${name} PRIVATE ${libraries})
  target_precompile_headers(lockstep_pch_${name} PRIVATE ${ARGN})
endfunction()

# lockstep_sources(<target> <precompiled header> <sources...>): adds absolute sources to a target, by units and behind the header.
function(lockstep_sources target header)
  if(NOT LOCKSTEP_UNITY)
    target_sources(${target} PRIVATE ${ARGN})
    return()
  endif()
  set(singles ${ARGN})
  list(FILTER singles INCLUDE REGEX "${lockstep_single_files}")
  set(files ${ARGN})
  list(FILTER files EXCLUDE REGEX "${lockstep_single_files}")
  list(LENGTH files num_files)
  if(num_files GREATER 0)
    math(EXPR num_units "(${num_files} + ${LOCKSTEP_UNITY_FILES} - 1) / ${LOCKSTEP_UNITY_FILES}")
    math(EXPR last_unit "${num_units} - 1")
    math(EXPR per_unit "(${num_files} + ${num_units} - 1) / ${num_units}")
    foreach(unit RANGE ${last_unit})
      math(EXPR first "${unit} * ${per_unit}")
      list(SUBLIST files ${first} ${per_unit} part)
      list(TRANSFORM part REPLACE "^${PROJECT_SOURCE_DIR}/(src/|tests/|)(.*)$" "#include \"\\2\"")
      list(JOIN part "\n" text)
      set(source "${CMAKE_BINARY_DIR}/units/${target}_${unit}.cpp")
      file(CONFIGURE OUTPUT "${source}" CONTENT "${text}\n")
      target_sources(${target} PRIVATE "${source}")
    endforeach()
  endif()
  target_sources(${target} PRIVATE ${singles})
  target_precompile_headers(${target} REUSE_FROM lockstep_pch_${header})
endfunction()
