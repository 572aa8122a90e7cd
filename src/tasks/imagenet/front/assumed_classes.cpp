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
  if (options.num_classes || options.is_evaluate || options.has_made_up_data() || spec.empty()) return "";
  const int64_t assumed = classifier_of(options).num_classes;
  std::string labels;
  if (std::filesystem::exists(spec, ignored) && data::is_lmdb(spec)) {
    const auto progress = data::read_lmdb_progress(data::LmdbReader(spec));
    if (!progress || progress->num_classes == assumed) return "";
    labels = fmt::format(": its labels go from 0 to {}", progress->num_classes - 1);
  }
  return fmt::format("the network gets {}, since --num-classes is not given and '{}' has no names of classes{}",
                     core::counted(assumed, "class", "classes"), spec, labels);
}

}  // namespace lockstep::tasks
