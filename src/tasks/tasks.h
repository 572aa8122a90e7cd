#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/run_options.h"
#include "core/json.h"
#include "core/options.h"
#include "plan/batch_plan.h"
#include "tasks/front/dry_run.h"
#include "tasks/front/layout_choices.h"

namespace lockstep::tasks {

/// A task as the torch-free half sees it: its options, and what they say before there are tensors.
class FrontTask {
 public:
  virtual ~FrontTask() = default;
  /// The options in their present state; those of the task derive from RunOptions, see options_as.
  virtual const config::RunOptions& options() const = 0;
  /// Declares every flag of the task for the fields of options(), which the set then reads and writes.
  virtual core::OptionSet declare() = 0;
  /// Fills what follows from other flags.
  virtual void fill_defaults(core::OptionSet& set) = 0;
  /// UsageError for options that contradict each other; returns warnings: legal, but rarely what is meant.
  virtual std::vector<std::string> check(const core::OptionSet& set) const = 0;
  /// Completes the options by what files say (a tokenizer's vocabulary), after check(); returns warnings.
  virtual std::vector<std::string> read_files(core::OptionSet& set) = 0;
  /// How the samples of a step are shared out over this many ranks. UsageError for a model that is none, too.
  virtual plan::BatchPlan batch_plan(const core::OptionSet& set, int64_t num_ranks) const = 0;
  /// What a run of this size would do.
  virtual DryRunPage dry_run(const core::OptionSet& set, const WorldSize& world) const = 0;
};

/// The options of a task as its own type; std::bad_cast where they are another task's.
template <typename Options> const Options& options_as(const FrontTask& task) {
  return dynamic_cast<const Options&>(task.options());
}

/// What the front knows of a task before one is made: the command is `train NAME`.
struct FrontTaskRow {
  std::string name, summary;
  std::unique_ptr<FrontTask> (*make)(const std::string& name);
  std::vector<std::string> programs{};                 ///< Modules and scripts of others whose flags this task takes.
  std::string (*list_models)() = nullptr;              ///< What --list-models prints, where the task has it.
  std::string (*list_models_on_terminal)() = nullptr;  ///< The same for eyes, on a terminal.
  std::string (*list_pretrained)() = nullptr;          ///< What --list-pretrained prints, likewise.
  /// Sets the options of `infer classify` that say what weights belong to and how pictures are prepared to those of the
  /// run of this task that `weights` is of, or of the configuration that they bring along; what the user has given
  /// stays. False where neither is there.
  bool (*take_recorded_classifier)(core::OptionSet& set, const std::string& weights) = nullptr;
  /// What `ckpt export` writes beside the weights of a run of this task, as a config.json; null where it knows nothing.
  core::Json (*weights_config)(const std::string& weights) = nullptr;
  /// The layouts that `predict --advise` tries, where the task has a choice.
  LayoutChoices (*layouts)(const LayoutQuestion& run) = nullptr;
};

/// All tasks, the default one first: the only place of the torch-free half that makes one by its name.
std::span<const FrontTaskRow> front_tasks();

/// The task that takes the flags of this Python module or script ("open_clip_train.main", "a/pretrain_gpt.py"); ""
/// where none is known to.
std::string task_of_program(const std::string& word);

/// What an option of a training command says about a run, by flag name or alias; `task` names the task ("" or
/// one that is not known: all are asked in turn). Nothing where it is not declared.
std::optional<core::OptionRole> option_role(const std::string& task, const std::string& flag);

}  // namespace lockstep::tasks
