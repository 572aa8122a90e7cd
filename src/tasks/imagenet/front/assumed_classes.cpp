#include "tasks/imagenet/front/assumed_classes.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/counted.h"
#include "data/shards/lmdb_reader.h"
#include "data/shards/source_lmdb.h"

namespace lockstep::tasks {

std::string assumed_classes_warning(const ImagenetOptions& options) {
  std::error_code ignored;
  const std::string& spec = options.train_data;
  if (options.num_classes || options.has_made_up_data() || !std::filesystem::exists(spec, ignored) ||
      !data::is_lmdb(spec))
    return "";
  const auto progress = data::read_lmdb_progress(data::LmdbReader(spec));
  const int64_t assumed = classifier_of(options).num_classes;
  if (!progress || progress->num_classes == assumed) return "";
  return fmt::format(
      "the network gets {}, since --num-classes is not given and '{}' has no names of classes: "
      "its labels go from 0 to {}",
      core::counted(assumed, "class", "classes"), spec, progress->num_classes - 1);
}

}  // namespace lockstep::tasks
