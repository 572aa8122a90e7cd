// Going on with a run that OpenCLIP's own command line began (ref/make_openclip_resume_golden.py), loader, schedule and
// all.
#include "commands/train_fixture.h"
#include "unit/data/text_golden.h"

namespace lockstep::tests {
namespace {

constexpr const char* kGoldenModel = R"({"embed_dim": 16,
  "vision_cfg": {"image_size": 32, "layers": 3, "width": 24, "patch_size": 8, "head_width": 12},
  "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}})";

/// The command line of the golden run: five shards of a batch each, four epochs.
class TrainOpenClip : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped()) return;
    const auto made = run_lockstep({"data", "make-shapes", path("data"), "--samples", "80", "--val-samples", "28",
                                    "--samples-per-shard", "16", "--image-size", "32"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    core::write_file_atomic(path("model.json"), kGoldenModel);
    core::write_file_atomic(path("epoch_2.pt"),
                            data::read_golden_text(LOCKSTEP_GOLDEN_DIR "/openclip_resume/epoch_2.pt.gz"));
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  ProgramResult train(const std::string& name, std::vector<std::string> more) const {
    std::vector<std::string> args = {"train", "clip"};
    for (const auto& [flag, value] :
         std::vector<std::pair<const char*, std::string>>{{"--model", path("model.json")},
                                                          {"--train-data", path("data/train-{000000..000004}.tar")},
                                                          {"--train-num-samples", "80"},
                                                          {"--batch-size", "16"},
                                                          {"--workers", "5"},
                                                          {"--data-order", "openclip"},
                                                          {"--aug-cfg", "scale=(1.0,1.0)"},
                                                          {"--seed", "3"},
                                                          {"--epochs", "4"},
                                                          {"--warmup", "5"},
                                                          {"--lr", "1e-3"},
                                                          {"--wd", "0.2"},
                                                          {"--precision", "fp32"},
                                                          {"--device", "cpu"},
                                                          {"--threads", "1"},
                                                          {"--save-format", "openclip"},
                                                          {"--logs", path("logs")},
                                                          {"--name", name}}) {
      args.emplace_back(flag);
      args.push_back(value);
    }
    args.insert(args.end(), more.begin(), more.end());
    return run_lockstep(args);
  }

  void expect_losses_of_openclip(const std::string& name, size_t first) const {
    const auto want =
        core::read_json_file(LOCKSTEP_GOLDEN_DIR "/openclip_resume/losses.json").get<std::vector<double>>();
    const auto steps = record::read_steps(folder_.path() / "logs" / name).steps;
    ASSERT_EQ(steps.size(), want.size() - first) << name;
    for (size_t i = 0; i < steps.size(); ++i)
      EXPECT_NEAR(steps[i].loss, want[first + i], 1e-5 * want[first + i]) << name << ", step " << first + i;
  }

  core::TempDir folder_{"lockstep_openclip"};
};

TEST_F(TrainOpenClip, TenStepsMoreHaveTheLossesOfOpenClip) {
  const auto done = train("on", {"--resume", path("epoch_2.pt")});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  expect_losses_of_openclip("on", 10);
  const auto again = train("end", {"--resume", path("logs/on/checkpoints/epoch_3.pt")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  expect_losses_of_openclip("end", 15);
}

std::vector<std::string> joined(std::vector<std::string> flags, const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST_F(TrainOpenClip, PretrainedWeightsOfAnotherSizeAreResized) {
  const std::vector<std::string> sizes = {"--force-image-size", "48", "--force-context-length", "20"};
  const auto with = [&](const std::vector<std::string>& more) { return joined(more, sizes); };
  const auto done = train("new", with({"--pretrained", path("epoch_2.pt"), "--max-steps", "1"}));
  ASSERT_EQ(done.exit_code, 0) << done.err;
  for (const char* told : {"position embeddings of pictures resized from 4 x 4 to 6 x 6 patches (bicubic)",
                           "position embeddings of texts resized from 16 to 20 tokens (linear)"})
    EXPECT_NE(done.err.find(told), std::string::npos) << told << '\n' << done.err;
  const auto refused = train("on", with({"--resume", path("epoch_2.pt")}));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("give the --force-image-size and --force-context-length that the weights were made with"),
            std::string::npos)
      << refused.err;
}

/// As in OpenCLIP, the numbers of AdamW are the file's; also in what the run leaves for itself and for OpenCLIP.
TEST_F(TrainOpenClip, AdamWGoesOnWithTheNumbersOfTheFile) {
  const std::vector<std::string> others = {"--wd", "0.01", "--beta1", "0.5", "--beta2", "0.6", "--eps", "1e-2"};
  const auto with = [&](const std::vector<std::string>& more) { return joined(more, others); };
  const auto stopped = train("on", with({"--resume", path("epoch_2.pt"), "--max-steps", "15"}));
  ASSERT_EQ(stopped.exit_code, 0) << stopped.err;
  for (const char* told : {"--wd 0.01 is not used: the run goes on with 0.2 of the OpenCLIP file, as in OpenCLIP",
                           "--beta1 0.5 is not used", "--beta2 0.6 is not used", "--eps 0.01 is not used"})
    EXPECT_NE(stopped.err.find(told), std::string::npos) << told << '\n' << stopped.err;
  const auto resumed = train("on", with({"--resume", "latest"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("--wd 0.01 is not used"), std::string::npos) << resumed.err;
  expect_losses_of_openclip("on", 10);
  const auto again = train("end", {"--resume", path("logs/on/checkpoints/epoch_3.pt")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.err.find("is not used"), std::string::npos) << again.err;
  expect_losses_of_openclip("end", 15);
}

}  // namespace
}  // namespace lockstep::tests
