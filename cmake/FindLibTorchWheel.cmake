# LibTorch inside the pip wheel, without find_package(Torch) (which wants nvcc and a CUDA toolkit).
# Input: LOCKSTEP_TORCH_DIR, cache variable or environment: the torch package folder, or the site-packages folder above it.
# Output: lockstep::torch_cpu, and where the wheel is a CUDA build lockstep::torch_cuda; LibTorchWheel_CUDA says which.
include_guard(GLOBAL)

set(LOCKSTEP_TORCH_DIR "$ENV{LOCKSTEP_TORCH_DIR}" CACHE PATH "torch package folder of the wheel (or site-packages above it)")
if(NOT LOCKSTEP_TORCH_DIR AND NOT "$ENV{LOCKSTEP_TORCH_DIR}" STREQUAL "")  # an empty value left by an earlier configure
  set_property(CACHE LOCKSTEP_TORCH_DIR PROPERTY VALUE "$ENV{LOCKSTEP_TORCH_DIR}")
endif()
set(LibTorchWheel_DIR "${LOCKSTEP_TORCH_DIR}")
if(EXISTS "${LibTorchWheel_DIR}/torch/include")
  set(LibTorchWheel_DIR "${LibTorchWheel_DIR}/torch")
endif()
set(LibTorchWheel_VERSION "")
set(_version_header "${LibTorchWheel_DIR}/include/torch/headeronly/version.h")
if(EXISTS "${_version_header}")
  file(STRINGS "${_version_header}" _lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  string(REGEX MATCHALL "[0-9]+" _numbers "${_lines}")
  list(JOIN _numbers "." LibTorchWheel_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorchWheel
  REQUIRED_VARS LibTorchWheel_DIR LibTorchWheel_VERSION
  VERSION_VAR LibTorchWheel_VERSION HANDLE_VERSION_RANGE
  REASON_FAILURE_MESSAGE "set LOCKSTEP_TORCH_DIR to a site-packages folder with torch 2.11.0, or run ./run, which installs it")
if(NOT LibTorchWheel_FOUND)
  return()
endif()

get_filename_component(_nvidia "${LibTorchWheel_DIR}/../nvidia" ABSOLUTE)
foreach(_lib c10 torch_cpu c10_cuda torch_cuda)
  if(EXISTS "${LibTorchWheel_DIR}/lib/lib${_lib}.so")
    add_library(lockstep_so_${_lib} SHARED IMPORTED GLOBAL)
    set_target_properties(lockstep_so_${_lib} PROPERTIES IMPORTED_LOCATION "${LibTorchWheel_DIR}/lib/lib${_lib}.so")
  endif()
endforeach()

# The wheel carries headers of a newer fmt, but not its library: the fmt we link with must be found first.
get_target_property(_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/fmt_first")
file(CREATE_LINK "${_fmt_include}/fmt" "${CMAKE_BINARY_DIR}/fmt_first/fmt" SYMBOLIC)

add_library(lockstep::torch_cpu INTERFACE IMPORTED GLOBAL)
target_include_directories(lockstep::torch_cpu SYSTEM INTERFACE "${CMAKE_BINARY_DIR}/fmt_first"
  "${LibTorchWheel_DIR}/include" "${LibTorchWheel_DIR}/include/torch/csrc/api/include" "${PROJECT_SOURCE_DIR}/cmake/gloo_stub")
target_compile_definitions(lockstep::torch_cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
file(GLOB _openmp "${LibTorchWheel_DIR}/lib/libgomp*.so*")  # the one that LibTorch uses, so that threads are shared
target_link_libraries(lockstep::torch_cpu INTERFACE lockstep_so_torch_cpu lockstep_so_c10 ${_openmp} Threads::Threads)
target_link_options(lockstep::torch_cpu INTERFACE
  "LINKER:-rpath-link,${LibTorchWheel_DIR}/lib" "LINKER:-rpath-link,${_nvidia}/cu13/lib")

set(LibTorchWheel_CUDA OFF)
if(TARGET lockstep_so_torch_cuda AND EXISTS "${_nvidia}/nccl/include/nccl.h" AND EXISTS "${_nvidia}/cu13/include/cuda_runtime.h")
  set(LibTorchWheel_CUDA ON)
  add_library(lockstep::torch_cuda INTERFACE IMPORTED GLOBAL)
  target_include_directories(lockstep::torch_cuda SYSTEM INTERFACE "${_nvidia}/cu13/include" "${_nvidia}/nccl/include")
  target_compile_definitions(lockstep::torch_cuda INTERFACE USE_C10D_NCCL)
  # Kernels register themselves when the library is loaded and nothing refers to them by name: keep the linker from dropping it.
  target_link_libraries(lockstep::torch_cuda INTERFACE lockstep::torch_cpu
    "-Wl,--push-state,--no-as-needed" lockstep_so_torch_cuda "-Wl,--pop-state" lockstep_so_c10_cuda
    "${_nvidia}/nccl/lib/libnccl.so.2" "${_nvidia}/cu13/lib/libcudart.so.13")
endif()
