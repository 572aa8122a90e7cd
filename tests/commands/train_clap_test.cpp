// `lockstep train clap` on synthesised sounds: it learns, resumes bit for bit, evaluates, and refuses or counts what is
// damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "checkpoint/manifest.h"
#include "checkpoint/ranking.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "record/reader.h"
#include "unit/data/tar_bytes.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

const std::string kModel = std::string(LOCKSTEP_SOURCE_DIR) + "/examples/sounds/model.json";

class TrainClap : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new core::TempDir("lockstep_clap");
    const auto made = run_lockstep({"data", "make-sounds", (shared_->path() / "sounds").string(), "--samples", "960",
                                    "--val-samples", "96", "--samples-per-shard", "120", "--json"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    sounds_ = new core::Json(core::parse_json(made.out, "make-sounds"));
  }
  static void TearDownTestSuite() {
    delete sounds_;
    delete shared_;
  }
  static std::string sounds(const std::string& key) { return sounds_->at(key); }

  std::vector<std::string> train_args(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"train",
                                     "clap",
                                     "--model",
                                     kModel,
                                     "--train-data",
                                     sounds("train_shards"),
                                     "--tokenizer-vocab",
                                     sounds("tokenizer"),
                                     "--workers",
                                     "1",
                                     "--threads",
                                     "1",
                                     "--precision",
                                     "fp32",
                                     "--device",
                                     "cpu",
                                     "--log-every-n-steps",
                                     "1",
                                     "--local-loss",
                                     "--gather-with-grad",
                                     "--logs",
                                     logs_.path().string(),
                                     "--name",
                                     name};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  ProgramResult train_on(int ranks, const std::string& name, const std::vector<std::string>& more) const {
    auto args = train_args(name, more);
    if (ranks > 1) args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    return run_lockstep(args);
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (const auto& step : record::read_steps(logs_.path() / name).steps) values.push_back(step.loss);
    return values;
  }
  core::Json last_metrics(const std::string& name) const {
    const auto lines = record::read_json_lines(logs_.path() / name / "results.jsonl").lines;
    return lines.empty() ? core::Json::object() : lines.back().at("metrics");
  }
  fs::path newest_checkpoint(const std::string& name) const {
    const auto entries = checkpoint::list_checkpoints(logs_.path() / name);
    return entries.empty() ? fs::path() : entries.front().folder;
  }
  static std::string wav(int64_t frames, double value) {  // 16 kHz, mono, 16 bits
    std::string bytes = "RIFF....WAVEfmt ";
    const auto put = [&](uint64_t number, int size) {
      for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(number >> (8 * i) & 255));
    };
    put(16, 4), put(1, 2), put(1, 2), put(16000, 4), put(32000, 4), put(2, 2), put(16, 2);
    bytes += "data";
    put(static_cast<uint64_t>(2 * frames), 4);
    for (int64_t i = 0; i < frames; ++i)
      put(static_cast<uint16_t>(static_cast<int16_t>(32767 * value * std::sin(0.3 * static_cast<double>(i)))), 2);
    const auto size = static_cast<uint32_t>(bytes.size() - 8);
    for (int i = 0; i < 4; ++i) bytes[4 + static_cast<size_t>(i)] = static_cast<char>(size >> (8 * i) & 255);
    return bytes;
  }

  core::TempDir logs_{"lockstep_clap_logs"};
  inline static core::TempDir* shared_ = nullptr;
  inline static core::Json* sounds_ = nullptr;
};

/// Whether two files hold the same bytes under a name.
bool is_same_in(const core::SafetensorsFile& one, const core::SafetensorsFile& other, const std::string& name) {
  return std::ranges::equal(one.at(name).bytes, other.at(name).bytes);
}

TEST_F(TrainClap, PretrainedTowersHaveALearningRateOfTheirOwn) {
  ASSERT_EQ(train_on(1, "base", {"--batch-size", "24", "--max-steps", "1"}).exit_code, 0);
  const std::string weights = (newest_checkpoint("base") / "model.safetensors").string();
  const auto run = [&](const std::string& name, int steps, const std::vector<std::string>& more) {
    std::vector<std::string> flags = {
        "--pretrained-text", weights, "--batch-size", "24", "--lr",        "1e-3",
        "--warmup",          "0",     "--seed",       "5",  "--max-steps", std::to_string(steps)};
    flags.insert(flags.end(), more.begin(), more.end());
    const auto done = train_on(2, name, flags);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  };
  run("still", 3, {"--split-opt", "--lr-pretrained", "0"});
  const core::SafetensorsFile before(weights), after(newest_checkpoint("still") / "model.safetensors");
  int64_t num_kept = 0, num_new = 0;
  for (const auto& entry : before.entries()) {
    if (entry.name.starts_with("text_branch.")) {
      EXPECT_TRUE(is_same_in(before, after, entry.name)) << entry.name;
      ++num_kept;
    } else if (entry.name == "text_projection.weight" || entry.name == "audio_branch.bn0.weight") {
      EXPECT_FALSE(is_same_in(before, after, entry.name)) << entry.name;
      ++num_new;
    }
  }
  EXPECT_GT(num_kept, 10);
  EXPECT_EQ(num_new, 2);

  const std::vector<std::string> slow = {"--split-opt", "--lr-pretrained", "1e-4", "--wd-pretrained", "0"};
  run("alike", 4, {});
  run("same", 4, {"--split-opt"});
  EXPECT_EQ(losses("same"), losses("alike")) << "without numbers of its own the split changes nothing";
  run("slow", 4, slow);
  EXPECT_NE(losses("slow").back(), losses("alike").back());
  std::vector<std::string> parts = slow;
  parts.insert(parts.end(), {"--grad-sync", "zero1"});
  run("parts", 2, parts);
  parts.insert(parts.end(), {"--resume", "latest"});
  run("parts", 4, parts);
  const auto want = losses("slow"), got = losses("parts");
  ASSERT_EQ(got.size(), 4u);
  for (size_t step = 0; step < 4; ++step) EXPECT_NEAR(got[step], want[step], 1e-5 * want[0]) << "step " << step;
}

TEST_F(TrainClap, TheBestEpochIsKept) {
  const auto done =
      train_on(1, "best",
               {"--batch-size", "48", "--train-num-samples", "96", "--epochs", "3", "--lr", "0", "--val-data",
                sounds("val_shards"), "--save-frequency", "0", "--save-top-performance", "1",
                "--top-k-checkpoint-select-dataset", "all", "--top-k-checkpoint-select-metric", "mAP@10"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto ranking = checkpoint::read_ranking(logs_.path() / "best");
  ASSERT_GE(ranking.entries.size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(logs_.path() / "best" / "checkpoints" / ranking.entries[0].name /
                                      checkpoint::kManifestName));
  EXPECT_EQ(ranking.metrics, (std::vector<std::string>{"audio_to_text_mAP@10", "text_to_audio_mAP@10"}));
  std::vector<int64_t> steps;
  for (const auto& entry : checkpoint::list_checkpoints(logs_.path() / "best")) steps.push_back(entry.step);
  EXPECT_EQ(steps.front(), 6);
  EXPECT_LE(steps.size(), 2u) << "the best and the last";
}

TEST_F(TrainClap, TwoRanksLearnWhatSoundsAreCalled) {
  const auto done = train_on(2, "learn",
                             {"--batch-size",
                              "48",
                              "--epochs",
                              "11",
                              "--lr",
                              "1e-3",
                              "--wd",
                              "0.1",
                              "--warmup",
                              "10",
                              "--grad-clip-norm",
                              "1",
                              "--use-bn-sync",
                              "--precision",
                              "fp32",
                              "--val-data",
                              sounds("val_shards"),
                              "--val-frequency",
                              "11",
                              "--zeroshot-data",
                              sounds("heldout"),
                              "--classnames",
                              sounds("class_names"),
                              "--templates",
                              sounds("templates"),
                              "--zeroshot-frequency",
                              "11",
                              "--seed",
                              "7"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const core::Json metrics = last_metrics("learn");
  const double num = metrics.at("num_samples");
  EXPECT_EQ(num, 96);
  for (const char* name : {"audio_to_text_R@1", "text_to_audio_R@1"})
    EXPECT_GT(metrics.at(name).get<double>(), 8 / num) << metrics.dump(1);
  for (const char* name : {"audio_to_text_mAP@10", "text_to_audio_mAP@10"})
    EXPECT_GT(metrics.at(name).get<double>(), 0.2) << metrics.dump(1);
  EXPECT_GT(metrics.at("zeroshot-top1").get<double>(), 0.25) << "of 24 classes: " << metrics.dump(1);
  EXPECT_LT(metrics.at("clap_val_loss").get<double>(), std::log(48.0));
  const core::Json attempt = record::read_run(logs_.path() / "learn").attempts.back();
  EXPECT_EQ(attempt.at("task"), "clap");
  EXPECT_EQ(attempt.at("world_size"), 2);
  EXPECT_GT(attempt.at("model").at("audio_forward_flops").get<double>(), 0);
}

TEST_F(TrainClap, ResumesInMidEpochBitForBit) {
  // The demo's model with all that draws at random: dropout, dropped branches, blanked stripes.
  core::Json config = core::parse_json(core::read_file(kModel), kModel);
  config["audio_cfg"]["htsat_config"]["drop_path_rate"] = 0.3;
  config["audio_cfg"]["htsat_config"]["spec_augment"] = true;
  for (const char* dropout : {"hidden_dropout_prob", "attention_probs_dropout_prob"})
    config["text_cfg"]["hf_model_config"][dropout] = 0.1;
  const std::string random_model = (logs_.path() / "random.json").string();
  std::ofstream(random_model) << config.dump();
  for (const int ranks : {1, 2}) {
    const auto run = [&](const std::string& name, const char* max_steps, std::vector<std::string> more) {
      more.insert(more.end(), {"--model", random_model, "--precision", ranks == 1 ? "fp32" : "amp_bf16"});
      more.insert(more.end(), {"--batch-size", "16", "--epochs", "1", "--warmup", "2", "--max-steps", max_steps});
      const auto done = train_on(ranks, name + std::to_string(ranks), more);
      ASSERT_EQ(done.exit_code, 0) << done.err;
    };
    run("whole", "7", {});
    run("parts", "3", {});
    run("parts", "7", {"--resume", "latest"});
    const std::string whole = "whole" + std::to_string(ranks), parts = "parts" + std::to_string(ranks);
    ASSERT_EQ(losses(whole).size(), 7u);
    EXPECT_NE(losses(whole).front(), losses(whole).back());
    EXPECT_EQ(losses(whole), losses(parts));
    const auto a = checkpoint::read_manifest(newest_checkpoint(whole)),
               b = checkpoint::read_manifest(newest_checkpoint(parts));
    EXPECT_EQ(a.world_size, ranks);
    ASSERT_EQ(a.files.size(), b.files.size());
    for (size_t i = 0; i < a.files.size(); ++i) EXPECT_EQ(a.files[i].xxh3, b.files[i].xxh3) << a.files[i].name;
  }
}

TEST_F(TrainClap, WeightsGoOutUnderThreeNamesAndEmbedAlike) {
  const auto refused = run_lockstep({"ckpt", "convert", "x.safetensors", "y.safetensors", "--names", "laion"});
  EXPECT_EQ(refused.exit_code, 2);
  // LAION's and Hugging Face's programs know the class pooler and two layers with bias only.
  core::Json config = core::parse_json(core::read_file(kModel), kModel);
  config["audio_cfg"]["proj_act"] = "relu";
  config["text_cfg"]["hf_pooler_type"] = "cls_pooler";
  config["text_cfg"]["hf_proj_type"] = "clap_mlp";
  const std::string model = (logs_.path() / "plain.json").string();
  std::ofstream(model) << config.dump();
  ASSERT_EQ(
      train_on(1, "small", {"--batch-size", "16", "--max-steps", "2", "--epochs", "1", "--model", model}).exit_code, 0);
  ASSERT_EQ(train_on(1, "demo", {"--batch-size", "16", "--max-steps", "1", "--epochs", "1"}).exit_code, 0);
  const auto unfit = run_lockstep(
      {"ckpt", "export", (logs_.path() / "demo").string(), "z.safetensors", "--names", "laion", "--model", kModel});
  EXPECT_EQ(unfit.exit_code, 2);
  for (const char* text : {"its text pooler is not cls_pooler", "its text projection is not two layers with bias",
                           "were trained with \"hf_pooler_type\": \"cls_pooler\" and \"hf_proj_type\": \"clap_mlp\""})
    EXPECT_NE(unfit.err.find(text), std::string::npos) << text << " in: " << unfit.err;
  const fs::path run = logs_.path() / "small", folder = logs_.path() / "files";
  fs::create_directories(folder);
  std::ofstream(folder / "texts.txt") << "a low tone\nthe sound of a high chord\n";
  std::string first;
  for (const std::string names : {"laion", "openclip", "huggingface"}) {
    const std::string file = (folder / (names + ".safetensors")).string(),
                      out = (folder / (names + "-embedded.safetensors")).string();
    const auto written = run_lockstep({"ckpt", "export", run.string(), file, "--names", names, "--model", model});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    const auto embedded =
        run_lockstep({"infer", "embed", "--model", model, "--pretrained", file, "--sounds", sounds("heldout"),
                      "--texts", (folder / "texts.txt").string(), "--tokenizer-vocab", sounds("tokenizer"), "--threads",
                      "1", "--device", "cpu", "-o", out});
    ASSERT_EQ(embedded.exit_code, 0) << embedded.err;
    EXPECT_NE(embedded.err.find("audio: 96 embeddings of width 64"), std::string::npos) << embedded.err;
    const std::string bytes = core::read_file(out);
    const std::string values = bytes.substr(bytes.size() - (96 + 2) * 64 * 4);  // behind a head that names the file
    if (first.empty()) first = values;
    EXPECT_TRUE(values == first) << names;
  }
  const auto classified = run_lockstep({"infer", "classify", "--model", model, "--pretrained", run.string(), "--sounds",
                                        sounds("heldout"), "--classnames", sounds("class_names"), "--tokenizer-vocab",
                                        sounds("tokenizer"), "--threads", "1", "--device", "cpu"});
  ASSERT_EQ(classified.exit_code, 0) << classified.err;
  EXPECT_EQ(std::count(classified.out.begin(), classified.out.end(), '\n'), 96);
  const auto wrong =
      run_lockstep({"infer", "embed", "--model", model, "--pretrained", run.string(), "--images", "/", "-o", "x"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("CLAP models take --sounds DIR"), std::string::npos) << wrong.err;
}

TEST_F(TrainClap, DamagedSoundsStopTheRunOrAreCounted) {
  const fs::path folder = logs_.path() / "bad";
  fs::create_directories(folder);
  std::string nan = wav(8000, 0.5);
  nan[20] = 3, nan[34] = 32, nan[32] = 4, nan[28] = 0, nan[29] = '\xfa';  // says: floats
  for (size_t i = 44; i + 4 <= nan.size(); i += 4) nan.replace(i, 4, "\xff\xff\xff\x7f");
  const std::string whole = wav(16000, 0.5);
  const std::vector<std::pair<std::string, std::string>> recordings = {
      {"good", whole},        {"silent", wav(16000, 0)},      {"short", wav(1, 0.5)},
      {"empty", wav(0, 0.5)}, {"cut", whole.substr(0, 9000)}, {"nan", nan},
      {"text", "no sound"}};
  for (const auto& [name, bytes] : recordings) {
    std::ofstream(folder / (name + ".wav"), std::ios::binary) << bytes;
    std::ofstream(folder / (name + ".txt")) << "a tone";
  }
  // good, silent and short are sounds; the other four are not.
  ASSERT_EQ(run_program({"/bin/sh", "-c", "cd \"$0\" && tar -cf ../bad.tar $(ls | sort)", folder.string()}).exit_code,
            0);
  const std::string shard = (logs_.path() / "bad.tar").string();
  const std::vector<std::string> flags = {"--train-data", shard, "--batch-size",        "7", "--max-steps", "2",
                                          "--epochs",     "4",   "--train-num-samples", "7", "--shuffle",   "off"};
  const auto stopped = train_on(1, "stopped", flags);
  EXPECT_EQ(stopped.exit_code, 4) << stopped.err;
  EXPECT_NE(stopped.err.find("bad.tar"), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("key='"), std::string::npos) << stopped.err;
  auto skipping = flags;
  skipping.insert(skipping.end(), {"--on-bad-sample", "skip"});
  const auto skipped = train_on(1, "skipped", skipping);
  EXPECT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_NE(skipped.err.find("replaced 8 bad samples"), std::string::npos) << skipped.err;  // four in each of two steps
  for (const double loss : losses("skipped")) EXPECT_TRUE(std::isfinite(loss));
}

TEST_F(TrainClap, OtherCommandsReadTheShardsThatItReads) {
  ASSERT_EQ(train_on(1, "run", {"--batch-size", "24", "--max-steps", "1"}).exit_code, 0);
  const auto embed = [&](const std::string& output, std::vector<std::string> more) {
    std::vector<std::string> args = {"infer",        "embed",
                                     "--pretrained", (logs_.path() / "run").string(),
                                     "--shards",     sounds("val_shards"),
                                     "--output",     (logs_.path() / output).string(),
                                     "--device",     "cpu",
                                     "--workers",    "1",
                                     "--threads",    "1"};
    args.insert(args.end(), more.begin(), more.end());
    return run_lockstep(args);
  };
  const auto embedded = embed("embedded", {});
  EXPECT_EQ(embedded.exit_code, 0) << embedded.err;
  EXPECT_NE(embedded.err.find("1 of 1 shard, 96 samples"), std::string::npos) << embedded.err;
  const auto other = embed("other", {"--text-key", "txt"});
  EXPECT_EQ(other.exit_code, 4) << other.err;
  EXPECT_NE(other.err.find("name their members with --audio-ext and --text-key; a start with the same options"),
            std::string::npos)
      << other.err;
  const auto timed =
      run_lockstep({"bench", "loader", "--model", kModel, "--tokenizer-vocab", sounds("tokenizer"), "--train-data",
                    sounds("val_shards"), "--batch-size", "8", "--iters", "2", "--workers", "1"});
  EXPECT_EQ(timed.exit_code, 0) << timed.err;
}

TEST_F(TrainClap, ARunIsEvaluatedInItsPrecisionAndNotByNamesInAnotherOrder) {
  ASSERT_EQ(train_on(1, "run", {"--batch-size", "24", "--max-steps", "1"}).exit_code, 0);
  const auto evaluate = [&](const std::string& class_names) {
    return run_lockstep({"train", "clap", "--pretrained", (logs_.path() / "run").string(), "--zeroshot-data",
                         sounds("heldout"), "--classnames", class_names, "--device", "cpu", "--workers", "1",
                         "--threads", "1", "--logs", logs_.path().string()});
  };
  const auto right = evaluate(sounds("class_names"));
  EXPECT_EQ(right.exit_code, 0) << right.err;
  EXPECT_NE(right.err.find("-p_fp32"), std::string::npos) << "as the run was: " << right.err;
  auto names = core::split(std::string(core::trim(core::read_file(sounds("class_names")))), "\n");
  std::reverse(names.begin(), names.end());
  const fs::path reversed = logs_.path() / "reversed.txt";
  core::write_file_atomic(reversed, core::join(names, "\n"));
  const auto wrong = evaluate(reversed.string());
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
  EXPECT_NE(wrong.err.find("folder 1 of them is 'bell_strike', line 1 of the names is '" + names[0] + "'"),
            std::string::npos)
      << wrong.err;
}

TEST_F(TrainClap, SamplesThatItLeavesOutAreToldWithAnIndexOfBefore) {
  const std::string clip = wav(16000, 0.5);
  std::string shard;
  for (int i = 0; i < 6; ++i)
    shard += TarBytes::member(std::to_string(i) + (i < 2 ? ".mp3" : ".wav"), clip) +
             TarBytes::member(std::to_string(i) + ".txt", "a tone");
  const std::string path = write_file(logs_.path() / "mix.tar", shard + TarBytes::end());
  for (const char* name : {"first", "second"}) {
    const auto done = train_on(1, name, {"--train-data", path, "--batch-size", "2", "--max-steps", "1"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_NE(done.err.find("2 samples of '" + path + "' are left out"), std::string::npos) << done.err;
    EXPECT_NE(done.err.find("sample without audio (flac, wav, ogg); mp3 is not read: convert it to FLAC: 2"),
              std::string::npos)
        << done.err;
  }
}

TEST_F(TrainClap, WrongVocabularyAndMissingOnesAreRefused) {
  const auto none = run_lockstep({"train", "clap", "--model", kModel, "--train-data", sounds("train_shards")});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("--tokenizer-vocab is needed"), std::string::npos) << none.err;
  const auto nowhere = train_on(1, "nowhere", {"--tokenizer-vocab", "/nonexistent"});
  EXPECT_EQ(nowhere.exit_code, 2) << nowhere.err;
  const auto clip_model = run_lockstep(
      {"train", "clap", "--model", "ViT-B-32", "--dataset-type", "synthetic-audio", "--train-num-samples", "8"});
  EXPECT_EQ(clip_model.exit_code, 2);
  EXPECT_NE(clip_model.err.find("unknown model 'ViT-B-32'"), std::string::npos) << clip_model.err;
}

}  // namespace
}  // namespace lockstep::tests
