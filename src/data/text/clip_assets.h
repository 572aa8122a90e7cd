#pragma once
#include <filesystem>

namespace lockstep::data {

/// Files that come out of the PyPI package open_clip_torch 3.3.0 at set-up (tools/fetch_clip_assets.py).
struct ClipAssets {
  std::filesystem::path folder;
  std::filesystem::path vocabulary() const { return folder / "bpe_simple_vocab_16e6.txt.gz"; }
  std::filesystem::path imagenet_class_names() const { return folder / "imagenet_classnames.txt"; }
  std::filesystem::path openai_templates() const { return folder / "openai_templates.txt"; }
};

/// The first of these folders that holds the vocabulary: `explicit_folder` (alone, when not empty),
/// LOCKSTEP_ASSETS_DIR,
/// ../share/lockstep and share/lockstep beside the program, lockstep/clip-assets-3.3.0 in the user's cache folder
/// ($XDG_CACHE_HOME or ~/.cache). None: EnvironmentError that names every place and the command that fetches them.
ClipAssets find_clip_assets(const std::filesystem::path& explicit_folder = {});

}  // namespace lockstep::data
