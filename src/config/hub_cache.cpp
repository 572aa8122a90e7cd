#include "config/hub_cache.h"

#include <algorithm>
#include <vector>

#include "core/env.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::config {
namespace fs = std::filesystem;

namespace {

/// Where OpenCLIP keeps its own files, whatever XDG_CACHE_HOME says.
fs::path user_cache() { return fs::path(core::env("HOME").value_or("/")) / ".cache"; }

}  // namespace

fs::path home_cache() {
  if (const auto folder = core::env("XDG_CACHE_HOME")) return *folder;
  return user_cache();
}

namespace {

fs::path& first_cache() {
  static fs::path folder;
  return folder;
}

std::vector<fs::path> hub_caches() {
  std::vector<fs::path> folders;
  if (!first_cache().empty()) folders.push_back(first_cache());
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const auto folder = core::env(name)) folders.emplace_back(*folder);
  if (const auto folder = core::env("HF_HOME")) folders.push_back(fs::path(*folder) / "hub");
  folders.push_back(home_cache() / "huggingface" / "hub");
  return folders;
}

/// Revisions of a repository in a cache: that of "main" first, then the others by name.
std::vector<fs::path> snapshots(const fs::path& repository) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(repository / "snapshots", ignored)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  const fs::path main = repository / "refs" / "main";
  if (!fs::is_regular_file(main, ignored)) return folders;
  const std::string revision(core::trim(core::read_file(main)));
  std::stable_partition(folders.begin(), folders.end(),
                        [&](const fs::path& folder) { return folder.filename() == revision; });
  return folders;
}

}  // namespace

void look_first_in(const fs::path& folder) { first_cache() = folder; }

std::optional<fs::path> find_in_openclip_caches(std::string_view file) {
  std::error_code ignored;
  for (const fs::path& folder : {first_cache(), home_cache() / "clip", user_cache() / "clip"})
    if (!folder.empty() && fs::is_regular_file(folder / file, ignored)) return folder / file;
  return std::nullopt;
}

std::optional<fs::path> find_in_hub_caches(std::string_view repository, std::span<const std::string_view> files) {
  const std::string folder = "models--" + core::replace_all(std::string(repository), "/", "--");
  std::error_code ignored;
  for (const fs::path& cache : hub_caches())
    for (const fs::path& snapshot : snapshots(cache / folder))
      for (const std::string_view file : files)
        if (fs::is_regular_file(snapshot / file, ignored)) return snapshot / file;
  return std::nullopt;
}

std::string hub_cache_places() {
  std::vector<std::string> names;
  for (const fs::path& folder : hub_caches()) names.push_back(folder.string());
  return core::join(names, ", ");
}

}  // namespace lockstep::config
