#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::cli {

/// This program's own file, and that of lockstep-engine beside it.
std::filesystem::path own_program();
std::filesystem::path engine_path();

using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Where the engine's LibTorch is.
struct LibTorch {
  std::vector<std::string> folders{};  ///< To put in front of LD_LIBRARY_PATH; empty where the engine finds it alone.
  std::string place{};                 ///< In words: "'/opt/site/torch' (LOCKSTEP_TORCH_DIR)".
};

/// Looked for in this order: LOCKSTEP_TORCH_DIR (the torch package folder or the site-packages folder above it; alone,
/// when set), the engine's own run path, LD_LIBRARY_PATH, lockstep/torch-VERSION in the user's cache folder. Throws
/// EnvironmentError that names the places when it is in none, or has another version, or another CUDA or no CUDA half
/// where the engine was built with one.
LibTorch find_libtorch(const std::filesystem::path& engine, const EnvLookup& env);

/// That of the engine beside this program, by the variables of this process; throws as find_libtorch, and where there
/// is no engine.
LibTorch libtorch_of_engine();

/// Becomes lockstep-engine with the same arguments (without the program name): process id, signals and exit code stay
/// those of one program. LOCKSTEP_CALLER_LD_LIBRARY_PATH keeps the caller's LD_LIBRARY_PATH ("" if it was unset), so
/// that children can get it back. Returns only by throwing EnvironmentError.
[[noreturn]] void exec_engine(std::span<const std::string> args);

}  // namespace lockstep::cli
