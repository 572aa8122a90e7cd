// A CoCa model from its first step to captions of pictures; the lists of models and of weights.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "commands/train_fixture.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {

constexpr const char* kTinyCoca = R"({"embed_dim": 32, "custom_text": true,
  "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8,
                 "attentional_pool": true, "attn_pooler_queries": 4, "attn_pooler_heads": 2},
  "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1, "embed_cls": true},
  "multimodal_cfg": {"context_length": 24, "width": 32, "heads": 2, "layers": 1}})";

/// Its decoder can say 16 of the 64 tokens.
constexpr const char* kTinyRobertaCoca = R"({"embed_dim": 32, "custom_text": true,
  "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
  "text_cfg": {"context_length": 24, "vocab_size": 16, "hf_model_name": "roberta-base", "hf_proj_type": "linear",
               "hf_config": {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                             "intermediate_size": 64, "max_position_embeddings": 32}},
  "multimodal_cfg": {"context_length": 24, "width": 32, "heads": 2, "layers": 1}})";

class TrainCaption : public TrainFixture {
 protected:
  void SetUp() override {
    TrainFixture::SetUp();
    std::ofstream(logs_.path() / "coca.json") << kTinyCoca;
  }
  /// A run of the captioning model.
  ProgramResult train_coca(int ranks, const std::string& name, std::vector<std::string> more = {}) const {
    auto args = train_args(name, std::move(more));
    *(std::find(args.begin(), args.end(), "--model") + 1) = (logs_.path() / "coca.json").string();
    *(std::find(args.begin(), args.end(), "--batch-size")) = "--global-batch-size";
    if (ranks > 1) args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    return run_lockstep(args);
  }
  ProgramResult caption(const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"infer",        "caption",
                                     "--pretrained", (logs_.path() / run).string(),
                                     "--images",     shapes("heldout"),
                                     "--device",     "cpu",
                                     "--max-tokens", "10"};
    args.insert(args.end(), more.begin(), more.end());
    return run_lockstep(args);
  }
};

TEST_F(TrainCaption, TwoRanksTrainAsOneAndPicturesAreDescribed) {
  const auto one = train_coca(1, "one"), two = train_coca(2, "two");
  ASSERT_EQ(one.exit_code, 0) << one.err;
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_NE(one.err.find("Caption_loss:"), std::string::npos) << one.err;
  const std::vector<double> alone = losses("one"), together = losses("two");
  ASSERT_EQ(alone.size(), 24u);
  ASSERT_EQ(together.size(), alone.size());
  for (size_t step = 0; step < alone.size(); ++step)
    EXPECT_NEAR(together[step], alone[step], 1e-4 * alone[step]) << step;
  EXPECT_LT(alone.back(), 0.9 * alone.front()) << "nothing was learnt";
  // Of the same weights: padding, which training leaves out, is told apart by rounding alone.
  const auto generative_loss = [&](int ranks) {
    const std::string name = fmt::format("evaluated{}", ranks);
    auto args = train_args(name, {"--val-data", shapes("val_shards"), "--resume", newest_checkpoint("one").string()});
    const auto data = std::find(args.begin(), args.end(), "--train-data");
    args.erase(data, data + 2);
    *(std::find(args.begin(), args.end(), "--model") + 1) = (logs_.path() / "coca.json").string();
    args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    const auto evaluated = run_lockstep(args);
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
    const auto lines = record::read_json_lines(logs_.path() / name / "results.jsonl").lines;
    EXPECT_FALSE(lines.empty());
    return lines.empty() ? 0.0 : lines.back().at("metrics").at("val_generative_loss").get<double>();
  };
  const double evaluated = generative_loss(1);
  EXPECT_GT(evaluated, 0.0);
  EXPECT_LT(evaluated, std::log(49408.0)) << "of a guess";
  EXPECT_NEAR(generative_loss(2), evaluated, 1e-4);

  const auto by_beams = caption("one"), again = caption("one"), greedy = caption("one", {"--search", "greedy"});
  // Without --max-tokens the caption is as long as the model can make it: 24 tokens, where most have 30.
  const auto unlimited = run_lockstep({"infer", "caption", "--pretrained", (logs_.path() / "one").string(), "--images",
                                       shapes("heldout"), "--device", "cpu"});
  EXPECT_EQ(unlimited.exit_code, 0) << unlimited.err;
  ASSERT_EQ(by_beams.exit_code, 0) << by_beams.err;
  ASSERT_EQ(greedy.exit_code, 0) << greedy.err;
  EXPECT_EQ(by_beams.out, again.out);
  const auto lines = core::split(std::string(core::trim(by_beams.out)), "\n");
  EXPECT_EQ(lines.size(), 48u);
  const core::Json first = core::parse_json(lines.front(), "caption");
  EXPECT_TRUE(fs::exists(fs::path(shapes("heldout")) / first.at("file").get<std::string>()));
  EXPECT_TRUE(first.at("caption").is_string());
  const auto drawn = [&](const char* seed) {
    return caption("one", {"--search", "top-k", "--top-k", "500", "--seed", seed}).out;
  };
  EXPECT_EQ(drawn("1"), drawn("1"));
  EXPECT_NE(drawn("1"), drawn("2"));
}

TEST_F(TrainCaption, OthersAreRefused) {
  ASSERT_EQ(train("plain", {"--max-steps", "1"}).exit_code, 0);
  const auto plain = caption("plain");
  EXPECT_EQ(plain.exit_code, 2) << plain.err;
  EXPECT_NE(plain.err.find("makes no captions"), std::string::npos) << plain.err;
  const auto twice = caption("plain", {"--search", "greedy", "--num-beams", "4"});
  EXPECT_EQ(twice.exit_code, 2) << twice.err;
  EXPECT_NE(twice.err.find("--num-beams belongs to --search beam"), std::string::npos) << twice.err;
  const auto sigmoid = train_coca(1, "sigmoid", {"--siglip"});
  EXPECT_EQ(sigmoid.exit_code, 2) << sigmoid.err;
  EXPECT_NE(sigmoid.err.find("makes captions"), std::string::npos) << sigmoid.err;
}

/// As coca_roberta-ViT-B-32.
TEST_F(TrainCaption, BesideRobertaTokensThatTheDecoderCannotSayAreNotCounted) {
  const fs::path model = logs_.path() / "roberta.json";
  std::ofstream(model) << kTinyRobertaCoca;
  const auto done = run_lockstep({"train",
                                  "clip",
                                  "--dataset-type",
                                  "synthetic",
                                  "--train-num-samples",
                                  "64",
                                  "--model",
                                  model,
                                  "--name",
                                  "roberta",
                                  "--logs",
                                  logs_.path(),
                                  "--device",
                                  "cpu",
                                  "--precision",
                                  "fp32",
                                  "--batch-size",
                                  "8",
                                  "--max-steps",
                                  "8",
                                  "--log-every-n-steps",
                                  "1",
                                  "--lr",
                                  "1e-2",
                                  "--warmup",
                                  "1"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.err.find("knows 16 of the 64 tokens"), std::string::npos) << done.err;
  const auto loss = losses("roberta");
  ASSERT_EQ(loss.size(), 8u);
  EXPECT_LT(loss.back(), 0.9 * loss.front());
  const auto refused = caption("roberta");
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("learns to copy a caption"), std::string::npos) << refused.err;
}

TEST(ListModels, NamesEachConfigurationOnce) {
  const auto listed = run_lockstep({"train", "clip", "--list-models"});
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  for (const char* row :
       {"| ViT-B-32 | 151.3 | 14.8 |", "| coca_ViT-L-14 |", "| MobileCLIP-S1 |", "| mt5-xl-ViT-H-14 |"})
    EXPECT_NE(listed.out.find(row), std::string::npos) << row;
}

/// One tag's weights lie in a cache; the others do not.
TEST(ListPretrained, NamesTheTagsAndWhichAreHere) {
  const core::TempDir cache;
  const auto snapshot = cache.path() / "models--laion--CLIP-ViT-B-32-laion2B-s34B-b79K" / "snapshots" / "main";
  std::filesystem::create_directories(snapshot);
  std::ofstream(snapshot / "open_clip_model.safetensors") << "weights";
  const auto listed = run_lockstep({"train", "clip", "--list-pretrained"}, {{"HF_HUB_CACHE", cache.path().string()},
                                                                            {"XDG_CACHE_HOME", cache.path().string()}});
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  std::map<std::string, std::string> here;  // by "model tag"
  for (const std::string& line : core::split(listed.out, "\n")) {
    EXPECT_LE(line.size(), 80u) << line;
    std::istringstream words(line);
    std::string model, tag, is_here;
    if (words >> model >> tag >> is_here) here[model + " " + tag] = is_here;
  }
  EXPECT_EQ(here["ViT-B-32 laion2b_s34b_b79k"], "yes");
  EXPECT_EQ(here["ViT-B-32 openai"], "-");
  EXPECT_EQ(here["coca_ViT-L-14 laion2b_s13b_b90k"], "-");
  EXPECT_NE(listed.out.find("1 of "), std::string::npos) << listed.out;
}

}  // namespace
}  // namespace lockstep::tests
