#pragma once
#include <string>

namespace lockstep::cli {

/// What the two programs were built from. Empty versions: built without the engine, or the engine without CUDA.
struct VersionInfo {
  std::string version, commit;
  std::string libtorch, cuda, nccl;
};

VersionInfo version_info();

}  // namespace lockstep::cli
