#pragma once
#include <string>
#include <vector>

#include "core/json.h"
#include "draw/document.h"
#include "predict/plan_step.h"

namespace lockstep::predict {

/// One way to run a command, by the flags that make it.
struct Advice {
  std::vector<std::string> flags{};  ///< Behind the command; empty: as it is.
  PlannedStep plan{};
  double step_s = 0;  ///< With every unknown at its prior median.
  double samples_per_s = 0;
  bool fits = false;
};

struct AdviceList {
  std::vector<Advice> ranked{};  ///< Those that fit, fastest first.
  Advice as_given{};
  size_t num_tried = 0, num_refused = 0, num_too_large = 0;
};

/// Tries every layout that the command's task says this version has (FrontTaskRow::layouts), on so many nodes and at
/// the same global batch. UsageError where the command itself cannot be planned.
AdviceList advise(const std::vector<std::string>& words, const Machine& machine, int64_t nodes);

/// The best ones, with the gain over the command as given.
draw::Table advice_table(const AdviceList& list, const Machine& machine);
core::Json advice_json(const AdviceList& list);

}  // namespace lockstep::predict
