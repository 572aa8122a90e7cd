#include "infer/classify_pictures.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "data/loader.h"
#include "data/pictures/per_colour.h"
#include "data/pictures/picture_decoder.h"
#include "data/text/class_names.h"
#include "infer/class_results.h"
#include "infer/file_list.h"
#include "infer/model_of_weights.h"
#include "models/imagenet/classifier_task.h"
#include "models/imagenet/make_classifier.h"
#include "models/weights.h"
#include "nn/captured_call.h"
#include "tasks/front/recorded_run.h"
#include "train/batch_mover.h"
#include "train/device.h"
#include "train/precision.h"
#include "train/weight_file.h"

namespace lockstep::infer {
namespace {

/// Preparation of pictures of so many pixels.
data::TransformConfig transform_of(const config::InferOptions& options, int64_t image_pixels) {
  auto transform = data::imagenet_transform(/*is_train=*/false, static_cast<int>(image_pixels),
                                            static_cast<int>(options.resize_pixels.value_or(0)));
  transform.resize_pixels = std::max(transform.resize_pixels, transform.image_pixels);
  if (options.image_interpolation == "bicubic") transform.filter = data::ResizeFilter::kBicubic;
  transform.limits.max_pixels = options.max_image_pixels;
  transform.mean = data::per_colour(options.image_mean, transform.mean);
  transform.std = data::per_colour(options.image_std, transform.std);
  return transform;
}

/// Of --classnames, else those that a run's record tells, else numbers.
std::vector<std::string> names_of_classes(const config::InferOptions& options, int64_t num_classes) {
  std::vector<std::string> names;
  if (options.classnames.empty()) {
    names = tasks::recorded_class_names(options.pretrained, num_classes);
    if (!names.empty()) return names;
    for (int64_t number = 0; number < num_classes; ++number) names.push_back(std::to_string(number));
    return names;
  }
  names = data::read_class_names(options.classnames);
  if (static_cast<int64_t>(names.size()) != num_classes)
    throw DataError(fmt::format("infer: '{}' has {} class names, the network {}", options.classnames, names.size(),
                                core::counted(num_classes, "class", "classes")),
                    "give one name per line in the order of the classes' numbers, or leave --classnames out");
  return names;
}

}  // namespace

void classify_pictures(const config::InferOptions& options) {
  const c10::NoGradGuard no_grad;
  const at::Device device = train::pick_device(options.device, options.gpu_math);
  const train::Precision precision(options.precision, device.type());
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  checkpoint::CheckpointManifest ignored;
  const models::WeightFile weights = models::read_weights(train::weight_file(options.pretrained, ignored));
  const config::ClassifierShape shape = config::classifier_shape(
      options.model, num_classes_of(weights),
      options.force_image_size.empty() ? config::ClassifierShape().image_pixels : options.force_image_size.front());
  const std::vector<std::string> names = names_of_classes(options, shape.num_classes);
  const auto network = models::make_classifier(shape, {.tensors = at::TensorOptions(device)});
  models::load_weights(*network, weights);
  network->set_training(false);
  network->prepare_inference(precision.input_type());

  const auto files = list_files(options.images, /*is_audio=*/false);
  const data::TransformConfig transform = transform_of(options, shape.image_pixels);
  const train::BatchMover mover(device, precision.input_type(), transform.mean, transform.std);
  BadSamples bad;
  data::Loader loader(file_list_source(files),
                      tolerant_decoder(data::make_picture_decoder({.transform = transform}), bad),
                      {.micro_batch_size = options.samples_per_batch,
                       .image_pixels = shape.image_pixels,
                       .num_workers = std::max<int64_t>(1, options.workers)});
  nn::CapturedCall class_probabilities(
      [&](const std::vector<at::Tensor>& inputs) {
        const auto autocast = precision.autocast();
        return models::class_scores(*network, inputs.front(), /*channels_last=*/true).softmax(1);
      },
      nn::call_recorder(options.cuda_graphs, device));
  std::vector<at::Tensor> probabilities;
  int64_t num_done = 0;
  for (data::HostBatch host = loader.next(); host.num_samples > 0; host = loader.next()) {
    const models::Batch batch = mover.to_device(host);
    num_done += host.num_samples;
    loader.recycle(std::move(host));
    probabilities.push_back(class_probabilities({batch.image_BCYX}).to(at::kCPU));
    core::show_progress(fmt::format("{} of {}", num_done, core::counted(files.size(), "picture")));
  }
  core::end_progress();
  tell_bad(bad, files.size());
  write_class_results(at::cat(probabilities), names, files, bad, options);
  core::log_info("{}, {}{}", core::counted(files.size() - bad.by_id().size(), "picture"),
                 core::counted(names.size(), "class", "classes"),
                 options.output.empty() ? "" : " -> " + options.output);
}

}  // namespace lockstep::infer
