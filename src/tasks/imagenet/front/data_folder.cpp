#include "tasks/imagenet/front/data_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/join_first.h"
#include "data/shards/lmdb_reader.h"

namespace lockstep::tasks {
namespace fs = std::filesystem;
namespace {

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Names of the folders in `root`, sorted; none where it cannot be listed.
std::vector<std::string> folders_in(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::path& path : core::list_folder(root, ignored))
    if (is_folder(path)) names.push_back(path.filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// What the user may have meant by `root`, which has no folder `part`.
std::string hint_for(const fs::path& root, const std::vector<std::string>& folders, const std::string& part) {
  if (data::is_lmdb(root.string())) return fmt::format("it is an LMDB: name it with --{}-data", part);
  for (const std::string& name : folders)
    if (is_folder(root / name / part))
      return fmt::format("the folder is one too high: did you mean '{}'?", (root / name).string());
  const fs::path above = fs::absolute(root / "").lexically_normal().parent_path().parent_path();
  if (is_folder(above / part)) return fmt::format("the folder is one too low: did you mean '{}'?", above.string());
  if (part == "val")
    for (const char* name : {"valid", "validation", "test"})
      if (is_folder(root / name))
        return fmt::format("--train-data '{}' --val-data '{}' name both", (root / "train").string(),
                           (root / name).string());
  return fmt::format(
      "give the folder that has train and val, each with one folder of pictures for each class, or name "
      "the data with --{}-data{}",
      part, part == "val" ? "; --val-frequency 0 trains without evaluation" : "");
}

/// `taken`: what --pretrained got, which the example's switch leaves to the data folder.
void refuse_without(const std::string& part, const fs::path& root, const std::string& taken) {
  constexpr size_t kMostNames = 5;
  std::error_code ignored;
  if (fs::exists(root / part, ignored)) return;
  const std::vector<std::string> folders = folders_in(root);
  const std::string hint =
      is_folder(fs::path(taken) / "train")
          ? fmt::format(
                "--pretrained takes a file of weights here, and took '{0}' for it: leave it out, or write "
                "--pretrained FILE '{0}'",
                taken)
          : hint_for(root, folders, part);
  std::string found = fmt::format("it has no folder '{}'", part);
  if (!fs::exists(root, ignored)) found = "it does not exist";
  if (!folders.empty()) found += ", but " + core::join_first(folders, kMostNames);
  throw DataError(fmt::format("imagenet: the data folder '{}' cannot be read: {}", root.string(), found), hint);
}

}  // namespace

void refuse_other_data_folder(const ImagenetOptions& options, bool must_exist) {
  const fs::path root = options.data;
  std::error_code ignored;
  if (options.has_made_up_data() || (!must_exist && !fs::exists(root, ignored))) return;
  if (options.train_data == (root / "train").string() && !options.is_evaluate)
    refuse_without("train", root, options.pretrained);
  const bool evaluates = options.is_evaluate || options.val_frequency_epochs > 0;
  if (options.val_data == (root / "val").string() && evaluates) refuse_without("val", root, options.pretrained);
}

}  // namespace lockstep::tasks
