#include "tasks/gpt/front/gpt_front.h"

#include "tasks/gpt/front/gpt_dry_run.h"
#include "tasks/gpt/front/gpt_options.h"
#include "tasks/gpt/front/gpt_plan.h"
#include "tasks/gpt/front/gpt_vocabulary.h"

namespace lockstep::tasks {
namespace {

class GptFront final : public FrontTask {
 public:
  const config::RunOptions& options() const override { return options_; }
  core::OptionSet declare() override { return declare_gpt_options(options_); }
  void fill_defaults(core::OptionSet& set) override { fill_gpt_defaults(options_, set); }
  std::vector<std::string> check(const core::OptionSet& set) const override { return check_gpt_options(options_, set); }
  std::vector<std::string> read_files(core::OptionSet& set) override {
    refuse_missing_files(options_);
    return take_vocabulary(options_, set);
  }
  plan::BatchPlan batch_plan(const core::OptionSet&, int64_t num_ranks) const override {
    return train_gpt_layout(options_, num_ranks).batch;
  }
  DryRunPage dry_run(const core::OptionSet& set, const WorldSize& world) const override {
    return gpt_dry_run(options_, set, world);
  }

 private:
  GptOptions options_;
};

}  // namespace

std::unique_ptr<FrontTask> make_gpt_front(const std::string&) { return std::make_unique<GptFront>(); }

}  // namespace lockstep::tasks
