#include "tasks/tasks_engine.h"

#include <gtest/gtest.h>

#include <map>

#include "commands/commands.h"

namespace lockstep::tasks {
namespace {

/// The fewest flags that each command takes.
std::vector<std::string> flags_of(const std::string& task) {
  const std::map<std::string, std::vector<std::string>> known{
      {"clip", {"--dataset-type", "synthetic", "--train-num-samples", "64", "--model", "ViT-B-32"}},
      {"clap", {"--dataset-type", "synthetic", "--train-num-samples", "64", "--model", "HTSAT-tiny-Roberta-base"}},
      {"gpt", {"--mock-data", "--model", "gpt2", "--train-iters", "3", "--lr", "1e-3", "--global-batch-size", "8"}},
      {"imagenet", {"--dummy", "--train-num-samples", "64", "--epochs", "32"}},
      {"resnet", {"--dummy", "--train-num-samples", "64", "--epochs", "32", "-a", "resnet50"}}};
  return known.at(task);
}

TEST(EngineTasks, EveryTaskOfTheFrontHasARow) {
  for (const auto& row : front_tasks()) {
    const std::string task = row.name;
    std::vector<std::string> args{"train", task};
    for (const auto& flag : flags_of(task)) args.push_back(flag);
    const commands::ParsedCommand command = commands::parse_command(args);
    const train::TrainRequest request = train_request(*command.task, *command.set);
    EXPECT_EQ(&request.options, command.run_options());
    EXPECT_EQ(request.facts.epochs, task == "gpt" ? 1 : 32) << task;
    EXPECT_GE(request.plan_batch(4).global_batch, 8) << task;
  }
}

}  // namespace
}  // namespace lockstep::tasks
