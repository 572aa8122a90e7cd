#include "tasks/contrastive/front/split_optimizer_options.h"

#include <fmt/format.h>

#include "config/option_checks.h"

namespace lockstep::tasks {
using core::OptionRole;
namespace {

constexpr const char* kNumbers[] = {"lr", "beta1", "beta2", "eps", "wd"};
constexpr const char* kGroups[] = {"pretrained", "new"};

void declare_numbers(core::OptionSet& set, const std::string& group, const std::string& whose, OwnUpdateNumbers& own) {
  const auto add = [&](const std::string& number, std::optional<double>& field, const std::string& help,
                       core::OptionSpec spec) {
    spec.role = OptionRole::kSchedule;
    spec.help = fmt::format("With --split-opt: {} of {}.", help, whose);
    spec.unset_text = "--" + number;
    set.add(number + "-" + group, &field, std::move(spec));
  };
  add("lr", own.lr, "peak learning rate", {.min = 0});
  add("beta1", own.beta1, "decay of the first moment", {.min = 0, .max = 1, .is_max_excluded = true});
  add("beta2", own.beta2, "decay of the second moment", {.min = 0, .max = 1, .is_max_excluded = true});
  add("eps", own.eps, "what is added to the root of the second moment", {.min = 0, .is_min_excluded = true});
  add("wd", own.wd, "weight decay", {.min = 0});
}

}  // namespace

void SplitOptimizerOptions::declare(core::OptionSet& set, const std::string&) {
  set.group("Updates of pretrained parameters");
  set.add(
      "split-opt", &split_opt,
      {.role = OptionRole::kSchedule,
       .help = "Update the parameters that --pretrained-text, --pretrained-image and --pretrained-audio begin with "
               "by numbers of their own. The rate that is recorded is that of the others; both follow one schedule."});
  declare_numbers(set, "pretrained", "pretrained parameters", pretrained_numbers);
  declare_numbers(set, "new", "the others", new_numbers);
}

void SplitOptimizerOptions::check(const core::OptionSet& set, const std::string&) const {
  for (const char* group : kGroups)
    for (const char* number : kNumbers) {
      const std::string flag = fmt::format("{}-{}", number, group);
      config::refuse_if(set.is_given(flag) && !split_opt, fmt::format("--{} belongs to --split-opt", flag),
                        "add --split-opt, or drop it");
    }
}

}  // namespace lockstep::tasks
