#pragma once
#include <string>

namespace lockstep::cli {

/// What the two programs were built from. Empty versions: built without the engine, or the engine without CUDA.
struct VersionInfo {
  std::string version, commit;
  std::string libtorch, cuda, nccl;
};

VersionInfo version_info();

/// CUDA that LibTorch was built for as the driver counts it: 13000 is 13.0; 0: without CUDA, or without the engine.
int cuda_of_libtorch();

}  // namespace lockstep::cli
