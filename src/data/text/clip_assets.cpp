#include "data/text/clip_assets.h"

#include <system_error>
#include <vector>

#include "core/env.h"
#include "core/error.h"

namespace lockstep::data {
namespace {

constexpr const char* kCacheFolder = "lockstep/clip-assets-3.3.0";

std::vector<std::filesystem::path> candidate_folders() {
  std::vector<std::filesystem::path> folders;
  if (const auto named = core::env("LOCKSTEP_ASSETS_DIR")) folders.emplace_back(*named);
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path().parent_path() / "share/lockstep");
    folders.push_back(program.parent_path() / "share/lockstep");
  }
  if (const auto cache = core::env("XDG_CACHE_HOME")) {
    folders.push_back(std::filesystem::path(*cache) / kCacheFolder);
  } else if (const auto home = core::env("HOME")) {
    folders.push_back(std::filesystem::path(*home) / ".cache" / kCacheFolder);
  }
  return folders;
}

}  // namespace

ClipAssets find_clip_assets(const std::filesystem::path& explicit_folder) {
  const std::vector<std::filesystem::path> folders =
      explicit_folder.empty() ? candidate_folders() : std::vector<std::filesystem::path>{explicit_folder};
  std::string places;
  for (const auto& folder : folders) {
    const ClipAssets assets{folder};
    std::error_code error;
    if (std::filesystem::is_regular_file(assets.vocabulary(), error)) return assets;
    places += fmt::format("{}'{}'", places.empty() ? "" : ", ", folder.string());
  }
  throw EnvironmentError(
      fmt::format("data: bpe_simple_vocab_16e6.txt.gz (CLIP's vocabulary) not found; looked in {}", places),
      "fetch it once with `python3 tools/fetch_clip_assets.py` (into the user's cache folder), "
      "set LOCKSTEP_ASSETS_DIR, or name a file with --tokenizer-vocab");
}

}  // namespace lockstep::data
