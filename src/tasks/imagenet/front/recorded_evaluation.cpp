#include "tasks/imagenet/front/recorded_evaluation.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "tasks/front/recorded_run.h"

namespace lockstep::tasks {
namespace {

/// What says which pictures a network sees in evaluation, and which network it is.
constexpr const char* kTakenFlags[] = {
    "arch",          "num-classes", "train-crop-size", "val-crop-size", "val-resize-size",
    "interpolation", "image-mean",  "image-std",       "jpeg-decode",   "max-image-pixels"};

/// The run, or checkpoint, that is evaluated; "" where none is named.
std::string evaluated_weights(const ImagenetOptions& options) {
  if (!options.pretrained.empty()) return options.pretrained;
  if (options.resume.value_or("latest") != "latest") return *options.resume;
  return options.name.empty() ? "" : (std::filesystem::path(options.logs) / options.name).string();
}

}  // namespace

std::string take_recorded_evaluation(const ImagenetOptions& options, core::OptionSet& set) {
  if (!options.is_evaluate) return "";
  const auto attempt = recorded_attempt(evaluated_weights(options));
  if (!attempt || attempt->task != "imagenet") return "";
  const bool has_own_crop = set.is_given("train-crop-size") || set.is_given("val-crop-size");
  std::vector<std::pair<std::string, std::string>> flags;
  std::vector<std::string> before;
  for (const std::string flag : kTakenFlags) {
    if (flag == "val-resize-size" && has_own_crop) continue;  // it belongs to the crop of the record
    flags.emplace_back(flag, flag);
    before.push_back(set.find(flag)->value_text());
  }
  take_recorded_options(set, *attempt, flags);
  std::vector<std::string> taken;
  for (size_t i = 0; i < flags.size(); ++i)
    if (const std::string now = set.find(flags[i].first)->value_text(); now != before[i])
      taken.push_back(fmt::format("--{} {}", flags[i].first, now));
  if (taken.empty()) return "";
  return fmt::format("--evaluate prepares pictures as '{}' says its run did: {}; flags change that", attempt->source,
                     core::join(taken, ", "));
}

}  // namespace lockstep::tasks
