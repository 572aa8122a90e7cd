#include "tasks/tasks_engine.h"

#include <string_view>

#include "core/error.h"
#include "core/strings.h"
#include "tasks/contrastive/engine/contrastive_training_task.h"
#include "tasks/gpt/engine/gpt_training_task.h"
#include "tasks/imagenet/engine/imagenet_training_task.h"

namespace lockstep::tasks {
namespace {

/// A task that the engine trains.
struct EngineTaskRow {
  std::string_view name;  ///< RunOptions::task
  train::TrainRequest (*request)(const FrontTask& task, const core::OptionSet& set);
};

constexpr EngineTaskRow kTasks[] = {
    {"clip", contrastive_train_request},
    {"clap", contrastive_train_request},
    {"gpt", gpt_train_request},
    {"imagenet", imagenet_train_request},
};

/// The lines of the dry run that are about memory.
std::string planned_memory(const FrontTask& task, const core::OptionSet& set, int64_t num_ranks) {
  std::string text;
  for (const DryRunFact& fact : task.dry_run(set, {.num_ranks = num_ranks, .source = "this run"}).facts)
    if (core::starts_with(fact.label, "memory") && fact.key != "device_memory")
      text += (text.empty() ? "" : "; ") + fact.label + ": " + fact.text;
  return text;
}

}  // namespace

train::TrainRequest train_request(const FrontTask& task, const core::OptionSet& set) {
  for (const EngineTaskRow& row : kTasks)
    if (row.name == task.options().task) {
      train::TrainRequest request = row.request(task, set);
      request.planned_memory = [&](int64_t num_ranks) { return planned_memory(task, set, num_ranks); };
      return request;
    }
  LOCKSTEP_CHECK(false, "the engine has no task '{}'", task.options().task);
}

}  // namespace lockstep::tasks
