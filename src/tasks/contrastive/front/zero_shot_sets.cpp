#include "tasks/contrastive/front/zero_shot_sets.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "data/shards/source_rows.h"
#include "data/text/class_names.h"
#include "data/text/clip_assets.h"

namespace lockstep::tasks {

std::vector<ZeroShotSet> zero_shot_sets(const EvaluationOptions& options) {
  const bool has_own_names = !options.classnames.empty() && options.zeroshot_data.empty();  // else they are its own
  const auto imagenet_names = [&] {
    return data::read_class_names(has_own_names ? std::filesystem::path(options.classnames)
                                                : data::find_clip_assets().imagenet_class_names());
  };
  std::vector<ZeroShotSet> sets;
  if (!options.imagenet_val.empty())
    sets.push_back({kImagenetPrefix, "--imagenet-val", options.imagenet_val, imagenet_names()});
  if (!options.imagenet_v2.empty())
    sets.push_back(
        {kImagenetV2Prefix, "--imagenet-v2", imagenet_v2_pictures(options.imagenet_v2), imagenet_names(), true});
  if (!options.zeroshot_data.empty())
    sets.push_back(
        {kZeroShotPrefix, "--zeroshot-data", options.zeroshot_data, data::read_class_names(options.classnames)});
  return sets;
}

void check_classes(const ZeroShotSet& set) {
  std::error_code code;
  if (!std::filesystem::is_directory(set.spec, code)) return;
  const std::vector<std::string> folders = data::image_folder_classes(set.spec);
  if (folders.size() != set.class_names.size())
    throw UsageError(fmt::format("evaluation: {} '{}' has {} class folders, but there are {} class names", set.flag,
                                 set.spec, folders.size(), set.class_names.size()),
                     "give --classnames FILE with one line for each class folder, in the sorted order of the folders");
  const auto wrong = set.has_numbered_folders ? std::nullopt : data::first_in_other_order(folders, set.class_names);
  if (wrong)
    throw UsageError(
        fmt::format("evaluation: the class names are in another order than the folders of {} '{}': folder {} of them "
                    "is '{}', line {} of the names is '{}'",
                    set.flag, set.spec, *wrong + 1, folders[*wrong], *wrong + 1, set.class_names[*wrong]),
        "sort --classnames as the folders are (`LC_ALL=C ls`)");
}

}  // namespace lockstep::tasks
