#include "tasks/contrastive/front/contrastive_front.h"

#include "tasks/contrastive/front/contrastive_dry_run.h"
#include "tasks/contrastive/front/contrastive_options.h"
#include "tasks/contrastive/front/teacher.h"

namespace lockstep::tasks {
namespace {

class ContrastiveFront final : public FrontTask {
 public:
  explicit ContrastiveFront(const std::string& name) { options_.task = name; }
  const config::RunOptions& options() const override { return options_; }
  core::OptionSet declare() override { return declare_contrastive_options(options_); }
  void fill_defaults(core::OptionSet& set) override { fill_contrastive_defaults(options_, set); }
  std::vector<std::string> check(const core::OptionSet& set) const override {
    return check_contrastive_options(options_, set);
  }
  std::vector<std::string> read_files(core::OptionSet&) override { return {}; }
  plan::BatchPlan batch_plan(const core::OptionSet& set, int64_t num_ranks) const override {
    const config::ContrastiveShape shape = contrastive_shape_of(options_);
    if (options_.has_teacher()) check_teacher(options_, *shape.clip());
    return contrastive_batch_plan(options_, set, num_ranks);
  }
  DryRunPage dry_run(const core::OptionSet& set, const WorldSize& world) const override {
    return contrastive_dry_run(options_, set, world);
  }

 private:
  ContrastiveOptions options_;
};

}  // namespace

std::unique_ptr<FrontTask> make_contrastive_front(const std::string& name) {
  return std::make_unique<ContrastiveFront>(name);
}

}  // namespace lockstep::tasks
