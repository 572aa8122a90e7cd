#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "bench/latency_subject.h"
#include "data/pictures/transform.h"
#include "infer/model_of_weights.h"
#include "models/imagenet/classifier_task.h"
#include "models/imagenet/make_classifier.h"
#include "models/weights.h"
#include "nn/captured_call.h"
#include "nn/init.h"
#include "train/batch_mover.h"
#include "train/precision.h"
#include "train/weight_file.h"

namespace lockstep::bench {
namespace {

/// Of the weights that are given, else ImageNet's.
int64_t num_classes(const std::string& pretrained) {
  constexpr int64_t kImagenet = 1000;
  checkpoint::CheckpointManifest ignored;
  return pretrained.empty() ? kImagenet
                            : infer::num_classes_of(models::read_weights(train::weight_file(pretrained, ignored)));
}

class ClassifierSubject final : public LatencySubject {
 public:
  explicit ClassifierSubject(const BenchContext& context)
      : context_(context), shape_(config::classifier_shape(train_options().model,
                                                           num_classes(train_options().pretrained), image_pixels())),
        transform_(data::imagenet_transform(/*is_train=*/false, static_cast<int>(shape_.image_pixels))) {}

  std::vector<std::string> froms() const override { return {"pixels", "pictures", "tokens"}; }
  std::vector<std::string> towers() const override { return {"image"}; }

  bool prepare(const LatencyPoint& point) override {
    const bool loads = !network_ || point_.precision != point.precision;
    if (loads) {
      scores_ = {};  // before the weights that its recordings read
      network_.reset();
      network_ = load(point.precision);
      network_->prepare_inference(
          train::Precision(precision_name(point.precision), context_.device.type()).input_type());
      scores_ = nn::CapturedCall(
          [this](const std::vector<at::Tensor>& inputs) {
            return models::class_scores(*network_, inputs.front(), /*channels_last=*/true);
          },
          nn::call_recorder(context_.options.cuda_graphs, context_.device));
      mover_.emplace(make_mover(point.precision));
    }
    point_ = point;
    if (std::ssize(files_) < point.batch) files_ = encoded_pictures(context_.options, point.batch);
    host_.num_samples = point.batch;
    read_pictures(files_, transform_, host_, scratch_, nullptr);
    on_device_ = mover_->to_device(host_).image_BCYX;
    return loads;
  }

  int64_t count_wrong() override {
    const auto plain = load("fp32");
    const c10::NoGradGuard no_grad;
    const int64_t num_calls = context_.device.is_cpu() ? 1 : nn::CaptureLimits().least_calls;
    for (int64_t i = 0; i < num_calls; ++i) run(nullptr);  // on CUDA the last one is a replay, as are those timed
    const at::Tensor expected_BK = models::class_scores(*plain, make_mover("fp32").to_device(host_).image_BCYX,
                                                        /*channels_last=*/true);
    const double tolerance = feature_tolerance(point_.precision);
    // Scores, whose rounding is a share of the largest. Probabilities are no measure: of drawn weights scores are in
    // the tens, and the softmax makes a rounding of them the choice of another class.
    const at::Tensor score_BK = score_BK_.to(at::kFloat);
    return count_apart(score_BK, expected_BK, tolerance * expected_BK.abs().max().item<double>()) +  // sync: a check
           count_apart(probability_BK_.to(at::kFloat), score_BK.softmax(1).cpu(), tolerance);
  }

  void run(StageClock* clock) override {
    const c10::NoGradGuard no_grad;
    if (clock != nullptr) clock->begin();
    const auto mark = [&](const char* stage) {
      if (clock != nullptr) clock->mark(stage);
    };
    at::Tensor image_BCYX = on_device_;
    if (point_.from == "pictures") read_pictures(files_, transform_, host_, scratch_, clock);
    if (point_.from != "tokens") {
      image_BCYX = mover_->to_device(host_).image_BCYX;
      mark("transfer");
    }
    score_BK_ = scores_({image_BCYX});
    mark("image");
    probability_BK_ = score_BK_.softmax(1).cpu();  // sync: a call ends when its results are on the host
    mark("output");
  }

  core::Json facts() const override {
    core::Json facts = {{"pixels", shape_.image_pixels}};
    if (context_.device.is_cuda()) facts["cuda_graphs"] = scores_.num_recorded();
    return facts;
  }

 private:
  const tasks::ContrastiveOptions& train_options() const { return context_.options.train; }
  int64_t image_pixels() const {
    constexpr int64_t kUsual = 224;
    return train_options().force_image_size.empty() ? kUsual : train_options().force_image_size.front();
  }

  train::BatchMover make_mover(const std::string& type) const {
    return {context_.device, train::Precision(precision_name(type), context_.device.type()).input_type(),
            transform_.mean, transform_.std};
  }

  std::unique_ptr<models::Classifier> load(const std::string& type) const {
    auto network = models::make_classifier(shape_, {.tensors = at::TensorOptions(context_.device)});
    const auto specs = config::classifier_params(shape_, /*zero_last_norm=*/false);
    nn::initialize(*network, specs, static_cast<uint64_t>(train_options().seed));
    checkpoint::CheckpointManifest ignored;
    if (!train_options().pretrained.empty())
      models::load_weights(*network, models::read_weights(train::weight_file(train_options().pretrained, ignored)));
    network->set_training(false);
    const train::Precision precision(precision_name(type), context_.device.type());
    precision.convert_parameters(network->named_parameters(), specs);
    auto statistics = network->named_buffers();
    std::erase_if(statistics,
                  [](const auto& buffer) { return !buffer.tensor->is_floating_point(); });  // counters stay integers
    precision.convert_parameters(statistics, specs);
    return network;
  }

  BenchContext context_;
  config::ClassifierShape shape_;
  data::TransformConfig transform_;
  std::unique_ptr<models::Classifier> network_;
  nn::CapturedCall scores_;
  std::optional<train::BatchMover> mover_;
  LatencyPoint point_;
  std::vector<std::string> files_;
  PictureScratch scratch_;
  data::HostBatch host_;
  at::Tensor on_device_, score_BK_, probability_BK_;
};

}  // namespace

std::unique_ptr<LatencySubject> make_classifier_subject(const BenchContext& context) {
  return std::make_unique<ClassifierSubject>(context);
}

}  // namespace lockstep::bench
