#pragma once
#include <optional>
#include <string>

#include "core/options.h"

namespace lockstep::tasks {

/// Numbers of the optimiser; nothing: those of the flags without -pretrained and -new.
struct OwnUpdateNumbers {
  std::optional<double> lr, beta1, beta2, eps, wd;
};

/// Updates of pretrained parameters by other numbers than those of the others, as LAION-CLAP's trainer has them.
struct SplitOptimizerOptions {
  bool split_opt = false;               // --split-opt
  OwnUpdateNumbers pretrained_numbers;  // --lr-pretrained, --beta1-pretrained, ...
  OwnUpdateNumbers new_numbers;         // --lr-new, --beta1-new, ...

  void declare(core::OptionSet& set, const std::string& task);
  void check(const core::OptionSet& set, const std::string& task) const;
};

}  // namespace lockstep::tasks
