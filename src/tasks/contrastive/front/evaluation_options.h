#pragma once
#include <cstdint>
#include <string>

#include "core/options.h"

namespace lockstep::tasks {

/// When a contrastive model is evaluated, and the data of zero-shot evaluation.
struct EvaluationOptions {
  int64_t val_frequency_epochs = 1, zeroshot_frequency_epochs = 2;  // --val-frequency, --zeroshot-frequency
  std::string imagenet_val;                                         // --imagenet-val DIR or SHARDS
  std::string imagenet_v2;                                          // --imagenet-v2 DIR or SHARDS
  std::string zeroshot_data;                                        // --zeroshot-data DIR or SHARDS
  std::string classnames, templates;                                // --classnames FILE, --templates FILE

  bool has_zero_shot() const;  ///< Are data for zero-shot evaluation given?

  void declare(core::OptionSet& set, const std::string& task);
  void check(const core::OptionSet& set, const std::string& task) const;
};

/// Where the pictures of --imagenet-v2 lie: in the sub-folder that the authors' package makes, where there is one.
std::string imagenet_v2_pictures(const std::string& spec);

}  // namespace lockstep::tasks
