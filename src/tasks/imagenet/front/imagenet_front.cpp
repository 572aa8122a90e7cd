#include "tasks/imagenet/front/imagenet_front.h"

#include "tasks/imagenet/front/assumed_classes.h"
#include "tasks/imagenet/front/data_folder.h"
#include "tasks/imagenet/front/imagenet_dry_run.h"
#include "tasks/imagenet/front/imagenet_options.h"
#include "tasks/imagenet/front/recorded_pictures.h"

namespace lockstep::tasks {
namespace {

class ImagenetFront final : public FrontTask {
 public:
  const config::RunOptions& options() const override { return options_; }
  core::OptionSet declare() override { return declare_imagenet_options(options_); }
  void fill_defaults(core::OptionSet& set) override {
    notice_ = take_recorded_pictures(options_, set);
    take_recorded_classes(options_, set);
    fill_imagenet_defaults(options_, set);
  }
  std::vector<std::string> check(const core::OptionSet& set) const override {
    std::vector<std::string> warnings = check_imagenet_options(options_, set);
    if (!notice_.empty()) warnings.push_back(notice_);
    return warnings;
  }
  std::vector<std::string> read_files(core::OptionSet& set) override {
    refuse_other_data_folder(options_, /*must_exist=*/false);
    refuse_other_classes(options_);
    fill_num_classes(options_, set);
    std::vector<std::string> warnings{assumed_classes_warning(options_), other_classes_warning(options_)};
    std::erase(warnings, "");
    return warnings;
  }
  plan::BatchPlan batch_plan(const core::OptionSet& set, int64_t num_ranks) const override {
    return imagenet_batch_plan(options_, set, num_ranks);
  }
  DryRunPage dry_run(const core::OptionSet& set, const WorldSize& world) const override {
    return imagenet_dry_run(options_, set, world);
  }

 private:
  ImagenetOptions options_;
  std::string notice_;  // of what was taken from the record of a run
};

}  // namespace

std::unique_ptr<FrontTask> make_imagenet_front(const std::string&) { return std::make_unique<ImagenetFront>(); }

}  // namespace lockstep::tasks
