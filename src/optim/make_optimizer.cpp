#include "optim/make_optimizer.h"

#include "config/optimizers.h"
#include "core/error.h"
#include "optim/adamw.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/lion.h"
#include "optim/sgd.h"

namespace lockstep::optim {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Segment> segments) {
  const std::string_view name = config::optimizer_info(config.name).name;
  if (name == "adamw")
    return std::make_unique<AdamW>(std::move(segments), AdamWConfig{.beta1 = config.beta1,
                                                                    .beta2 = config.beta2,
                                                                    .epsilon = config.epsilon,
                                                                    .weight_decay = config.weight_decay});
  if (name == "lion")
    return std::make_unique<Lion>(
        std::move(segments),
        LionConfig{.beta1 = config.beta1, .beta2 = config.beta2, .weight_decay = config.weight_decay});
  if (name == "lamb")
    return std::make_unique<Lamb>(std::move(segments), LambConfig{.beta1 = config.beta1,
                                                                  .beta2 = config.beta2,
                                                                  .epsilon = config.epsilon,
                                                                  .weight_decay = config.weight_decay});
  const SgdConfig sgd{.momentum = config.momentum, .weight_decay = config.weight_decay, .nesterov = config.nesterov};
  if (name == "sgd") return std::make_unique<Sgd>(std::move(segments), sgd);
  if (name == "lars")
    return std::make_unique<Lars>(std::move(segments),
                                  LarsConfig{.sgd = sgd, .trust_coefficient = config.trust_coefficient});
  LOCKSTEP_CHECK(false, "optimiser '{}' is in the table and not made", name);
  return nullptr;
}

}  // namespace lockstep::optim
