#pragma once
#include <optional>
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
  double step_s = 0;  ///< Median.
  double samples_per_s = 0;
  bool fits = false;
  /// 90 % of the gain in samples per second over the command as given, in percent. What both have in common cancels.
  std::optional<double> least_gain_pct{}, most_gain_pct{};
};

/// The command with another global batch, which trains something else: never ranked with layouts of the given one.
struct BatchAdvice {
  Advice
      best{};  ///< The fastest layout that fits; where none does the one that needs the least memory, without a step.
  double samples_per_device = 0;
  double samples_per_s_per_node = 0;
};

struct AdviceList {
  std::vector<Advice> ranked{};  ///< Those that fit, fastest first; the command as given may be among them.
  Advice as_given{};
  size_t num_tried = 0, num_refused = 0, num_too_large = 0;
  std::vector<MeasuredStep> measured{};   ///< Of the command as given; empty: the steps are the prior's.
  std::optional<Advice> least{};          ///< Where nothing fits: the layout that needs the least memory.
  std::optional<Advice> on_more_nodes{};  ///< Likewise: a layout of the fewest nodes tried that fits, without a step.
  int64_t most_nodes_tried = 0;           ///< For that; 0: the machine has no more.
  /// Parts and multiples of the global batch that have a legal layout: those that fit by their rate, then the others.
  std::vector<BatchAdvice> other_batches{};
};

/// The command that layouts are sought for.
struct AdviseRequest {
  std::vector<std::string> words{};  ///< "train", "gpt", ..., with its batch on `nodes`.
  int64_t nodes = 1;
  std::vector<PlannedStep> steps{};  ///< Its plans on `nodes`, on those of `measured` and on others beside them.
  std::vector<MeasuredStep> measured{};
  bool with_other_batches = false;  ///< Which takes several times as long.
};

/// Tries every layout that the command's task says this version has (FrontTaskRow::layouts), on so many nodes and at
/// the same global batch. The step as given is that of predict_steps for the same plans and measurements; those of
/// layouts stand to it as their predictions do, by the same draws. Where none fits, doublings of the nodes are looked
/// at. If asked for, all layouts are tried with other global batches, too.
AdviceList advise(const AdviseRequest& request, const Machine& machine);

/// The best ones, with the gain over the command as given.
draw::Table advice_table(const AdviceList& list, const Machine& machine);
/// The best layout of each other global batch; without rows where there is none.
draw::Table batch_table(const AdviceList& list, const Machine& machine);
core::Json advice_json(const AdviceList& list);

}  // namespace lockstep::predict
