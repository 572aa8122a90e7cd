#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "commands/train_fixture.h"
#include "core/safetensors.h"
#include "core/strings.h"

namespace lockstep::tests {

/// Starts lockstep-engine-on-accelerator: the engine with simulated devices, whose mistakes end it with exit code 70.
class AcceleratorFixture : public TrainFixture {
 protected:
  void SetUp() override {}  // the program is built with this one
  static void TearDownTestSuite() {
    delete sounds_;
    sounds_ = nullptr;
    TrainFixture::TearDownTestSuite();
  }
  /// 48 recordings of a second and 24 held-out ones, made when first asked for.
  static std::string sounds(const std::string& key) {
    if (sounds_ == nullptr) {
      const auto made = run_lockstep({"data", "make-sounds", (shared_->path() / "sounds").string(), "--samples", "48",
                                      "--val-samples", "24", "--samples-per-shard", "24", "--json"});
      EXPECT_EQ(made.exit_code, 0) << made.err;
      sounds_ = new core::Json(core::parse_json(made.out, "make-sounds"));
    }
    return sounds_->at(key);
  }
  /// 56 pictures of 28 classes in one folder for each, made when first asked for.
  static std::string labelled_shapes() {
    const fs::path folder = shared_->path() / "labelled";
    if (!fs::exists(folder)) {
      const auto made = run_lockstep({"data", "make-shapes", folder.string(), "--samples", "56", "--val-samples", "28",
                                      "--samples-per-shard", "56", "--image-size", "64", "--labels"});
      EXPECT_EQ(made.exit_code, 0) << made.err;
    }
    return (folder / "train").string();
  }
  /// LOCKSTEP_TEST_ENGINE names another one (tests/tools/mutate_device_path.py).
  static std::string engine() {
    const char* other = std::getenv("LOCKSTEP_TEST_ENGINE");
    return other != nullptr ? other : LOCKSTEP_BUILD_DIR "/lockstep-engine-on-accelerator";
  }

  /// On the CPU, or where `num_devices` is above 0 on the simulated accelerator.
  static ProgramResult run(std::vector<std::string> args, int num_devices, EnvChanges changes = {}) {
    args.insert(args.begin(), engine());
    changes["CUDA_VISIBLE_DEVICES"] = "";  // a GPU that is here plays no part
    changes["LOCKSTEP_TEST_DEVICES"] = num_devices > 0 ? std::optional(std::to_string(num_devices)) : std::nullopt;
    return run_program(std::move(args), changes);
  }
  /// One process for each rank. In the order of the ranks.
  static std::vector<ProgramResult> run_ranks(int num_ranks, const std::vector<std::string>& args, int num_devices,
                                              const EnvChanges& more = {}) {
    const std::string port = std::to_string(free_port());
    std::vector<std::future<ProgramResult>> ranks;
    for (int rank = 0; rank < num_ranks; ++rank) {
      EnvChanges changes{{"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(num_ranks)},
                         {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(num_ranks)},
                         {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", port}};
      changes.insert(more.begin(), more.end());
      ranks.push_back(std::async(std::launch::async, [=] { return run(args, num_devices, changes); }));
    }
    std::vector<ProgramResult> results;
    for (auto& rank : ranks) results.push_back(rank.get());
    return results;
  }
  static int free_port() {
    const int probe = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(probe, reinterpret_cast<sockaddr*>(&address), size);
    getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
    close(probe);
    return ntohs(address.sin_port);
  }
  /// `args(name)`: a command line. On devices it ends well, without a mistake, and as on the CPU.
  template <typename Args> void expect_as_on_the_cpu(int num_ranks, const Args& args, double relative = 1e-5) const {
    for (const auto& rank : run_ranks(num_ranks, args("device"), num_ranks)) {
      ASSERT_EQ(rank.exit_code, 0) << rank.err;
      ASSERT_NE(rank.err.find("simulated accelerator: 0 mistakes"), std::string::npos) << rank.err;
    }
    for (const auto& rank : run_ranks(num_ranks, args("cpu"), 0)) ASSERT_EQ(rank.exit_code, 0) << rank.err;
    expect_close_runs("device", "cpu", relative);
    expect_phases("device");
  }
  /// Each step tells of each of its phases, which events of the device mark.
  void expect_phases(const std::string& name) const {
    for (const auto& step : record::read_steps(logs_.path() / name).steps) {
      const std::map<std::string, double> ms(step.phases_ms.begin(), step.phases_ms.end());
      for (const char* phase : {"h2d", "forward", "backward", "exposed_comm", "optimizer"}) {
        ASSERT_TRUE(ms.contains(phase)) << phase;
        EXPECT_GT(ms.at(phase), 0) << phase << " of step " << step.step;
      }
    }
  }
  static std::vector<std::string> on_any_device(std::vector<std::string> args) {
    const auto device = std::find(args.begin(), args.end(), "--device");
    *std::next(device) = "auto";
    return args;
  }
  /// Five steps and an evaluation.
  std::vector<std::string> clip_args(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> args =
        on_any_device(train_args(name, {"--max-steps", "5", "--val-data", shapes("val_shards")}));
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::vector<std::string> gpt_args(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> args;
    for (const char* word : {"train",
                             "gpt",
                             "--mock-data",
                             "--num-layers",
                             "2",
                             "--hidden-size",
                             "32",
                             "--num-attention-heads",
                             "4",
                             "--seq-length",
                             "16",
                             "--max-position-embeddings",
                             "16",
                             "--vocab-size",
                             "64",
                             "--make-vocab-size-divisible-by",
                             "4",
                             "--micro-batch-size",
                             "2",
                             "--global-batch-size",
                             "4",
                             "--train-iters",
                             "6",
                             "--lr",
                             "1e-3",
                             "--log-interval",
                             "1",
                             "--threads",
                             "1",
                             "--device",
                             "auto",
                             "--hidden-dropout",
                             "0.1",
                             "--attention-dropout",
                             "0"})
      args.emplace_back(word);
    args.insert(args.end(), {"--logs", logs_.path().string(), "--name", name});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::vector<std::string> clap_args(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"train", "clap", "--model", LOCKSTEP_SOURCE_DIR "/examples/sounds/model.json"};
    args.insert(args.end(), {"--train-data", sounds("train_shards"), "--tokenizer-vocab", sounds("tokenizer")});
    for (const char* word :
         {"--batch-size", "8", "--workers", "1", "--threads", "1", "--precision", "fp32", "--lr", "1e-3", "--warmup",
          "2", "--max-steps", "5", "--log-every-n-steps", "1", "--device", "auto"})
      args.emplace_back(word);
    args.insert(args.end(), {"--logs", logs_.path().string(), "--name", name});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  /// Seven steps an epoch, of which the first four run.
  std::vector<std::string> imagenet_args(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"train",
                                     "imagenet",
                                     "--train-data",
                                     labelled_shapes(),
                                     "-a",
                                     "resnet18",
                                     "--image-size",
                                     "64",
                                     "--batch-size",
                                     "8",
                                     "--max-steps",
                                     "4",
                                     "--workers",
                                     "1",
                                     "--threads",
                                     "1",
                                     "--epochs",
                                     "1",
                                     "--lr",
                                     "1e-4",
                                     "--log-every-n-steps",
                                     "1",
                                     "--device",
                                     "auto",
                                     "--logs",
                                     logs_.path().string(),
                                     "--name",
                                     name};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  /// Files of fp32 tensors below the logs, of the same names and shapes.
  void expect_close_tensors(const std::string& name, const std::string& want, float absolute = 1e-5f) const {
    const core::SafetensorsFile got_file(logs_.path() / name), want_file(logs_.path() / want);
    ASSERT_FALSE(want_file.entries().empty());
    for (const auto& entry : want_file.entries()) {
      const auto* got = reinterpret_cast<const float*>(got_file.at(entry.name).bytes.data());
      const auto* expected = reinterpret_cast<const float*>(entry.bytes.data());
      ASSERT_EQ(got_file.at(entry.name).shape, entry.shape);
      float largest = 0;
      for (size_t i = 0; i < entry.bytes.size() / sizeof(float); ++i) {
        ASSERT_NEAR(got[i], expected[i], absolute) << entry.name << " " << i;
        largest = std::max(largest, std::abs(expected[i]));
      }
      EXPECT_GT(largest, 0.01f) << entry.name;
    }
  }
  void write_lines(const std::string& name, const std::vector<std::string>& lines) const {
    std::ofstream file(logs_.path() / name);
    for (const auto& line : lines) file << line << "\n";
  }
  /// Losses and norms of gradients. fp32: the formulas of a device (attention, norms) round in another order than the
  /// CPU's, and the difference grows with the steps.
  void expect_close_runs(const std::string& name, const std::string& want, double relative = 1e-5) const {
    const auto got_steps = record::read_steps(logs_.path() / name).steps;
    const auto want_steps = record::read_steps(logs_.path() / want).steps;
    ASSERT_GE(want_steps.size(), 4u);
    ASSERT_EQ(got_steps.size(), want_steps.size());
    EXPECT_NE(want_steps.front().loss, want_steps.back().loss);
    double of_losses = 0, of_norms = 0;
    const auto difference = [](double found, double wanted) { return std::abs(found - wanted) / std::abs(wanted); };
    for (size_t i = 0; i < want_steps.size(); ++i) {
      EXPECT_NEAR(got_steps[i].loss, want_steps[i].loss, relative * want_steps[i].loss) << "step " << i;
      ASSERT_GT(want_steps[i].grad_norm.value_or(0), 0);
      EXPECT_NEAR(*got_steps[i].grad_norm, *want_steps[i].grad_norm, 10 * relative * *want_steps[i].grad_norm);
      of_losses = std::max(of_losses, difference(got_steps[i].loss, want_steps[i].loss));
      of_norms = std::max(of_norms, difference(*got_steps[i].grad_norm, *want_steps[i].grad_norm));
    }
    // For the file of results: how near the limits these came.
    ::testing::Test::RecordProperty("loss_difference", fmt::format("{:.2g} of {:.2g}", of_losses, relative));
    ::testing::Test::RecordProperty("norm_difference", fmt::format("{:.2g} of {:.2g}", of_norms, 10 * relative));
    expect_close_evaluations(name, want, relative);
  }
  /// Losses as those of steps; ranks and shares may differ where two candidates are nearly alike.
  void expect_close_evaluations(const std::string& name, const std::string& want, double relative) const {
    const auto evaluations = [&](const std::string& run) {
      const fs::path file = logs_.path() / run / "results.jsonl";
      return fs::exists(file) ? record::read_json_lines(file).lines : std::vector<core::Json>{};
    };
    const auto got = evaluations(name), expected = evaluations(want);
    ASSERT_EQ(got.size(), expected.size());
    constexpr double kNarrow = 1e-3;  // activations of 16 bits: more candidates are nearly alike
    const double nearly_alike = relative > kNarrow ? 0.15 : 0.05;
    for (size_t i = 0; i < expected.size(); ++i)
      for (const auto& [metric, value] : expected[i].at("metrics").items()) {
        const double wanted = value.get<double>(), found = got[i].at("metrics").at(metric).get<double>();
        const bool is_loss = core::ends_with(metric, "loss");
        EXPECT_NEAR(found, wanted, is_loss ? relative * wanted : nearly_alike * std::max(1.0, std::abs(wanted)))
            << metric;
      }
  }
  /// Of the run "fault", in which another rank failed: this one ended for that reason, and the record says so.
  void expect_noticed(const ProgramResult& survivor, const char* text) const {
    EXPECT_FALSE(survivor.timed_out);
    EXPECT_EQ(survivor.exit_code, 3) << survivor.err;
    EXPECT_NE(survivor.err.find(text), std::string::npos) << survivor.err;
    EXPECT_EQ(record::read_status(logs_.path() / "fault").state, "failed");
  }
  /// The last checkpoints hold the same files of tensors, those of each rank among them, with the same bytes.
  void expect_same_files(const std::string& name, const std::string& want) const {
    const auto tensors = [&](const std::string& run) {
      std::map<std::string, std::string> bytes_of;
      for (const auto& file : fs::directory_iterator(newest_checkpoint(run)))
        if (file.path().extension() == ".safetensors")
          bytes_of[file.path().filename().string()] = core::read_file(file.path());
      return bytes_of;
    };
    const auto got = tensors(name), expected = tensors(want);
    EXPECT_GE(expected.size(), 2u) << "weights and the optimiser's state";
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [file, bytes] : expected) {
      ASSERT_TRUE(got.contains(file)) << file;
      EXPECT_TRUE(got.at(file) == bytes) << file;
    }
  }

 private:
  inline static core::Json* sounds_ = nullptr;
};

}  // namespace lockstep::tests
