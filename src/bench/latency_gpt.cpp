// Letters: B prompts, L tokens, V vocabulary.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/latency_subject.h"
#include "config/gpt_params.h"
#include "core/error.h"
#include "core/rng.h"
#include "infer/generation.h"
#include "infer/gpt_source.h"
#include "models/gpt/gpt_model.h"
#include "nn/init.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kMostParametersInFp32 = 2'000'000'000;  // 8 GB

class GptSubject final : public LatencySubject {
 public:
  explicit GptSubject(const BenchContext& context)
      : context_(context), shape_(config::resolve_gpt_shape(context.options.train.model)) {
    const auto& o = context.options;
    if (o.text_tokens + o.new_tokens > shape_.max_positions)
      throw UsageError(fmt::format("bench: --text-length {} and --new-tokens {} are more than the {} positions of '{}'",
                                   o.text_tokens, o.new_tokens, shape_.max_positions, o.train.model),
                       "give fewer");
  }

  std::vector<std::string> froms() const override { return {"tokens"}; }
  std::vector<std::string> towers() const override { return {"text"}; }

  bool prepare(const LatencyPoint& point) override {
    const bool loads = !model_ || point_.precision != point.precision;
    if (loads) {
      model_.reset();
      model_ = load(point.precision);
    }
    infer::prepare_generation(*model_, static_cast<size_t>(point.batch));
    point_ = point;
    core::CounterRng rng(core::stream_key({static_cast<uint64_t>(context_.options.train.seed), 0x70726f6d}));
    prompts_.assign(static_cast<size_t>(point.batch), {});
    for (auto& prompt : prompts_)
      for (int64_t i = 0; i < context_.options.text_tokens; ++i)
        prompt.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(shape_.vocab))));
    return loads;
  }

  /// Every token must have the highest logit of a forward pass over all that stands before it, but for rounding: one of
  /// the same weights in fp32, where a second model is no burden.
  int64_t count_wrong() override {
    const c10::NoGradGuard no_grad;
    constexpr int64_t kChecked = 3;
    const auto texts = infer::generate_tokens(*model_, prompts_, 0, config(kChecked, nullptr));
    const bool has_own = point_.precision != "fp32" && num_parameters() <= kMostParametersInFp32;
    const std::unique_ptr<models::GptModel> own = has_own ? load("fp32") : nullptr;
    models::GptModel& plain = has_own ? *own : *model_;
    plain.prepare_inference(std::nullopt);  // the check reads no packed weights
    const double tolerance = point_.precision == "fp32" ? 1e-4 : 5e-2;
    int64_t wrong = 0;
    for (size_t b = 0; b < prompts_.size(); ++b) {
      std::vector<int64_t> ids(prompts_[b].begin(), prompts_[b].end());
      wrong += std::ssize(texts[b].ids) != kChecked;
      for (const int32_t id : texts[b].ids) {
        const at::Tensor text_BL = at::tensor(ids, at::kLong).unsqueeze(0).to(context_.device);
        models::Batch batch;
        batch.text_BT = text_BL;
        batch.num_samples = 1;
        const at::Tensor logit_V = plain.logits(plain.forward({}, batch).narrow(0, text_BL.size(1) - 1, 1))
                                       .flatten()
                                       .narrow(0, 0, shape_.vocab)
                                       .to(at::kFloat);
        const double short_by = (logit_V.max() - logit_V[id]).item<double>();  // sync: a check
        wrong += !(short_by <= tolerance * logit_V.abs().max().item<double>());
        ids.push_back(id);
      }
    }
    infer::prepare_generation(*model_, prompts_.size());
    return wrong;
  }

  void run(StageClock* clock) override {
    const c10::NoGradGuard no_grad;
    if (clock != nullptr) clock->begin();
    int64_t num_rounds = 0;
    infer::generate_tokens(*model_, prompts_, 0, config(context_.options.new_tokens, [&] {
      if (++num_rounds == 1 && clock != nullptr) clock->mark("first_token");
    }));
    if (clock != nullptr) clock->mark("next_tokens");
  }

  core::Json facts() const override {
    return {{"text_tokens", context_.options.text_tokens}, {"next_tokens", context_.options.new_tokens - 1}};
  }

 private:
  int64_t num_parameters() const {
    int64_t count = 0;
    for (const auto& parameter : model_->named_parameters()) count += parameter.tensor->numel();
    return count;
  }

  std::unique_ptr<models::GptModel> load(const std::string& precision) const {
    const at::TensorOptions tensors = at::TensorOptions(context_.device)
                                          .dtype(precision == "fp32"   ? at::kFloat
                                                 : precision == "bf16" ? at::kBFloat16
                                                                       : at::kHalf);
    if (!context_.options.train.pretrained.empty()) {
      config::GenerateOptions generate;
      generate.model = context_.options.train.model;
      generate.pretrained = context_.options.train.pretrained;
      return infer::load_gpt(infer::find_gpt(generate), tensors);
    }
    auto model = std::make_unique<models::GptModel>(shape_, config::whole_gpt(shape_), nn::ShardCtx{},
                                                    models::GptModelOptions{.tensors = tensors});
    nn::initialize_shard(*model, model->param_specs(), static_cast<uint64_t>(context_.options.train.seed), {});
    model->set_training(false);
    return model;
  }

  infer::GenerationConfig config(int64_t new_tokens, std::function<void()> on_token) const {
    return {.choice = {.is_greedy = true},
            .max_new_tokens = new_tokens,
            .num_ids = shape_.vocab,
            .stop_ids = {},
            .on_token = std::move(on_token)};
  }

  BenchContext context_;
  config::GptShape shape_;
  std::unique_ptr<models::GptModel> model_;
  LatencyPoint point_;
  std::vector<std::vector<int32_t>> prompts_;
};

}  // namespace

std::unique_ptr<LatencySubject> make_gpt_subject(const BenchContext& context) {
  return std::make_unique<GptSubject>(context);
}

}  // namespace lockstep::bench
