# Target lockstep_version_info writes <build>/version_info.h: commit, and the versions of the wheel that the engine is built against
# ("" where there is no engine, or where the wheel has no CUDA half).
include_guard(GLOBAL)

set(_torch_version "")
set(_cuda_version "")
set(_nccl_version "")
if(LibTorchWheel_FOUND)
  set(_torch_version "${LibTorchWheel_VERSION}")
  if(EXISTS "${LibTorchWheel_DIR}/version.py")
    file(STRINGS "${LibTorchWheel_DIR}/version.py" _lines REGEX "^__version__ = '[^']+'")
    if("${_lines}" MATCHES "'([^']+)'")
      set(_torch_version "${CMAKE_MATCH_1}")
    endif()
    file(STRINGS "${LibTorchWheel_DIR}/version.py" _lines REGEX "^cuda.*= '[^']+'")
    if(LibTorchWheel_CUDA AND "${_lines}" MATCHES "'([^']+)'")
      set(_cuda_version "${CMAKE_MATCH_1}")
    endif()
  endif()
  get_filename_component(_nccl_header "${LibTorchWheel_DIR}/../nvidia/nccl/include/nccl.h" ABSOLUTE)
  if(LibTorchWheel_CUDA AND EXISTS "${_nccl_header}")
    file(STRINGS "${_nccl_header}" _lines REGEX "#define NCCL_(MAJOR|MINOR|PATCH) [0-9]+")
    string(REGEX MATCHALL "[0-9]+" _numbers "${_lines}")
    list(JOIN _numbers "." _nccl_version)
  endif()
endif()

add_custom_target(lockstep_version_info ALL
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}" "-DOUTPUT=${CMAKE_BINARY_DIR}/version_info.h"
    "-DVERSION=${PROJECT_VERSION}" "-DTORCH_VERSION=${_torch_version}" "-DCUDA_VERSION=${_cuda_version}" "-DNCCL_VERSION=${_nccl_version}"
    -P "${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake"
  BYPRODUCTS "${CMAKE_BINARY_DIR}/version_info.h" VERBATIM)
