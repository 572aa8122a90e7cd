// What all targets share: their first inputs, and which errors an input may cause.
#include "fuzz/targets.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

void add_files_below(const fs::path& folder, const std::function<bool(const std::string&)>& is_wanted,
                     std::vector<fs::path>& files) {
  std::error_code ignored;  // a folder that a target does not have
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (entry.is_regular_file() && is_wanted(entry.path().string())) files.push_back(entry.path());
}

}  // namespace

std::vector<fs::path> input_files(const Target& target, const fs::path& root) {
  std::vector<fs::path> files;
  const auto any = [](const std::string&) { return true; };
  const auto is_seed = [&](const std::string& path) {
    return std::any_of(target.seeds.begin(), target.seeds.end(),
                       [&](const std::string& text) { return path.find(text) != std::string::npos; });
  };
  add_files_below(root / "fuzz/seeds" / target.name, any, files);
  add_files_below(root / "fuzz/regressions" / target.name, any, files);
  add_files_below(root / "tests/golden", is_seed, files);
  add_files_below(root / "recipes", is_seed, files);
  std::sort(files.begin(), files.end());
  return files;
}

void run_target(const Target& target, std::span<const std::byte> bytes) {
  try {
    target.run(bytes);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInternal) throw;
  }
}

}  // namespace lockstep::fuzz
