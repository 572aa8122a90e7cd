#pragma once
#include "config/option_groups.h"
#include "tasks/contrastive/front/evaluation_options.h"
#include "tasks/contrastive/front/layer_decay_options.h"
#include "tasks/contrastive/front/loss_options.h"
#include "tasks/contrastive/front/split_optimizer_options.h"
#include "tasks/contrastive/front/tower_lock_options.h"
#include "tasks/contrastive/front/tower_weight_options.h"

namespace lockstep::tasks {

/// The groups of options of `train clip` and `train clap`, in the order of the help: the only place that names them.
using ContrastiveGroups = config::OptionGroups<LossOptions, TowerWeightOptions, TowerLockOptions, LayerDecayOptions,
                                               SplitOptimizerOptions, EvaluationOptions>;

}  // namespace lockstep::tasks
