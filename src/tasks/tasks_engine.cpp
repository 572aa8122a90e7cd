#include "tasks/tasks_engine.h"

#include <string_view>

#include "core/error.h"
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

}  // namespace

train::TrainRequest train_request(const FrontTask& task, const core::OptionSet& set) {
  for (const EngineTaskRow& row : kTasks)
    if (row.name == task.options().task) return row.request(task, set);
  LOCKSTEP_CHECK(false, "the engine has no task '{}'", task.options().task);
}

}  // namespace lockstep::tasks
