#pragma once
#include <string>
#include <vector>

#include "tasks/contrastive/front/evaluation_options.h"

namespace lockstep::tasks {

/// Labelled pictures or sounds of zero-shot evaluation; their metrics begin with `prefix`.
struct ZeroShotSet {
  std::string prefix, flag, spec;
  std::vector<std::string> class_names;
  bool has_numbered_folders = false;
};

/// The sets that the options name. UsageError, DataError or EnvironmentError where names of classes cannot be read.
std::vector<ZeroShotSet> zero_shot_sets(const EvaluationOptions& options);

/// UsageError where a folder of class folders does not go with the names: the n-th folder by name is the n-th class, so
/// that another number of folders would make every label wrong, and so would another order of their names.
void check_classes(const ZeroShotSet& set);

}  // namespace lockstep::tasks
