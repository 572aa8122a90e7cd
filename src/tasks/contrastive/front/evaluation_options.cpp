#include "tasks/contrastive/front/evaluation_options.h"

#include <filesystem>
#include <utility>

#include "config/option_checks.h"

namespace lockstep::tasks {
namespace {

void declare_zero_shot(core::OptionSet& set, EvaluationOptions& o, bool is_clap) {
  if (is_clap) {
    set.add("zeroshot-data", &o.zeroshot_data,
            {.role = core::OptionRole::kNoInfluence,
             .help = "Sounds for zero-shot classification: a folder with one sub-folder per class, or shards with the "
                     "member 'cls'; needs --classnames.",
             .metavar = "DIR|SPEC"});
  } else {
    set.add(
        "imagenet-val", &o.imagenet_val,
        {.role = core::OptionRole::kNoInfluence,
         .help =
             "ImageNet validation pictures for zero-shot evaluation: a folder with one sub-folder per class, or shards "
             "with the member 'cls'.",
         .metavar = "DIR|SPEC"});
    set.add("imagenet-v2", &o.imagenet_v2,
            {.role = core::OptionRole::kNoInfluence,
             .help = "ImageNet-v2 for zero-shot evaluation: a folder whose sub-folders are named by class numbers, the "
                     "folder with ImageNetV2-matched-frequency in it, or shards with the member 'cls'.",
             .metavar = "DIR|SPEC"});
    set.add(
        "zeroshot-data", &o.zeroshot_data,
        {.role = core::OptionRole::kNoInfluence,
         .help = "Other pictures for zero-shot evaluation, in the forms of --imagenet-val; needs --classnames, which "
                 "then belongs to these pictures alone.",
         .metavar = "DIR|SPEC"});
  }
  set.add("classnames", &o.classnames,
          {.role = core::OptionRole::kNoInfluence,
           .help = "Class names for zero-shot evaluation, one per line in the order of the class numbers.",
           .metavar = "FILE",
           .unset_text = is_clap ? "none" : "ImageNet's"});
  set.add("templates", &o.templates,
          {.role = core::OptionRole::kNoInfluence,
           .help = "Prompts for zero-shot evaluation, one per line with {} for the class name.",
           .metavar = "FILE",
           .unset_text = is_clap ? "This is a sound of {}." : "the 80 prompts of OpenAI"});
}

}  // namespace

bool EvaluationOptions::has_zero_shot() const {
  return !imagenet_val.empty() || !imagenet_v2.empty() || !zeroshot_data.empty();
}

std::vector<std::string> EvaluationOptions::metric_names(const std::string& task, bool has_val_data,
                                                         bool has_captions) const {
  const bool is_clap = task == "clap";
  std::vector<std::string> names;
  if (has_val_data && val_frequency_epochs > 0) {
    const std::string other = is_clap ? "audio" : "image";
    for (const std::string& direction : {other + "_to_text", "text_to_" + other}) {
      for (const char* metric : {"_mean_rank", "_median_rank", "_R@1", "_R@5", "_R@10"})
        names.push_back(direction + metric);
      if (is_clap) names.push_back(direction + "_mAP@10");
    }
    names.emplace_back(is_clap ? "clap_val_loss" : "clip_val_loss");
    if (has_captions) names.emplace_back("val_generative_loss");
  }
  if (zeroshot_frequency_epochs == 0) return names;
  for (const auto& [data, prefix] :
       {std::pair(&imagenet_val, kImagenetPrefix), std::pair(&imagenet_v2, kImagenetV2Prefix),
        std::pair(&zeroshot_data, kZeroShotPrefix)})
    for (const char* metric : {"-top1", "-top5"})
      if (!data->empty()) names.push_back(std::string(prefix) + metric);
  return names;
}

std::string imagenet_v2_pictures(const std::string& spec) {
  std::error_code ignored;
  const std::filesystem::path inner = std::filesystem::path(spec) / "ImageNetV2-matched-frequency";
  return std::filesystem::is_directory(inner, ignored) ? inner.string() : spec;
}

void EvaluationOptions::declare(core::OptionSet& set, const std::string& task) {
  set.group("Evaluation");
  set.add("val-frequency", &val_frequency_epochs,
          {.role = core::OptionRole::kNoInfluence,
           .help = "Evaluate on --val-data every N epochs and at the end; 0: never.",
           .unit = "epochs",
           .min = 0});
  set.add("zeroshot-frequency", &zeroshot_frequency_epochs,
          {.role = core::OptionRole::kNoInfluence,
           .help = "Zero-shot evaluation every N epochs and at the end; 0: never.",
           .unit = "epochs",
           .min = 0});
  declare_zero_shot(set, *this, task == "clap");
}

void EvaluationOptions::check(const core::OptionSet&, const std::string& task) const {
  const bool is_clap = task == "clap";
  config::refuse_if(!classnames.empty() && !has_zero_shot(),
                    "--classnames belongs to zero-shot evaluation, for which no data are given",
                    is_clap ? "add --zeroshot-data" : "add --zeroshot-data or --imagenet-val");
  config::refuse_if(!templates.empty() && !has_zero_shot(),
                    "--templates belongs to zero-shot evaluation, for which no data are given",
                    is_clap ? "add --zeroshot-data" : "add --zeroshot-data or --imagenet-val");
  config::refuse_if(!zeroshot_data.empty() && classnames.empty(), "--zeroshot-data needs --classnames",
                    "give a file with one class name per line, in the order of the class numbers");
}

}  // namespace lockstep::tasks
