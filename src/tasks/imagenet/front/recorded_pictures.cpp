#include "tasks/imagenet/front/recorded_pictures.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/strings.h"
#include "tasks/front/recorded_run.h"
#include "tasks/imagenet/front/classifier_config.h"

namespace lockstep::tasks {
namespace {

/// What says which network it is that is evaluated.
constexpr const char* kNetworkFlags[] = {"arch", "num-classes"};
/// What says which pictures it sees.
constexpr const char* kPictureFlags[] = {"train-crop-size", "val-crop-size", "val-resize-size",
                                         "interpolation",   "image-mean",    "image-std"};
/// What says how they are decoded.
constexpr const char* kDecodeFlags[] = {"jpeg-decode", "max-image-pixels"};

/// The run, or checkpoint, that is continued; "" where none is named.
std::string continued_run(const ImagenetOptions& options) {
  if (options.resume.value_or("latest") != "latest") return *options.resume;
  return options.name.empty() ? "" : (std::filesystem::path(options.logs) / options.name).string();
}

/// Whose preparation of pictures counts. A run that began with --pretrained and is continued goes on with its own,
/// whatever has become of the file.
std::string weights_of(const ImagenetOptions& options) {
  if (options.is_evaluate) return options.pretrained.empty() ? continued_run(options) : options.pretrained;
  if (options.pretrained.empty() || !options.resume) return options.pretrained;
  const std::string run = continued_run(options);
  return recorded_attempt(run) ? run : options.pretrained;
}

}  // namespace

std::string take_recorded_pictures(const ImagenetOptions& options, core::OptionSet& set) {
  const std::string weights = weights_of(options);
  if (weights.empty()) return "";
  const auto attempt = classifier_attempt(weights);
  if (!attempt) return "";
  const bool has_own_crop = set.is_given("train-crop-size") || set.is_given("val-crop-size");
  std::vector<std::pair<std::string, std::string>> flags;
  std::vector<std::string> before;
  const auto take = [&](const std::string& flag) {
    flags.emplace_back(flag, flag);
    before.push_back(set.find(flag)->value_text());
  };
  if (options.is_evaluate) {
    for (const char* flag : kNetworkFlags) take(flag);
    for (const char* flag : kDecodeFlags) take(flag);
  }
  for (const std::string flag : kPictureFlags)
    if (flag != "val-resize-size" || !has_own_crop) take(flag);  // it belongs to the crop of the record
  take_recorded_options(set, *attempt, flags);
  std::vector<std::string> taken;
  for (size_t i = 0; i < flags.size(); ++i)
    if (const std::string now = set.find(flags[i].first)->value_text(); now != before[i])
      taken.push_back(fmt::format("--{} {}", flags[i].first, now));
  if (taken.empty()) return "";
  return fmt::format("--{} prepares pictures as {} says: {}; flags change that",
                     options.is_evaluate ? "evaluate" : "pretrained", attempt->source, core::join(taken, ", "));
}

void take_recorded_classes(ImagenetOptions& options, core::OptionSet& set) {
  if (!options.is_evaluate || options.num_classes) return;
  const std::string weights = weights_of(options);
  const auto attempt = weights.empty() ? std::nullopt : classifier_attempt(weights);
  if (!attempt) return;
  options.num_classes = core::integer_at(attempt->model, "num_classes");
  if (options.num_classes) set.mark_derived("num-classes", attempt->source);
}

}  // namespace lockstep::tasks
