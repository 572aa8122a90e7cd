#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "config/contrastive_shape.h"
#include "config/param_spec.h"
#include "core/options.h"

namespace lockstep::config {

/// A tower of a CLIP or CLAP network.
enum class Tower { kImage, kAudio, kText };

/// Weights that one tower begins with: it was trained without the other.
struct TowerWeights {
  Tower tower = Tower::kText;
  std::filesystem::path file = {};
};

/// What the flags say about them.
struct TowerWeightNames {
  std::string text = {};   ///< --pretrained-text: a file, a folder, a name of the Hub, "none"; "": not given.
  bool image = false;      ///< --pretrained-image
  std::string audio = {};  ///< --pretrained-audio: a file.
  /// Where --pretrained-text is not given, the text tower begins with the weights of the encoder that it is, as in
  /// OpenCLIP and LAION-CLAP.
  bool text_by_default = false;
};

/// The encoder of Hugging Face that the text tower is ("roberta-base"); "" where it is none, or has other sizes.
std::string text_encoder_name(const ContrastiveShape& shape);

/// The vocabulary of that encoder, or of BERT for CLIPA, in a local cache of the Hub: a folder with vocab.json and
/// merges.txt, of XLM-RoBERTa the file sentencepiece.bpe.model, of BERT vocab.txt, of SigLIP spiece.model, of SigLIP2
/// tokenizer.model; "" where it is not there.
std::string text_encoder_vocabulary(const ContrastiveShape& shape);

/// Where --tokenizer-vocab is not given, that. `shape` may throw UsageError, which is told where the model is built.
void fill_text_vocabulary(core::OptionSet& set, std::string& vocabulary,
                          const std::function<ContrastiveShape()>& shape);

/// Where the parameters of a tower that can begin with weights of its own lie in the model.
struct TowerParameters {
  std::string prefix{};  ///< In front of their names.
  std::vector<std::string>
      may_lack{};  ///< Beginnings of names among them that its file may not have (heads, a pooler).
};
TowerParameters tower_parameters(Tower tower, const ContrastiveShape& shape);

/// Marks what begins with those weights: the parameters of the towers that are named, but for what files may lack.
/// UsageError where there is none of them that is not `frozen`.
void mark_pretrained(const TowerWeightNames& names, const ContrastiveShape& shape, const std::set<std::string>& frozen,
                     std::vector<ParamSpec>& specs);

/// Do they ask for any weights? Known without looking for files, so that all ranks agree.
bool names_weights(const TowerWeightNames& names, const ContrastiveShape& shape);

/// Files of those weights, in the order image, audio, text. Names are looked for in the local caches of the Hugging
/// Face Hub (see hub_cache.h). Nothing is downloaded: UsageError where they are not there, with the command that
/// fetches them, and for a model without such a tower.
std::vector<TowerWeights> find_tower_weights(const TowerWeightNames& names, const ContrastiveShape& shape);

}  // namespace lockstep::config
