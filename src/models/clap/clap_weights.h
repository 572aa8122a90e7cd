#pragma once
#include "models/clap/clap_model.h"
#include "models/weights.h"

namespace lockstep::models {

/// Whose names the entries of a CLAP weight file have.
enum class ClapNaming {
  kLaion,        ///< "audio_branch.", "text_branch.": LAION's CLAP, and ours.
  kOpenClip,     ///< "audio.encoder.", "text.transformer.": OpenCLIP's development version.
  kHuggingFace,  ///< "audio_model.audio_encoder.", "text_model.": ClapModel of transformers; q, k and v apart.
};

/// DataError where the names are of none of these.
ClapNaming clap_naming(const WeightFile& weights);

/// The same weights under LAION's names. Entries that follow from the shape (index tables, masks, STFT and mel weights)
/// are compared with ours and left out: another table or front end is a DataError, because the weights would mean
/// something else.
WeightFile to_laion_names(const WeightFile& weights, const config::ClapShape& shape);

/// load_weights for any naming. What a naming does not have (head, transforms, second scale) stays as it is in the
/// model.
void load_clap_weights(ClapModel& model, const WeightFile& weights);

/// Parameters and buffers as a program of that naming saves them, with the entries that follow from the shape where it
/// expects them. kOpenClip leaves out transforms and second scale, kHuggingFace the head as well.
NamedValues clap_values(ClapModel& model, ClapNaming naming);

}  // namespace lockstep::models
