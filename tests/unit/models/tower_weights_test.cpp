#include "models/tower_weights.h"

#include <gtest/gtest.h>

#include <set>

#include "clap_golden.h"
#include "support/clip_golden.h"
#include "support/drawn_weights.h"
#include "support/error_text.h"

namespace lockstep::models {
namespace {

using config::Tower;

/// The values of a module before something is loaded into it.
NamedValues copies_of(nn::Module& module) {
  NamedValues out;
  for (const auto& [name, value] : named_values(module)) out.emplace_back(name, value.detach().clone());
  return out;
}

/// Entries of a module whose names begin with `ours`, with `theirs` in its place, drawn anew.
WeightFile drawn_tower(nn::Module& module, const std::string& ours, const std::string& theirs) {
  WeightFile file{.path = "tower", .tensors = {}, .ignored = {}, .epoch = {}};
  for (const auto& [name, value] : named_values(module))
    if (name.starts_with(ours))
      file.tensors.emplace_back(theirs + name.substr(ours.size()),
                                value.is_floating_point() ? tests::drawn("other." + name, value.sizes()) : value);
  return file;
}

/// What begins with `tower` and is not in `kept` has the file's values; everything else what it had.
void expect_loaded(nn::Module& module, const NamedValues& before, const WeightFile& file, const std::string& ours,
                   const std::string& theirs, const std::vector<std::string>& kept) {
  const std::map<std::string, at::Tensor> in_file(file.tensors.begin(), file.tensors.end());
  const NamedValues values = named_values(module);
  const std::map<std::string, at::Tensor> now(values.begin(), values.end());
  size_t num_loaded = 0;
  for (const auto& [name, old] : before) {
    const bool is_kept = !name.starts_with(ours) || std::find(kept.begin(), kept.end(), name) != kept.end();
    const at::Tensor want = is_kept ? old : in_file.at(theirs + name.substr(ours.size()));
    EXPECT_TRUE(now.at(name).equal(want)) << name;
    num_loaded += is_kept ? 0 : 1;
  }
  EXPECT_GT(num_loaded, 5u);
}

struct Clip {
  explicit Clip(const std::string& golden)
      : shape{tests::golden_shape(golden)},
        model(tests::golden_model(golden, tests::load_golden(tests::file_of(golden)))), before(copies_of(*model)) {}
  config::ContrastiveShape shape;
  std::unique_ptr<ClipModel> model;
  NamedValues before;
};

TEST(TowerWeights, AnEncoderOfHuggingFaceWithoutItsHead) {
  for (const char* prefix : {"roberta.", "", "text_branch.", "text.transformer."}) {
    SCOPED_TRACE(prefix);
    Clip clip("roberta");
    WeightFile file = drawn_tower(*clip.model, "text.transformer.", prefix);
    std::erase_if(file.tensors, [](const auto& entry) { return entry.first.find("pooler.") != std::string::npos; });
    file.tensors.emplace_back("lm_head.dense.weight", at::ones({3, 3}));
    const auto kept = load_tower_weights(*clip.model, clip.shape, Tower::kText, file);
    for (const std::string& name : kept) EXPECT_TRUE(name.starts_with("text.transformer.pooler.")) << name;
    expect_loaded(*clip.model, clip.before, file, "text.transformer.", prefix, kept);
  }
}

/// Files of encoder-decoders hold the decoder, too, and the table of tokens that both share under its own name.
TEST(TowerWeights, TheEncoderOfAPair) {
  for (const auto& [golden, prefix] :
       {std::pair{"mt5", "encoder."}, {"nllb", "model.encoder."}, {"nllb", "text.transformer."}}) {
    SCOPED_TRACE(prefix);
    Clip clip(golden);
    const WeightFile whole = drawn_tower(*clip.model, "text.transformer.", prefix);
    WeightFile file = whole;
    file.tensors.emplace_back("decoder.block.0.layer.0.SelfAttention.q.weight", at::ones({3, 3}));
    file.tensors.emplace_back("lm_head.weight", at::ones({64, 16}));
    file.tensors.emplace_back(std::string(prefix) + "embed_positions.weights", at::ones({14, 16}));
    const std::string table = std::string(prefix) + "embed_tokens.weight";
    for (auto& [name, value] : file.tensors)
      if (name == table && !std::string(prefix).starts_with("text."))
        name = std::string(prefix).starts_with("model.") ? "model.shared.weight" : "shared.weight";
    EXPECT_TRUE(load_tower_weights(*clip.model, clip.shape, Tower::kText, file).empty());
    expect_loaded(*clip.model, clip.before, whole, "text.transformer.", prefix, {});
  }
}

TEST(TowerWeights, APoolerIsTakenWhereTheFileHasOne) {
  const config::ClapShape shape = golden_clap_shape("clap_full");
  const auto model = golden_clap_model(shape, tests::load_golden("clap/clap_full.safetensors"));
  const NamedValues before = copies_of(*model);
  const WeightFile file = drawn_tower(*model, "text_branch.", "roberta.");
  EXPECT_TRUE(load_tower_weights(*model, {shape}, Tower::kText, file).empty());
  expect_loaded(*model, before, file, "text_branch.", "roberta.", {});
}

TEST(TowerWeights, AnHtsatWithItsTablesAndFrontEnd) {
  const config::ClapShape shape = golden_clap_shape("clap_full");
  const auto model = golden_clap_model(shape, tests::load_golden("clap/clap_full.safetensors"));
  const NamedValues before = copies_of(*model);
  WeightFile file = drawn_tower(*model, "audio_branch.", "sed_model.");
  std::erase_if(file.tensors, [](const auto& entry) { return entry.first.find("tscam_conv") != std::string::npos; });
  const WeightFile without_tables = file;
  for (const auto& [name, value] : clap_values(*model, ClapNaming::kLaion))
    if (name.starts_with("audio_branch.") &&
        (name.ends_with("relative_position_index") || name.ends_with("attn_mask") || name.ends_with("melW")))
      file.tensors.emplace_back("sed_model." + name.substr(std::string("audio_branch.").size()), value);
  ASSERT_GT(file.tensors.size(), without_tables.tensors.size());
  const auto kept = load_tower_weights(*model, {shape}, Tower::kAudio, file);
  for (const std::string& name : kept) EXPECT_TRUE(name.starts_with("audio_branch.tscam_conv.")) << name;
  expect_loaded(*model, before, file, "audio_branch.", "sed_model.", kept);
  file.tensors.back().second = file.tensors.back().second + 1;
  EXPECT_NE(tests::message_of([&] {
              load_tower_weights(*model, {shape}, Tower::kAudio, file);
            }).find("is not what this model's shape gives"),
            std::string::npos);
}

TEST(TowerWeights, ATowerOfTimmWithoutItsClassifier) {
  for (const char* golden : {"convnext", "swin", "eva02", "siglip", "eva", "timm_relative", "timm_stem", "fastvit"}) {
    SCOPED_TRACE(golden);
    Clip clip(golden);
    WeightFile file = drawn_tower(*clip.model, "visual.trunk.", "");
    std::erase_if(file.tensors, [](const auto& entry) {
      const std::set<std::string> own_heads{"head.weight", "head.bias", "head.fc.weight", "head.fc.bias"};
      return own_heads.contains(entry.first);
    });
    file.tensors.emplace_back("head.weight", at::ones({1000, 7}));  // classes of another data set
    file.tensors.emplace_back("head.fc.weight", at::ones({1000, 7}));
    const auto kept = load_tower_weights(*clip.model, clip.shape, Tower::kImage, file);
    const std::set<std::string> without_own_head{"convnext", "swin", "siglip", "timm_relative"};
    EXPECT_EQ(kept.empty(), without_own_head.contains(golden));
    expect_loaded(*clip.model, clip.before, file, "visual.trunk.", "", kept);
  }
}

TEST(TowerWeights, OfAnotherModelNothingIsTaken) {
  Clip clip("roberta");
  WeightFile file = drawn_tower(*clip.model, "text.transformer.", "roberta.");
  const std::string lost = file.tensors.back().first;
  file.tensors.pop_back();
  file.tensors.front().second = at::ones({2, 2});
  file.tensors.emplace_back("roberta.encoder.layer.99.output.dense.bias", at::ones({4}));
  const std::string said = tests::message_of([&] { load_tower_weights(*clip.model, clip.shape, Tower::kText, file); });
  for (const char* part : {"weights 'tower' do not fit", "unexpected 1: text.transformer.encoder.layer.99",
                           "embeddings.word_embeddings.weight (file [2, 2]"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " in: " << said << " without " << lost;
  const NamedValues now = named_values(*clip.model);
  ASSERT_EQ(now.size(), clip.before.size());
  for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(now[i].second.equal(clip.before[i].second)) << now[i].first;
}

}  // namespace
}  // namespace lockstep::models
