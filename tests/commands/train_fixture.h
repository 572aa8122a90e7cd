#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "commands/engine_test.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "record/reader.h"

namespace lockstep::tests {

namespace fs = std::filesystem;

inline constexpr const char* kTinyModel = R"({"embed_dim": 32,
  "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
  "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}})";

/// 96 training pictures in 4 shards and 48 held-out ones, made once for all tests of a file, and a tiny model.
class TrainFixture : public EngineTest {
 protected:
  static void SetUpTestSuite() {
    shared_ = new core::TempDir("lockstep_train");
    std::ofstream(shared_->path() / "tiny.json") << kTinyModel;
    const auto made =
        run_lockstep({"data", "make-shapes", (shared_->path() / "shapes").string(), "--samples", "96", "--val-samples",
                      "48", "--samples-per-shard", "24", "--image-size", "32", "--json"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    shapes_ = new core::Json(core::parse_json(made.out, "make-shapes"));
  }
  static void TearDownTestSuite() {
    delete shapes_;
    delete shared_;
  }

  std::vector<std::string> train_args(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"train",
                                     "clip",
                                     "--train-data",
                                     shapes("train_shards"),
                                     "--model",
                                     (shared_->path() / "tiny.json").string(),
                                     "--batch-size",
                                     "8",
                                     "--workers",
                                     "1",
                                     "--threads",
                                     "1",
                                     "--precision",
                                     "fp32",
                                     "--device",
                                     "cpu",
                                     "--lr",
                                     "1e-3",
                                     "--warmup",
                                     "2",
                                     "--epochs",
                                     "2",
                                     "--log-every-n-steps",
                                     "1",
                                     "--logs",
                                     logs_.path().string(),
                                     "--name",
                                     name};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  ProgramResult train(const std::string& name, std::vector<std::string> more = {},
                      const EnvChanges& changes = {}) const {
    return run_lockstep(train_args(name, std::move(more)), changes);
  }
  ProgramResult train_on(int ranks, const std::string& name, std::vector<std::string> more = {}) const {
    auto args = train_args(name, std::move(more));
    args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    return run_lockstep(args);
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (const auto& step : record::read_steps(logs_.path() / name).steps) values.push_back(step.loss);
    return values;
  }
  static std::string shapes(const std::string& key) { return shapes_->at(key); }
  fs::path newest_checkpoint(const std::string& name) const {
    const auto entries = checkpoint::list_checkpoints(logs_.path() / name);
    return entries.empty() ? fs::path() : entries.front().folder;
  }

  core::TempDir logs_{"lockstep_logs"};
  inline static core::TempDir* shared_ = nullptr;
  inline static core::Json* shapes_ = nullptr;
};

}  // namespace lockstep::tests
