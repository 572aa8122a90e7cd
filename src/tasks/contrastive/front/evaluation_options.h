#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/options.h"

namespace lockstep::tasks {

/// What the metrics of --imagenet-val, --imagenet-v2 and --zeroshot-data begin with.
inline constexpr const char *kImagenetPrefix = "imagenet-zeroshot-val", *kImagenetV2Prefix = "imagenetv2-zeroshot-val",
                            *kZeroShotPrefix = "zeroshot";

/// When a contrastive model is evaluated, and the data of zero-shot evaluation.
struct EvaluationOptions {
  int64_t val_frequency_epochs = 1, zeroshot_frequency_epochs = 2;  // --val-frequency, --zeroshot-frequency
  std::string imagenet_val;                                         // --imagenet-val DIR or SHARDS
  std::string imagenet_v2;                                          // --imagenet-v2 DIR or SHARDS
  std::string zeroshot_data;                                        // --zeroshot-data DIR or SHARDS
  std::string classnames, templates;                                // --classnames FILE, --templates FILE

  bool has_zero_shot() const;  ///< Are data for zero-shot evaluation given?
  /// Names of what is measured of these data, and of --val-data where there are some.
  std::vector<std::string> metric_names(const std::string& task, bool has_val_data, bool has_captions) const;

  void declare(core::OptionSet& set, const std::string& task);
  void check(const core::OptionSet& set, const std::string& task) const;
};

/// Where the pictures of --imagenet-v2 lie: in the sub-folder that the authors' package makes, where there is one.
std::string imagenet_v2_pictures(const std::string& spec);

}  // namespace lockstep::tasks
