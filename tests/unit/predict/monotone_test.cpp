// Properties that every prediction must show: more bandwidth, higher peaks and fewer bytes never slow a step.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "predict/machine_file.h"
#include "predict/plan_step.h"

namespace lockstep::predict {
namespace {

struct GridCommand {
  std::string name;
  std::vector<std::string> words;
  std::optional<double> samples_per_device{};
};

std::vector<std::string> grid_gpt(std::vector<std::string> more) {
  std::vector<std::string> words = {"train",           "gpt",         "--micro-batch-size=1",
                                    "--train-iters=5", "--mock-data", "--lr=1e-4"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string grid_recipe(const char* name) {
  return (std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "recipes" / name).string();
}

/// Small and large messages, weak and strong scaling, replicated and sharded gradients, tensor and pipeline ranks.
std::vector<GridCommand> grid_commands() {
  return {{"GPT 125M", grid_gpt({"--model=gpt3-125m", "--bf16"}), 1},
          {"GPT 1.3B", grid_gpt({"--model=gpt3-1.3b", "--bf16"}), 1},
          {"GPT 1.3B, strong", grid_gpt({"--model=gpt3-1.3b", "--bf16", "--global-batch-size=512"})},
          {"GPT 1.3B, ZeRO-1", grid_gpt({"--model=gpt3-1.3b", "--bf16", "--use-distributed-optimizer"}), 4},
          {"GPT 6.7B, tensor ranks", grid_gpt({"--model=gpt3-6.7b", "--bf16", "--tensor-model-parallel-size=4"}), 1},
          {"GPT 6.7B, pipeline",
           grid_gpt({"--model=gpt3-6.7b", "--bf16", "--pipeline-model-parallel-size=4", "--global-batch-size=512"})},
          {"ResNet-50", {"train", "imagenet", "--config", grid_recipe("imagenet_resnet50_epicure.toml")}},
          {"CLIP B/32", {"train", "clip", "--config", grid_recipe("clip_vitb32_dgx.toml")}}};
}

const std::vector<int64_t> kGridNodes = {1, 2, 8, 64, 256};

std::vector<Interval> predicted_intervals(const std::vector<PlannedStep>& steps, const Machine& machine) {
  std::vector<Interval> intervals;
  for (const PredictedStep& step : predict_steps(model_of(steps, machine), steps, {}).forecast.steps)
    intervals.push_back(step.step_s);
  return intervals;
}

/// No quantile of a later prediction is above that of the one before it.
class Falling {
 public:
  explicit Falling(std::string what) : what_(std::move(what)) {}
  void add(const std::vector<PlannedStep>& steps, const std::vector<Interval>& now, double factor) {
    for (size_t i = 0; i < last_.size(); ++i)
      for (const auto& [name, quantile] :
           {std::pair{"5 %", &Interval::p5}, {"50 %", &Interval::p50}, {"95 %", &Interval::p95}})
        EXPECT_LE(now[i].*quantile, last_[i].*quantile * (1 + 1e-9))
            << what_ << " x " << factor << ", " << steps[i].nodes << " nodes, quantile of " << name;
    last_ = now;
  }

 private:
  std::string what_;
  std::vector<Interval> last_;
};

TEST(Monotone, MoreBandwidthNeverSlows) {
  struct Rate {
    const char* name;
    std::function<void(Machine&, double)> scale;
  };
  const Rate rates[] = {{"network", [](Machine& machine, double times) { machine.node_gbytes_per_s.value *= times; }},
                        {"links", [](Machine& machine, double times) { machine.link_gbytes_per_s.value *= times; }},
                        {"memory", [](Machine& machine, double times) { machine.memory_tbytes_per_s.value *= times; }},
                        {"peaks", [](Machine& machine, double times) {
                           for (hw::Peak& peak : machine.peaks) peak.tflops *= times;
                         }}};
  for (const char* system : {"dgx-h100", "jupiter", "lumi"})
    for (const GridCommand& command : grid_commands()) {
      const Machine machine = find_machine(system);
      std::vector<std::string> refused;
      const auto steps = plan_steps({command.words, command.samples_per_device}, machine, kGridNodes, refused);
      ASSERT_GE(steps.size(), 3u) << command.name;
      for (const Rate& rate : rates) {
        Falling falling(command.name + " on " + system + ", " + rate.name);
        for (const double times : {0.25, 0.5, 1.0, 1.3, 2.0, 4.0}) {
          Machine other = machine;
          rate.scale(other, times);
          falling.add(steps, predicted_intervals(steps, other), times);
        }
      }
    }
}

TEST(Monotone, FewerBytesNeverSlow) {
  const Machine machine = find_machine("dgx-h100");
  for (const GridCommand& command : grid_commands()) {
    std::vector<std::string> refused;
    const auto steps = plan_steps({command.words, command.samples_per_device}, machine, kGridNodes, refused);
    Falling falling(command.name + ", bytes");
    for (const double times : {4.0, 1.7, 1.0, 0.9, 0.45, 0.1}) {
      auto other = steps;
      for (PlannedStep& step : other) {
        for (double& bytes : step.gradient_bucket_bytes) bytes *= times;
        for (double* bytes : {&step.tensor_bytes, &step.pipe_message_bytes, &step.moved_bytes, &step.repeated_bytes,
                              &step.parameters_per_rank})
          *bytes *= times;
      }
      falling.add(other, predicted_intervals(other, machine), times);
    }
  }
}

}  // namespace
}  // namespace lockstep::predict
