# Run at build time (cmake -P): writes OUTPUT only when its text changes, so that a new commit recompiles one file and nothing else does.
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY "${SOURCE_DIR}"
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR commit STREQUAL "")
  set(commit "unknown")
endif()
set(text "#pragma once
#define LOCKSTEP_VERSION \"${VERSION}\"
#define LOCKSTEP_COMMIT \"${commit}\"
#define LOCKSTEP_TORCH_VERSION \"${TORCH_VERSION}\"
#define LOCKSTEP_CUDA_VERSION \"${CUDA_VERSION}\"
#define LOCKSTEP_NCCL_VERSION \"${NCCL_VERSION}\"
")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
