#include "tasks/regress/front/regress_options.h"

#include <optional>

namespace lockstep::tasks {

core::OptionSet declare_regress_options(RegressOptions& o) {
  core::OptionSet set("train regress", "Train a linear regressor on made-up data.");
  set.require_roles();
  set.group("Recipe and dry run");
  set.add_config_option();
  config::declare_run_flags(set, o, {"dry-run", "world-size", "json"});
  set.group("Data");
  set.add("features", &o.num_features,
          {.role = core::OptionRole::kConfiguration, .help = "Numbers that a sample has.", .min = 1, .max = 1e6});
  set.add("noise", &o.noise,
          {.role = core::OptionRole::kConfiguration,
           .help = "Standard deviation of what is added to the answers.",
           .min = 0});
  set.add(
      "train-num-samples", &o.train_num_samples,
      {.role = core::OptionRole::kIdentity, .help = "Samples of one epoch.", .unit = "samples", .min = 1, .max = 1e12});
  set.add("batch-size", &o.micro_batch_size,
          {.role = core::OptionRole::kSetup,
           .help = "Samples of one step on one rank.",
           .unit = "samples per rank",
           .min = 1,
           .max = 1e9});
  set.group("Optimisation");
  set.add("epochs", &o.epochs,
          {.role = core::OptionRole::kIdentity, .help = "Epochs to train.", .unit = "epochs", .min = 1, .max = 1e6});
  set.add("max-steps", &o.max_steps,
          {.role = core::OptionRole::kIdentity,
           .help = "Stop after this many optimiser steps.",
           .unit = "steps",
           .unset_text = "by --epochs",
           .min = 1});
  set.add("lr", &o.lr,
          {.role = core::OptionRole::kSchedule, .help = "Learning rate.", .min = 0, .is_min_excluded = true});
  config::declare_run_flags(set, o, {"seed"});
  set.group("Device and ranks");
  config::declare_run_flags(set, o,
                            {"device", "dist-backend", "dist-url", "dist-rank", "dist-world-size", "dist-local-rank",
                             "dist-timeout", "threads", "deterministic", "check-replicas"});
  set.group("Logging, profile and checkpoints");
  config::declare_run_flags(set, o, {"logs", "name", "log-local", "log-every-n-steps", "report-to", "debug"});
  config::declare_run_flags(set, o,
                            {"profile", "profile-step-start", "profile-step-end", "profile-ranks", "profile-tool"});
  config::declare_run_flags(set, o, {"save-every-n-steps", "keep", "resume"});
  config::refuse_guessed_flags(set);
  return set;
}

config::RunFacts regress_run_facts(const RegressOptions& o) {
  return {.model = o.model,
          .precision = o.precision,
          .lr = o.lr,
          .micro_batch_size = o.micro_batch_size,
          .epochs = o.epochs,
          .max_steps = o.max_steps,
          .grad_clip_norm = std::nullopt,
          .save_frequency_epochs = 1,
          .num_kept_checkpoints = o.keep.value_or(0)};
}

}  // namespace lockstep::tasks
