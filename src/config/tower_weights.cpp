#include "config/tower_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "config/hub_cache.h"
#include "config/hub_names.h"
#include "config/text_towers.h"
#include "config/weights_config.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kXlmVocabulary = "sentencepiece.bpe.model", kT5Vocabulary = "spiece.model";
constexpr std::string_view kNone = "none";

bool has_encoder(const ContrastiveShape& shape) { return shape.clip() == nullptr || shape.clip()->text.is_encoder(); }

/// Where the Hub has an encoder's weights, of its name as text_encoder_name() gives it.
std::string encoder_repository(const std::string& name) {
  return name.find('/') == std::string::npos ? roberta_repository(name) : name;
}

const std::string& model_name(const ContrastiveShape& shape) {
  return shape.clip() != nullptr ? shape.clip()->name : shape.clap()->name;
}

/// `named` itself where it is a file, the weights in it where it is a folder.
std::optional<fs::path> file_or_folder(const std::string& flag, const std::string& named) {
  std::error_code ignored;
  if (!fs::exists(named, ignored)) return std::nullopt;
  if (!fs::is_directory(named, ignored)) return named;
  if (const auto file = weights_in_folder(named)) return file;
  throw UsageError(
      fmt::format(
          "options: {} '{}' has no weights: neither {}", flag, named,
          core::join(std::vector<std::string>(kWeightNamesOfFolders.begin(), kWeightNamesOfFolders.end()), " nor ")),
      "name a folder that save_pretrained wrote, or a .safetensors or .bin file");
}

/// The first of `files` of "roberta-base", as the Hub calls it today and as older caches do.
std::optional<fs::path> encoder_in_caches(const std::string& name, std::span<const std::string_view> files) {
  const size_t slash = name.find('/');
  const std::string bare = slash == std::string::npos ? name : name.substr(slash + 1);
  std::vector<std::string> repositories = {name};
  RobertaShape sizes;
  if (set_roberta(sizes, bare)) repositories = {roberta_repository(bare), bare};
  for (const std::string& repository : repositories)
    if (const auto file = find_in_hub_caches(repository, files)) return file;
  return std::nullopt;
}

std::optional<fs::path> text_file(const TowerWeightNames& names, const ContrastiveShape& shape) {
  if (names.text == kNone) return std::nullopt;
  if (!names.text.empty() && !has_encoder(shape))
    throw UsageError(fmt::format("options: --pretrained-text '{}': the text tower of model '{}' is none of Hugging "
                                 "Face's encoders",
                                 names.text, model_name(shape)),
                     "drop it; --pretrained takes the weights of a whole model");
  if (!names.text.empty()) {
    if (const auto file = file_or_folder("--pretrained-text", names.text)) return file;
    const std::string_view hub = hub_repository(names.text);
    const std::string name = hub.empty() ? names.text : std::string(hub);
    if (const auto file = encoder_in_caches(name, kWeightNamesOfFolders)) return file;
    throw UsageError(
        fmt::format("options: --pretrained-text '{}' is no file, and not in a local cache: no weights of "
                    "it below {}",
                    names.text, hub_cache_places()),
        fmt::format("nothing is downloaded: fetch it with `hf download {}`, or name a file or folder", name));
  }
  const std::string encoder = names.text_by_default ? text_encoder_name(shape) : "";
  if (encoder.empty()) return std::nullopt;
  if (const auto file = encoder_in_caches(encoder, kWeightNamesOfFolders)) return file;
  throw UsageError(
      fmt::format("options: the text tower of model '{}' begins with the weights of {}, as in {}; they "
                  "are not in a local cache: none below {}",
                  model_name(shape), encoder, shape.clap() != nullptr ? "LAION-CLAP" : "OpenCLIP", hub_cache_places()),
      fmt::format("nothing is downloaded: fetch them with `hf download {}`, name a file or folder with "
                  "--pretrained-text, or begin at random with --pretrained-text none",
                  encoder_repository(encoder)));
}

fs::path image_file(const ContrastiveShape& shape) {
  const std::string& repository = shape.clip()->vision.timm_weights;
  if (repository.empty())
    throw UsageError(fmt::format("options: --pretrained-image: the image tower of model '{}' is none of timm's, which "
                                 "alone have weights of their own",
                                 model_name(shape)),
                     "drop it: OpenCLIP begins at random, too; --pretrained takes the weights of a whole model");
  if (const auto file = find_in_hub_caches(repository, kWeightNamesOfFolders)) return *file;
  throw UsageError(fmt::format("options: --pretrained-image: no weights of {} in a local cache: none below {}",
                               repository, hub_cache_places()),
                   fmt::format("nothing is downloaded: fetch them with `hf download {}`", repository));
}

/// Those that begin with weights of their own.
std::vector<Tower> named_towers(const TowerWeightNames& names, const ContrastiveShape& shape) {
  std::vector<Tower> towers;
  if (names.image) towers.push_back(Tower::kImage);
  if (!names.audio.empty()) towers.push_back(Tower::kAudio);
  const bool has_text =
      names.text.empty() ? names.text_by_default && !text_encoder_name(shape).empty() : names.text != kNone;
  if (has_text) towers.push_back(Tower::kText);
  return towers;
}

fs::path audio_file(const std::string& named) {
  if (const auto file = file_or_folder("--pretrained-audio", named)) return *file;
  throw UsageError(fmt::format("options: --pretrained-audio '{}' does not exist", named),
                   "give the file of an HTSAT that was trained on labelled sounds");
}

}  // namespace

std::string text_encoder_name(const ContrastiveShape& shape) {
  if (shape.clip() == nullptr) return std::string(roberta_name(shape.clap()->text));
  const TextShape& text = shape.clip()->text;
  if (text.tower == RobertaTextTower::kName) return std::string(roberta_name(text.roberta));
  if (text.tower == T5TextTower::kName) return std::string(t5_name(text.t5));
  return text.tower == M2m100TextTower::kName ? std::string(m2m100_name(text.m2m100)) : "";
}

namespace {

/// Of a text tower that is no encoder of the Hub: SigLIP's.
std::string piece_vocabulary(const ClipShape& shape) {
  const TextTokens tokens = shape.text.tokens;
  std::vector<std::string> repositories;
  constexpr int64_t kEnglishIds = 32000;  // the "i18n" ones have a vocabulary of 250,000
  if (tokens == TextTokens::kSentencePiece)
    repositories = {shape.text.vocab_size > kEnglishIds ? "google/siglip-base-patch16-256-multilingual"
                                                        : "google/siglip-base-patch16-224"};
  if (tokens == TextTokens::kMt5) repositories = {"google/mt5-base"};
  if (repositories.empty() && tokens != TextTokens::kGemma) return "";
  repositories.push_back("timm/" + shape.name);
  const std::array<std::string_view, 1> files{tokens == TextTokens::kGemma ? "tokenizer.model" : kT5Vocabulary};
  for (const std::string& repository : repositories)
    if (const auto found = find_in_hub_caches(repository, files)) return found->string();
  return "";
}

}  // namespace

std::string text_encoder_vocabulary(const ContrastiveShape& shape) {
  if (shape.clip() != nullptr && shape.clip()->text.tokens == TextTokens::kWordPiece) {
    constexpr std::array<std::string_view, 1> kPieces{"vocab.txt"};
    for (const char* repository : {"google-bert/bert-base-uncased", "bert-base-uncased"})
      if (const auto found = find_in_hub_caches(repository, kPieces)) return found->string();
  }
  const std::string encoder = text_encoder_name(shape);
  if (encoder.empty()) return shape.clip() != nullptr ? piece_vocabulary(*shape.clip()) : "";
  const bool is_roberta = core::starts_with(encoder, "roberta");
  const bool is_t5 = encoder.find("mt5") != std::string::npos;
  const std::array<std::string_view, 1> files{is_roberta ? "vocab.json" : is_t5 ? kT5Vocabulary : kXlmVocabulary};
  const auto found = encoder_in_caches(encoder, files);
  if (!found) return "";
  std::error_code ignored;
  if (!is_roberta) return found->string();
  return fs::is_regular_file(found->parent_path() / "merges.txt", ignored) ? found->parent_path().string() : "";
}

void fill_text_vocabulary(core::OptionSet& set, std::string& vocabulary,
                          const std::function<ContrastiveShape()>& shape) {
  if (!vocabulary.empty()) return;
  try {
    vocabulary = text_encoder_vocabulary(shape());
  } catch (const UsageError&) {
    return;
  }
  if (!vocabulary.empty()) set.mark_derived("tokenizer-vocab", "the local cache of Hugging Face");
}

TowerParameters tower_parameters(Tower tower, const ContrastiveShape& shape) {
  switch (tower) {
    case Tower::kImage:
      return {.prefix = "visual.trunk.",
              .may_lack = {"visual.trunk.head.weight", "visual.trunk.head.bias", "visual.trunk.head.fc."}};
    case Tower::kAudio:
      return {.prefix = "audio_branch.", .may_lack = {"audio_branch.head.", "audio_branch.tscam_conv."}};
    case Tower::kText: break;
  }
  const std::string text = shape.clip() != nullptr ? "text.transformer." : "text_branch.";
  return {.prefix = text, .may_lack = {text + "pooler."}};
}

void mark_pretrained(const TowerWeightNames& names, const ContrastiveShape& shape, const std::set<std::string>& frozen,
                     std::vector<ParamSpec>& specs) {
  int64_t num_trained = 0;
  for (const Tower tower : named_towers(names, shape)) {
    const TowerParameters parameters = tower_parameters(tower, shape);
    for (ParamSpec& spec : specs) {
      const auto begins = [&](const std::string& prefix) { return core::starts_with(spec.name, prefix); };
      spec.is_pretrained =
          spec.is_pretrained || (!spec.is_buffer && begins(parameters.prefix) &&
                                 std::none_of(parameters.may_lack.begin(), parameters.may_lack.end(), begins));
      if (begins(parameters.prefix) && spec.is_pretrained && !frozen.contains(spec.name)) ++num_trained;
    }
  }
  if (num_trained == 0)
    throw UsageError(
        fmt::format("options: --split-opt: model '{}' has no trained parameters that begin with weights of their tower",
                    model_name(shape)),
        "add --pretrained-text, --pretrained-image or --pretrained-audio, or drop it: --lr is then that of all");
}

bool names_weights(const TowerWeightNames& names, const ContrastiveShape& shape) {
  return !named_towers(names, shape).empty();
}

std::vector<TowerWeights> find_tower_weights(const TowerWeightNames& names, const ContrastiveShape& shape) {
  std::vector<TowerWeights> found;
  if (names.image) found.push_back({Tower::kImage, image_file(shape)});
  if (!names.audio.empty()) found.push_back({Tower::kAudio, audio_file(names.audio)});
  if (const auto file = text_file(names, shape)) found.push_back({Tower::kText, *file});
  return found;
}

}  // namespace lockstep::config
