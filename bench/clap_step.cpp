// One CLAP training step on given weights and batches; the other side of bench/peers/clap_step.py. Options as
// bench_clip_step.
#include <ATen/ATen.h>

#include "contrastive_step.h"
#include "models/clap/clap_weights.h"
#include "nn/init.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  const auto build = [](const bench::StepOptions& options, at::Device device, const train::Precision& precision) {
    auto model = std::make_unique<models::ClapModel>(config::resolve_clap_shape(options.model),
                                                     models::ClapModelOptions{.tensors = device});
    auto specs = model->param_specs();
    nn::initialize(*model, specs, 0);
    models::load_clap_weights(*model, models::read_weights(options.weights()));
    precision.convert_parameters(model->named_parameters(), specs);
    return bench::StepNetwork{std::move(model), std::move(specs)};
  };
  const auto read_batch = [](const std::map<std::string, at::Tensor>& tensors) {
    models::Batch batch;
    batch.audio_BS = tensors.at("audio");
    batch.text_BT = tensors.at("text").to(at::kLong);
    batch.num_samples = batch.text_BT.size(0);
    return batch;
  };
  return bench::step_main(argc, argv, {.model = "HTSAT-tiny-Roberta-base"}, build, read_batch);
}
