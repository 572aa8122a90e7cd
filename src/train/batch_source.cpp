#include "train/batch_source.h"

namespace lockstep::train {
namespace {

class LoaderBatches final : public BatchSource {
 public:
  LoaderBatches(std::unique_ptr<data::Loader> loader, const BatchMover& mover)
      : loader_(std::move(loader)), mover_(mover) {}

  models::Batch next(PhaseClock& phases) override {
    data::HostBatch host = loader_->next();
    phases.mark(Phase::kDataWait);
    models::Batch batch = mover_.to_device(host);
    loader_->recycle(std::move(host));
    phases.mark(Phase::kH2d);
    return batch;
  }

  core::Json position() const override { return loader_->position(); }
  core::Json join_positions(const std::vector<core::Json>& of_ranks) const override {
    return data::merge_positions(of_ranks);
  }

  const data::Loader* loader() const override { return loader_.get(); }

 private:
  std::unique_ptr<data::Loader> loader_;
  const BatchMover& mover_;
};

}  // namespace

std::unique_ptr<BatchSource> make_loader_batches(std::unique_ptr<data::Loader> loader, const BatchMover& mover) {
  return std::make_unique<LoaderBatches>(std::move(loader), mover);
}

}  // namespace lockstep::train
