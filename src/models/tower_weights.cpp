#include "models/tower_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "config/text_towers/roberta_text.h"
#include "core/error.h"
#include "core/strings.h"
#include "models/clap/clap_weights.h"

namespace lockstep::models {
namespace {

/// Where a tower's names lie, and what may differ there.
struct TowerNames {
  std::string in_model;                    ///< In front of its names in our model.
  std::vector<std::string_view> in_files;  ///< What files may have there instead; the first that occurs counts.
  std::vector<std::string> may_lack;       ///< Beginnings of names in the model: absent, or of another shape.
};

/// In files of whole encoder-decoders the encoder has a prefix, and may leave its tokens to the table that the decoder
/// shares.
/// The text tower is half of an encoder-decoder, whose files have both.
bool has_half_a_pair(const config::ContrastiveShape& shape) {
  return shape.clip() != nullptr && shape.clip()->text.is_encoder() &&
         shape.clip()->text.tower != config::RobertaTextTower::kName;
}

std::vector<std::string_view> prefixes_in_files(config::Tower tower, const config::ContrastiveShape& shape) {
  switch (tower) {
    case config::Tower::kImage: return {"visual.trunk."};
    case config::Tower::kAudio: return {"audio_branch.", "audio.encoder.", "sed_model."};
    case config::Tower::kText: break;
  }
  if (has_half_a_pair(shape)) return {"text.transformer.", "model.encoder.", "encoder."};
  return {"text.transformer.", "text_branch.", "roberta."};
}

TowerNames names_of(config::Tower tower, const config::ContrastiveShape& shape) {
  config::TowerParameters parameters = config::tower_parameters(tower, shape);
  return {.in_model = std::move(parameters.prefix),
          .in_files = prefixes_in_files(tower, shape),
          .may_lack = std::move(parameters.may_lack)};
}

/// Files of encoder-decoders have the table of tokens that both halves share once, and tables of sines.
void complete_half_of_pair(const WeightFile& weights, const std::string& prefix, WeightFile& half) {
  const std::string table = prefix + "embed_tokens.weight";
  std::erase_if(half.tensors, [&](const auto& entry) { return entry.first == prefix + "embed_positions.weights"; });
  const auto is_table = [&](const auto& entry) { return entry.first == table; };
  if (std::any_of(half.tensors.begin(), half.tensors.end(), is_table)) return;
  for (const auto& [name, value] : weights.tensors)
    if (name == "shared.weight" || name == "model.shared.weight") half.tensors.emplace_back(table, value);
}

bool starts_with_one_of(const std::string& name, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& beginning) { return core::starts_with(name, beginning); });
}

/// Entries of the tower under the model's names.
WeightFile tower_of(const WeightFile& weights, const TowerNames& names) {
  WeightFile out{.path = weights.path, .tensors = {}, .ignored = weights.ignored, .epoch = {}};
  const auto occurs = [&](std::string_view prefix) {
    return std::any_of(weights.tensors.begin(), weights.tensors.end(),
                       [&](const auto& entry) { return core::starts_with(entry.first, prefix); });
  };
  const auto found = std::find_if(names.in_files.begin(), names.in_files.end(), occurs);
  const std::string_view prefix = found == names.in_files.end() ? std::string_view() : *found;
  for (const auto& [name, value] : weights.tensors) {
    if (core::starts_with(name, prefix))
      out.tensors.emplace_back(names.in_model + name.substr(prefix.size()), value);
    else
      out.ignored.push_back(name);
  }
  return out;
}

}  // namespace

std::vector<std::string> load_tower_weights(TwoTowers& model, const config::ContrastiveShape& shape,
                                            config::Tower tower, const WeightFile& weights) {
  const TowerNames names = names_of(tower, shape);
  WeightFile file = tower_of(weights, names);
  if (tower == config::Tower::kText && has_half_a_pair(shape)) complete_half_of_pair(weights, names.in_model, file);
  if (tower == config::Tower::kAudio) file = to_laion_names(file, *shape.clap());
  std::map<std::string, at::Tensor> in_file(file.tensors.begin(), file.tensors.end());
  NamedValues targets;
  std::vector<std::string> kept;
  std::set<std::string> wanted;
  for (const auto& [name, value] : named_values(model)) {
    if (!core::starts_with(name, names.in_model)) continue;
    const auto found = in_file.find(name);
    const bool fits = found != in_file.end() && found->second.sizes() == value.sizes();
    if (!fits && starts_with_one_of(name, names.may_lack)) {
      kept.push_back(name);
      continue;
    }
    targets.emplace_back(name, value);
    wanted.insert(name);
  }
  LOCKSTEP_CHECK(!targets.empty(), "no tower '{}' in the model", names.in_model);
  // What is for another purpose: a classifier, a language model's head.
  std::erase_if(file.tensors, [&](const auto& entry) {
    const std::string name = entry.first.substr(names.in_model.size());
    const bool is_head = core::starts_with(name, "head.") || core::starts_with(name, "lm_head.") ||
                         core::starts_with(name, "classifier.");
    return !wanted.contains(entry.first) && (is_head || starts_with_one_of(entry.first, names.may_lack));
  });
  load_values(targets, file);
  return kept;
}

}  // namespace lockstep::models
