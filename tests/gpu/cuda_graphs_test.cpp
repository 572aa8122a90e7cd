// Replayed forward passes give the bits of plain ones. Skipped where there is no GPU.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <string>
#include <vector>

#include "accelerator/accelerator_fixture.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/strings.h"
#include "hw/gpus.h"
#include "nn/captured_call.h"
#include "nn/work_recorder.h"
#include "tasks/contrastive/engine/embedding_engine.h"
#include "tasks/contrastive/engine/towers_build.h"

namespace lockstep::tests {
namespace {

constexpr int64_t kTextColumns = 77, kSidePixels = 64, kWords = 1000;

class CudaGraphs : public AcceleratorFixture {
 protected:
  void SetUp() override {
    if (!hw::find_gpus().any())
      GTEST_SKIP() << "no GPU of NVIDIA is here (/dev, /proc/driver/nvidia, PCI): never run on this machine";
  }
  static at::Device gpu() { return {at::kCUDA, 0}; }
  static ProgramResult on_gpu(std::vector<std::string> args) {
    args.insert(args.begin(), LOCKSTEP_BUILD_DIR "/lockstep-engine");
    return run_program(std::move(args), {});
  }
  /// Trains with and without graphs. `args(name)`: a deterministic command line of eight steps or more.
  template <typename Args> void expect_same_training(const std::string& name, const Args& args) const {
    SCOPED_TRACE(name);
    for (const std::string graphs : {"auto", "off"}) {
      auto words = args(name + "-" + graphs);
      words.insert(words.end(), {"--cuda-graphs", graphs});
      const auto trained = on_gpu(words);
      ASSERT_EQ(trained.exit_code, 0) << trained.err;
      EXPECT_EQ(trained.err.find("launched as CUDA graphs") != std::string::npos, graphs == "auto") << trained.err;
      EXPECT_EQ(trained.err.find("kernel by kernel, not"), std::string::npos) << trained.err;
    }
    ASSERT_GE(losses(name + "-off").size(), 8u);
    EXPECT_EQ(losses(name + "-auto"), losses(name + "-off"));
    expect_same_files(name + "-auto", name + "-off");
  }
  /// Steps that cannot be recorded: why, as the log says. `args(name)`: a deterministic command line.
  template <typename Args>
  void expect_plain_training(const std::string& name, const std::string& why, const Args& args) const {
    SCOPED_TRACE(name);
    for (const std::string graphs : {"auto", "off"}) {
      auto words = args(name + "-" + graphs);
      words.insert(words.end(), {"--cuda-graphs", graphs});
      const auto trained = on_gpu(words);
      ASSERT_EQ(trained.exit_code, 0) << trained.err;
      const size_t place = trained.err.find("kernel by kernel, not as CUDA graphs: ");
      ASSERT_EQ(place != std::string::npos, graphs == "auto") << trained.err;
      if (graphs == "off") continue;
      EXPECT_LT(trained.err.find(why, place), trained.err.find('\n', place)) << trained.err;
    }
    EXPECT_EQ(losses(name + "-auto"), losses(name + "-off")) << "a recording that came to nothing leaves no trace";
    expect_same_files(name + "-auto", name + "-off");
  }
  static at::Tensor numbers(const std::vector<int64_t>& sizes, uint64_t seed) {
    at::Tensor values = at::empty(sizes, at::kFloat);
    core::CounterRng rng(seed);
    auto* value = values.mutable_data_ptr<float>();
    for (int64_t i = 0; i < values.numel(); ++i) value[i] = static_cast<float>(rng.uniform() - 0.5);
    return values.to(gpu());
  }
};

config::ContrastiveShape middling_clip() {
  config::ClipShape shape;
  shape.embed_dim = 128;
  shape.vision.image_size = kSidePixels;
  shape.vision.layers = 3;
  shape.vision.width = 256;
  shape.vision.head_width = 64;
  shape.vision.patch_size = 16;
  shape.text.context_length = kTextColumns;
  shape.text.vocab_size = kWords;
  shape.text.width = 256;
  shape.text.heads = 4;
  shape.text.layers = 3;
  return {.shape = shape};
}

data::HostBatch made_batch(int64_t num_samples, int64_t text_length, uint64_t seed) {
  core::CounterRng rng(seed);
  data::HostBatch host;
  host.num_samples = num_samples;
  host.image_pixels = kSidePixels;
  host.context_length = kTextColumns;
  host.image_BYXC.resize(static_cast<size_t>(num_samples * kSidePixels * kSidePixels * 3));
  for (uint8_t& byte : host.image_BYXC) byte = static_cast<uint8_t>(rng.below(256));
  host.text_BT.assign(static_cast<size_t>(num_samples * kTextColumns), 0);
  for (int64_t b = 0; b < num_samples; ++b) {
    int32_t* row = host.text_BT.data() + b * kTextColumns;
    for (int64_t t = 0; t + 1 < text_length; ++t) row[t] = 1 + static_cast<int32_t>(rng.below(kWords - 2));
    row[text_length - 1] = kWords - 1;
  }
  return host;
}

/// Results of all calls are kept until the end: none is overwritten by a later one.
TEST_F(CudaGraphs, EmbeddingsAreThoseOfPlainCallsBitForBit) {
  for (const char* name : {"fp32", "pure_bf16", "bf16", "amp_bf16", "amp"}) {
    const train::Precision precision(name, c10::DeviceType::CUDA);
    const auto network =
        tasks::build_towers(middling_clip(), {.precision = &precision, .device = gpu(), .pretrained = "", .seed = 5});
    const train::BatchMover mover(gpu(), precision.input_type(), {0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f});
    const tasks::EmbeddingEngine plain(*network, mover, precision, tasks::Weights::kFixed),
        graphs(*network, mover, precision, tasks::Weights::kFixed, nn::call_recorder("auto", gpu()));
    std::vector<tasks::EmbeddingEngine::Features> got, expected;
    uint64_t seed = 0;
    for (int round = 0; round < 6; ++round)
      for (const int64_t num_samples : {1, 2, 5, 33})
        for (const int64_t text_length : {3, 16, 17, 77}) {
          const data::HostBatch host = made_batch(num_samples, text_length, ++seed);
          got.push_back(graphs.embed(host));
          expected.push_back(plain.embed(host));
        }
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].other_BE.equal(expected[i].other_BE)) << name << ", pictures of call " << i;
      EXPECT_TRUE(got[i].text_BE.equal(expected[i].text_BE)) << name << ", texts of call " << i;
      if (i > 0) {
        EXPECT_FALSE(got[i].text_BE.equal(got[i - 1].text_BE)) << "the inputs differ";
      }
    }
    EXPECT_EQ(graphs.num_recorded(), 3 + 3 * 3) << name << ": 33 samples are too many; lengths become 16, 32 and 77";
    EXPECT_EQ(plain.num_recorded(), 0);
  }
}

TEST_F(CudaGraphs, ACallThatWaitsGoesOnPlainAndHarmsNothing) {
  const c10::NoGradGuard no_grad;
  const core::TempDir folder;
  const std::string log = (folder.path() / "out.log").string();
  core::open_log_file(log);
  const auto waits = [](const std::vector<at::Tensor>& inputs) {
    const at::Tensor doubled = inputs.front().mul(2);
    return doubled.mul(doubled.max().item<float>());  // sync: what cannot be captured
  };
  const auto draws = [](const std::vector<at::Tensor>& inputs) {
    return inputs.front().add(at::rand_like(inputs.front()));
  };
  const auto runs = [](const std::vector<at::Tensor>& inputs) { return inputs.front().matmul(inputs.front().t()); };
  const nn::CallRecorder recorder = nn::call_recorder("auto", gpu());
  ASSERT_TRUE(recorder);
  nn::CapturedCall waiting(waits, recorder), drawing(draws, recorder), running(runs, recorder);
  std::vector<at::Tensor> sums;
  for (uint64_t i = 1; i <= 6; ++i) {
    const at::Tensor x = numbers({4, 64}, i);
    EXPECT_TRUE(waiting({x}).equal(waits({x}))) << i;
    sums.push_back(drawing({x}).sub(x));
    EXPECT_TRUE(running({x}).equal(runs({x}))) << i;
  }
  core::open_log_file("");
  EXPECT_EQ(waiting.num_recorded(), 0);
  EXPECT_EQ(drawing.num_recorded(), 0);
  EXPECT_EQ(running.num_recorded(), 1) << "with the memory of the calls that failed";
  for (size_t i = 1; i < sums.size(); ++i) EXPECT_FALSE(sums[i].equal(sums[i - 1])) << "drawn anew each time";
  const std::string told = core::read_file(log);
  EXPECT_EQ(core::split(told, "cannot be recorded").size(), 3u) << told;
  EXPECT_EQ(at::ones({1000}, gpu()).sum().item<float>(), 1000.0f);
}

/// Graphs of one recorder share memory, which those that leave give back.
TEST_F(CudaGraphs, FormsComeAndGo) {
  const c10::NoGradGuard no_grad;
  const auto layers = [](const std::vector<at::Tensor>& inputs) {
    at::Tensor x = inputs.front();
    for (int layer = 0; layer < 4; ++layer) x = at::relu(x.matmul(inputs.back())).add(x);
    return x;
  };
  const at::Tensor weight = numbers({48, 48}, 1000);
  nn::CapturedCall call(layers, nn::call_recorder("auto", gpu()), {.least_calls = 1, .most_forms = 2, .idle_calls = 0});
  std::vector<at::Tensor> kept, expected;
  for (uint64_t i = 1; i <= 40; ++i) {
    const at::Tensor x = numbers({static_cast<int64_t>(1 + i % 5), 48}, i);
    kept.push_back(call({x, weight}));
    expected.push_back(layers({x, weight}));
    EXPECT_LE(call.num_recorded(), 2);
  }
  EXPECT_EQ(call.num_recorded(), 2);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].equal(expected[i])) << i;
  call = {};
  EXPECT_TRUE(kept.back().equal(expected.back())) << "results outlive their graph";
}

TEST_F(CudaGraphs, CommandsUseThemAndGiveTheSameFiles) {
  const std::string model = (shared_->path() / "tiny.json").string();
  const auto trained = on_gpu(train_args("trained", {"--max-steps", "2"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  std::map<std::string, std::map<std::string, std::string>> embeddings;  // bytes of files, by --cuda-graphs
  for (const std::string graphs : {"off", "auto"}) {
    const std::string result = (logs_.path() / (graphs + ".json")).string();
    const auto measured =
        on_gpu({"bench", "latency", "--model",       model,  "--device", "cuda",          "--precisions",
                "fp32",  "bf16",    "--batch-size",  "1",    "4",        "--text-length", "9",
                "-n",    "10",      "--cuda-graphs", graphs, "--output", result});
    ASSERT_EQ(measured.exit_code, 0) << measured.err;
    const core::Json json = core::parse_json(core::read_file(result), result);
    EXPECT_EQ(json.at("summary").at("num_wrong"), 0);
    for (const auto& row : json.at("rows"))
      EXPECT_EQ(row.at("cuda_graphs").get<int64_t>() > 0, graphs == "auto") << row.dump();

    const fs::path folder = logs_.path() / ("embeddings-" + graphs);
    const auto embedded = on_gpu({"infer", "embed", "--shards", shapes("train_shards"), "--pretrained",
                                  (logs_.path() / "trained").string(), "--batch-size", "4", "--device", "cuda",
                                  "--cuda-graphs", graphs, "--output", folder.string()});
    ASSERT_EQ(embedded.exit_code, 0) << embedded.err;
    EXPECT_EQ(embedded.err.find("cannot be recorded"), std::string::npos) << embedded.err;
    for (const auto& file : fs::directory_iterator(folder))
      if (file.path().extension() == ".safetensors")
        embeddings[graphs][file.path().filename().string()] = core::read_file(file.path());
  }
  EXPECT_EQ(embeddings["off"].size(), 4u);
  EXPECT_TRUE(embeddings["auto"] == embeddings["off"]);
}

/// Evaluations and checkpoints come in between.
TEST_F(CudaGraphs, StepsOfTrainingAreThoseOfPlainOnesBitForBit) {
  for (const std::string precision : {"fp32", "amp_bf16", "amp", "bf16"})
    expect_same_training("clip-" + precision, [&](const std::string& name) {
      return on_any_device(train_args(name, {"--precision", precision, "--deterministic", "--val-data",
                                             shapes("val_shards"), "--save-every-n-steps", "5"}));
    });
  expect_same_training("clip-accumulating", [&](const std::string& name) {
    return on_any_device(
        train_args(name, {"--batch-size", "4", "--accum-freq", "2", "--precision", "amp_bf16", "--deterministic"}));
  });
  const std::vector<std::vector<std::string>> layouts = {
      {},
      {"--bf16"},
      {"--bf16", "--accumulate-allreduce-grads-in-fp32"},
      {"--bf16", "--fp8-format", "hybrid"},
      {"--bf16", "--recompute-granularity", "selective", "--swiglu", "--position-embedding-type", "rope"}};
  for (size_t i = 0; i < layouts.size(); ++i)
    expect_same_training("gpt-" + std::to_string(i), [&](const std::string& name) {
      auto args = gpt_args(name, {"--hidden-dropout", "0", "--train-iters", "10", "--deterministic"});
      args.insert(args.end(), layouts[i].begin(), layouts[i].end());
      return args;
    });
  expect_same_training("imagenet", [&](const std::string& name) {
    return imagenet_args(name, {"--val-data", labelled_shapes(), "--epochs", "2", "--max-steps", "14", "--precision",
                                "amp_bf16", "--deterministic"});
  });
}

TEST_F(CudaGraphs, ResumingAmongThemIsBitForBit) {
  const auto args = [&](const std::string& name, const std::vector<std::string>& more) {
    auto words = gpt_args(name, {"--bf16", "--hidden-dropout", "0", "--train-iters", "12", "--deterministic"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(on_gpu(args("whole", {})).exit_code, 0);
  ASSERT_EQ(on_gpu(args("parts", {"--exit-interval", "6"})).exit_code, 0);
  const auto resumed = on_gpu(args("parts", {"--resume", "latest"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(losses("whole"), losses("parts"));
  expect_same_files("parts", "whole");
}

TEST_F(CudaGraphs, StepsThatDrawOrPackAreNotRecorded) {
  expect_plain_training("drawing", "dropout",
                        [&](const std::string& name) { return gpt_args(name, {"--deterministic"}); });
  // Draws come behind the first layers of 8 bits, which have rounded their weights by then.
  expect_plain_training("drawing-late", "dropout", [&](const std::string& name) {
    return gpt_args(name, {"--bf16", "--fp8-format", "hybrid", "--hidden-dropout", "0", "--attention-dropout", "0.1",
                           "--train-iters", "8", "--deterministic"});
  });
  expect_plain_training("packing", "packed by the host",
                        [&](const std::string& name) { return clap_args(name, {"--deterministic"}); });
  expect_plain_training("patches", "patch dropout", [&](const std::string& name) {
    return on_any_device(train_args(name, {"--force-patch-dropout", "0.5", "--deterministic"}));
  });
}

/// Recordings of one recorder share their memory: each reads and writes its own numbers where they take turns.
TEST_F(CudaGraphs, RecordingsOfTwoFormsTakeTurns) {
  const auto recorder = nn::make_work_recorder("auto", gpu());
  ASSERT_TRUE(recorder);
  at::Tensor first = numbers({96, 128}, 1).requires_grad_(true), last = numbers({128, 8}, 2).requires_grad_(true);
  struct Numbers {
    at::Tensor loss;
    std::vector<at::Tensor> gradients = {};
  };
  const auto compute = [&](const at::Tensor& x, const nn::WorkRecorder::EndPart& end_part) {
    Numbers out{.loss = at::relu(x.matmul(first)).matmul(last).pow(2).mean()};
    end_part();
    out.gradients = torch::autograd::grad({out.loss}, {first, last});
    end_part();
    return out;
  };
  struct Form {
    at::Tensor x;
    Numbers out;
    std::unique_ptr<nn::RecordedWork> work;
  };
  std::vector<Form> forms;
  for (const int64_t rows : {40, 300, 41}) {
    Form& form = forms.emplace_back();
    form.x = numbers({rows, 96}, 3);
    recorder->rehearse([&] { compute(form.x, [] {}); });
    form.work = recorder->record([&](const auto& end_part) { form.out = compute(form.x, end_part); });
    ASSERT_EQ(form.work->num_parts(), 2u);
  }
  for (uint64_t round = 0; round < 30; ++round) {
    Form& form = forms[round * round % forms.size()];
    const at::Tensor x = numbers(form.x.sizes().vec(), 10 + round);
    form.x.copy_(x);
    for (size_t part = 0; part < 2; ++part) form.work->replay(part);
    const Numbers want = compute(x, [] {});
    EXPECT_TRUE(form.out.loss.equal(want.loss)) << round;
    for (size_t i = 0; i < want.gradients.size(); ++i)
      EXPECT_TRUE(form.out.gradients[i].equal(want.gradients[i])) << round << ", gradient " << i;
  }
  EXPECT_ANY_THROW(recorder->record([&](const auto& end_part) {
    compute(forms[0].x, end_part);
    forms[0].x.add_(1);
  })) << "work behind the last part would be lost";
}

}  // namespace
}  // namespace lockstep::tests
