#include "tasks/regress/front/regress_front.h"

#include <fmt/format.h>

#include "tasks/regress/front/regress_options.h"

namespace lockstep::tasks {
namespace {

class RegressFront final : public FrontTask {
 public:
  const config::RunOptions& options() const override { return options_; }
  core::OptionSet declare() override { return declare_regress_options(options_); }
  void fill_defaults(core::OptionSet&) override {}
  std::vector<std::string> check(const core::OptionSet& set) const override {
    config::check_run_options(options_, {"--max-steps", options_.max_steps}, set);
    return {};
  }
  std::vector<std::string> read_files(core::OptionSet&) override { return {}; }
  plan::BatchPlan batch_plan(const core::OptionSet&, int64_t num_ranks) const override {
    return plan::make_batch_plan(num_ranks, {.micro_batch_size = options_.micro_batch_size});
  }
  DryRunPage dry_run(const core::OptionSet& set, const WorldSize& world) const override {
    const plan::BatchPlan batch = batch_plan(set, world.num_ranks);
    const int64_t num_parameters = options_.num_features + 1;
    return {.facts = {command_fact(set),
                      world_fact(world),
                      {"parameters", "parameters", num_parameters, fmt::format("{}", num_parameters)},
                      {"global_batch", "global batch", batch.global_batch, fmt::format("{}", batch.global_batch)}}};
  }

 private:
  RegressOptions options_;
};

}  // namespace

std::unique_ptr<FrontTask> make_regress_front(const std::string&) { return std::make_unique<RegressFront>(); }

}  // namespace lockstep::tasks
