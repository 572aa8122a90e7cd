#pragma once
#include <optional>
#include <string>

#include "core/options.h"

namespace lockstep::tasks {

/// Which loss a contrastive model is trained with.
struct LossOptions {
  bool local_loss = false, gather_with_grad = false;                          // --local-loss, --gather-with-grad
  double coca_caption_loss_weight = 2.0, coca_contrastive_loss_weight = 1.0;  // --coca-*-loss-weight
  bool siglip = false;                                                        // --siglip
  std::optional<std::string> loss_dist_impl;                                  // --loss-dist-impl, with --siglip
  std::string distill_model, distill_pretrained;  // --distill-model NAME, --distill-pretrained FILE

  bool has_teacher() const { return !distill_model.empty(); }
  void declare(core::OptionSet& set, const std::string& task);
  void check(const core::OptionSet& set, const std::string& task) const;

 private:
  void declare_captions(core::OptionSet& set);
};

}  // namespace lockstep::tasks
