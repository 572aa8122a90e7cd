#include "cli/front/engine_exec.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/common/version.h"
#include "core/elf_file.h"
#include "core/env.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "hw/machine_memory.h"

namespace lockstep::cli {
namespace {
namespace fs = std::filesystem;

constexpr const char* kTorchLibrary = "libtorch_cpu.so";
constexpr const char* kKinetoSilent = "5";      // one above its errors
constexpr const char* kBarrierSpins = "10000";  // at most half a millisecond

/// "2.11.0" of "2.11.0+cu130".
std::string release_of(const std::string& version) { return version.substr(0, version.find('+')); }

/// "cu130" of "2.11.0+cu130", "" of a version without such a tag. Some builders say more behind a dot.
std::string cuda_tag_of(const std::string& version) {
  const size_t plus = version.find('+');
  const std::string tag = plus == std::string::npos ? "" : core::split(version.substr(plus + 1), ".").front();
  const bool is_of_cuda = tag.size() > 2 && core::starts_with(tag, "cu") && core::parse_int(tag.substr(2));
  return is_of_cuda ? tag : "";
}

/// The torch package folder at or below `folder`, if LibTorch is there.
std::optional<fs::path> torch_folder(const fs::path& folder) {
  for (const fs::path& candidate : {folder, folder / "torch"})
    if (fs::exists(candidate / "lib" / kTorchLibrary)) return candidate;
  return std::nullopt;
}

/// Version that the wheel's version.py states, or "".
std::string wheel_version(const fs::path& torch) {
  const fs::path file = torch / "version.py";
  if (!fs::exists(file)) return "";
  for (const std::string& line : core::split(core::read_file(file), "\n")) {
    const auto parts = core::split(line, "'");
    if (core::starts_with(line, "__version__ = '") && parts.size() == 3) return parts[1];
  }
  return "";
}

void check_wheel(const fs::path& torch) {
  const VersionInfo info = version_info();
  const std::string found = wheel_version(torch);
  if (!found.empty() && release_of(found) != release_of(info.libtorch))
    throw EnvironmentError(
        fmt::format("cli: LibTorch in '{}' has version {}, expected {}", torch.string(), found, info.libtorch),
        fmt::format("pip install --target FOLDER torch=={}, and set LOCKSTEP_TORCH_DIR=FOLDER",
                    release_of(info.libtorch)));
  if (!info.cuda.empty() && !fs::exists(torch / "lib" / "libtorch_cuda.so"))
    throw EnvironmentError(
        fmt::format("cli: LibTorch in '{}' has no CUDA half (lib/libtorch_cuda.so), which this build needs",
                    torch.string()),
        fmt::format("install the CUDA {} build of torch {}", info.cuda, release_of(info.libtorch)));
  const std::string needed_tag = "cu" + core::replace_all(info.cuda, ".", ""), found_tag = cuda_tag_of(found);
  if (!info.cuda.empty() && !found_tag.empty() && found_tag != needed_tag)
    throw EnvironmentError(
        fmt::format("cli: LibTorch in '{}' is for another CUDA: this build needs +{}, found +{}", torch.string(),
                    needed_tag, found_tag),
        fmt::format("pip install --target FOLDER torch=={}; where the driver is too old for CUDA {}, NVIDIA's package "
                    "cuda-compat-{} (data centre GPUs) in LD_LIBRARY_PATH helps, another wheel does not",
                    release_of(info.libtorch), info.cuda, core::replace_all(info.cuda, ".", "-")));
}

/// torch/lib, and the libraries of NVIDIA's own packages beside it.
std::vector<std::string> library_folders(const fs::path& torch) {
  std::vector<std::string> folders;
  const fs::path nvidia = torch.parent_path() / "nvidia";
  if (fs::is_directory(nvidia))
    for (const auto& package : fs::directory_iterator(nvidia))
      if (fs::is_directory(package.path() / "lib")) folders.push_back((package.path() / "lib").string());
  std::sort(folders.begin(), folders.end());
  folders.insert(folders.begin(), (torch / "lib").string());
  return folders;
}

std::optional<fs::path> cache_folder(const EnvLookup& env) {
  const std::string leaf = "lockstep/torch-" + release_of(version_info().libtorch);
  if (const auto cache = env("XDG_CACHE_HOME")) return fs::path(*cache) / leaf;
  if (const auto home = env("HOME")) return fs::path(*home) / ".cache" / leaf;
  return std::nullopt;
}

/// The first of these folders in which LibTorch is, or "".
std::string folder_with_torch(const std::vector<std::string>& folders) {
  const auto found = std::find_if(folders.begin(), folders.end(), [](const std::string& folder) {
    return !folder.empty() && fs::exists(fs::path(folder) / kTorchLibrary);
  });
  return found == folders.end() ? "" : *found;
}

LibTorch checked_wheel(const fs::path& torch, const std::string& named_by) {
  check_wheel(torch);
  return {.folders = library_folders(torch), .place = fmt::format("'{}' ({})", torch.string(), named_by)};
}
}  // namespace

fs::path own_program() { return fs::read_symlink("/proc/self/exe"); }

fs::path engine_path() { return own_program().parent_path() / "lockstep-engine"; }

LibTorch find_libtorch(const fs::path& engine, const EnvLookup& env) {
  if (const auto given = env("LOCKSTEP_TORCH_DIR")) {
    const auto torch = torch_folder(fs::absolute(*given));
    if (!torch)
      throw EnvironmentError(fmt::format("cli: LOCKSTEP_TORCH_DIR '{}' holds neither lib/{} nor torch/lib/{}", *given,
                                         kTorchLibrary, kTorchLibrary),
                             "name the torch package folder, or the site-packages folder above it");
    return checked_wheel(*torch, "LOCKSTEP_TORCH_DIR");
  }
  if (const std::string folder = folder_with_torch(core::read_elf(engine).run_path); !folder.empty())
    return {.place = fmt::format("'{}' (the run path of lockstep-engine)", folder)};
  const std::string path = env("LD_LIBRARY_PATH").value_or("");
  if (const std::string folder = folder_with_torch(core::split(path, ":")); !folder.empty())
    return {.place = fmt::format("'{}' (LD_LIBRARY_PATH)", folder)};
  const auto cache = cache_folder(env);
  if (const auto torch = cache ? torch_folder(*cache) : std::nullopt)
    return checked_wheel(*torch, "the user's cache folder");
  throw EnvironmentError(
      fmt::format(
          "cli: LibTorch ({}) is not found: LOCKSTEP_TORCH_DIR is not set, and it is neither in the run path of '{}', "
          "nor in LD_LIBRARY_PATH, nor in '{}'",
          kTorchLibrary, engine.string(), cache ? cache->string() : "the user's cache folder (HOME is not set)"),
      fmt::format("set LOCKSTEP_TORCH_DIR to a site-packages folder with torch {}",
                  release_of(version_info().libtorch)));
}

LibTorch libtorch_of_engine() {
  const fs::path engine = engine_path();
  if (!fs::exists(engine))
    throw EnvironmentError(fmt::format("cli: '{}' is missing, which does the work of this command", engine.string()),
                           "build it (./run does), or keep both programs in one folder");
  if (version_info().libtorch.empty())
    throw EnvironmentError("cli: this lockstep was built without its engine, and cannot tell which LibTorch fits",
                           "build both programs together (./run does)");
  return find_libtorch(engine, [](const std::string& name) { return core::env(name.c_str()); });
}

void exec_engine(std::span<const std::string> args) {
  const fs::path engine = engine_path();
  const std::vector<std::string> folders = libtorch_of_engine().folders;
  if (!folders.empty()) {
    const std::string caller = core::env("LD_LIBRARY_PATH").value_or("");
    // A program that this variable reaches was itself started below an engine: the first caller's value is the one to
    // keep.
    setenv("LOCKSTEP_CALLER_LD_LIBRARY_PATH", caller.c_str(), /*overwrite=*/0);
    const std::string own = core::join(folders, ":");
    if (!core::starts_with(caller, own))
      setenv("LD_LIBRARY_PATH", (caller.empty() ? own : own + ":" + caller).c_str(), 1);
  }
  // Its warnings of a lost peer are pages of C++ stack; the error that follows says the same in words.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  // LibTorch's profiler prints an error of its own when it finds no driver; where there is a GPU its errors are worth
  // reading.
  if (hw::gpu_names().empty()) setenv("KINETO_LOG_LEVEL", kKinetoSilent, /*overwrite=*/0);
  // OpenMP's threads spin at barriers before they sleep, by default for some milliseconds: where others use the cores,
  // too, those are time slices in which nobody computes.
  if (!core::env("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", kBarrierSpins, /*overwrite=*/0);
  std::vector<std::string> words = {engine.string()};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(engine.c_str(), argv.data());
  core::throw_errno("cannot start", engine);
}

}  // namespace lockstep::cli
