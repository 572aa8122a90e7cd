#pragma once
#include <string>
#include <vector>

#include "config/tower_weights.h"
#include "models/two_towers.h"
#include "models/weights.h"

namespace lockstep::models {

/// Copies the weights of a tower that was trained alone into its place in the model: Hugging Face's RoBERTa (with or
/// without "roberta." in front of the names, heads for other purposes left out), a tower of timm (its classifier left
/// out), an HTSAT ("sed_model." in front of the names), or the tower of a whole model's file under OpenCLIP's or
/// LAION's names. Returns what such a file may lack, and this one does (a pooler, a head): it stays as it is. All else
/// must fit: DataError as of load_weights.
std::vector<std::string> load_tower_weights(TwoTowers& model, const config::ContrastiveShape& shape,
                                            config::Tower tower, const WeightFile& weights);

}  // namespace lockstep::models
