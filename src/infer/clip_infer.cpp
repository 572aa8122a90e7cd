#include "infer/clip_infer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/safetensors.h"
#include "data/class_names.h"
#include "data/clip_assets.h"
#include "data/clip_decoder.h"
#include "infer/file_list.h"
#include "train/contrastive_data.h"
#include "train/evaluator.h"
#include "train/towers_build.h"

namespace lockstep::infer {
namespace {

/// A loaded model with all that feeds it. One rank.
class ClipEncoder {
 public:
  explicit ClipEncoder(const spec::InferOptions& options)
      : options_(options),
        device_(train::pick_device(options.device, /*local_rank=*/0, /*local_world_size=*/1)),
        precision_(options.precision, device_.type()) {
    if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
    shape_ = spec::resolve_clip_shape(
        options.model, spec::forced_overrides(options.force_image_size, options.force_context_length, options.force_quick_gelu));
    transform_.image_pixels = static_cast<int>(shape_.vision.image_size);
    train::apply_preparation({options.image_interpolation, options.image_resize_mode, options.resize_order, options.image_mean,
                              options.image_std, options.max_image_pixels},
                             transform_);
    encoder_ = train::load_clip_text_encoder(options.tokenizer_vocab);
    model_ = train::build_towers({shape_}, {.precision = &precision_, .device = device_, .pretrained = options.pretrained});
    mover_.emplace(device_, precision_.input_type(), transform_.mean, transform_.std);
  }

  at::Tensor pictures(const std::vector<std::filesystem::path>& files) {
    data::LoaderConfig config{.samples_per_rank = options_.samples_per_batch, .image_pixels = shape_.vision.image_size};
    config.num_workers = std::max<int64_t>(1, options_.workers);
    data::ClipDecoderConfig decoder{.transform = transform_};
    data::Loader loader(file_list_source(files), data::make_clip_decoder(decoder, encoder_), config);
    return train::encode_all(context("pictures", static_cast<int64_t>(files.size())), loader).image_NE;
  }
  at::Tensor texts(const std::vector<std::string>& lines) {
    return train::encode_texts(context("texts", static_cast<int64_t>(lines.size())), encoder_, shape_.text.context_length, lines, options_.samples_per_batch);
  }
  at::Tensor classes(const std::vector<std::string>& names, const std::vector<std::string>& templates) {
    return train::zero_shot_classifier(context("prompts of classes", static_cast<int64_t>(names.size() * templates.size())), encoder_,
                                       shape_.text.context_length, names, templates, options_.samples_per_batch);
  }
  double scale() { return model_->logit_scale().detach().to(at::kDouble).exp().item<double>(); }

 private:
  /// Tells how far the work has come: on a terminal at once, else now and then.
  train::EncoderContext context(const std::string& what, int64_t total) {
    using Clock = std::chrono::steady_clock;
    static constexpr auto kDistance = std::chrono::seconds(30);
    const auto report = [what, total, next = Clock::now() + kDistance](int64_t done) mutable {
      const std::string text = fmt::format("{} of {} {}", std::min(done, total), total, what);
      core::show_progress(text);
      if (core::stderr_is_terminal() || Clock::now() < next) return;
      core::log_info("{}", text);
      next = Clock::now() + kDistance;
    };
    return {*model_, one_rank_, *mover_, precision_, report};
  }

  const spec::InferOptions& options_;
  at::Device device_;
  train::Precision precision_;
  spec::ClipShape shape_;
  data::TransformConfig transform_;
  data::TextEncoder encoder_;
  std::unique_ptr<models::TwoTowers> model_;
  std::optional<train::BatchMover> mover_;
  comm::Comm one_rank_;
};

core::SafetensorsEntry entry(const std::string& name, const at::Tensor& feature_NE) {
  return {.name = name,
          .dtype = "F32",
          .shape = feature_NE.sizes().vec(),
          .bytes = std::as_bytes(std::span(feature_NE.const_data_ptr<float>(), static_cast<size_t>(feature_NE.numel())))};
}

}  // namespace

void embed(const spec::InferOptions& options) {
  ClipEncoder encoder(options);
  at::Tensor image_NE, text_NE;
  std::vector<core::SafetensorsEntry> entries;
  if (!options.images.empty()) {
    image_NE = encoder.pictures(list_pictures(options.images)).contiguous();
    entries.push_back(entry("image", image_NE));
  }
  if (!options.texts.empty()) {
    text_NE = encoder.texts(read_lines(options.texts)).contiguous();
    entries.push_back(entry("text", text_NE));
  }
  core::end_progress();
  core::write_safetensors(options.output, entries, {{"model", options.model}, {"pretrained", options.pretrained}});
  for (const auto& written : entries) core::log_info("{}: {} embeddings of width {} -> {}", written.name, written.shape[0], written.shape[1], options.output);
}

void classify(const spec::InferOptions& options) {
  ClipEncoder encoder(options);
  const auto files = list_pictures(options.images);
  const bool is_imagenet = options.classnames.empty();
  const auto names = data::read_class_names(is_imagenet ? data::find_clip_assets().imagenet_class_names() : std::filesystem::path(options.classnames));
  const auto templates =
      data::read_templates(options.templates.empty() ? data::find_clip_assets().openai_templates() : std::filesystem::path(options.templates));
  const auto class_KE = encoder.classes(names, templates);
  const auto picture_NE = encoder.pictures(files);
  core::end_progress();
  const auto probability_NK = (encoder.scale() * picture_NE.matmul(class_KE.t())).softmax(1);
  const auto [value, index] = probability_NK.topk(std::min<int64_t>(options.top_k, static_cast<int64_t>(names.size())), 1);
  std::string lines;
  for (size_t file = 0; file < files.size(); ++file) {
    core::Json classes = core::Json::array();
    for (int64_t k = 0; k < index.size(1); ++k)
      classes.push_back({{"name", names[static_cast<size_t>(index[static_cast<int64_t>(file)][k].item<int64_t>())]},
                         {"probability", value[static_cast<int64_t>(file)][k].item<double>()}});
    lines += core::Json{{"file", std::filesystem::relative(files[file], options.images).string()}, {"classes", classes}}.dump() + "\n";
  }
  if (options.output.empty()) {
    if (std::fwrite(lines.data(), 1, lines.size(), stdout) != lines.size() || std::fflush(stdout) != 0)
      throw EnvironmentError("infer: cannot write to standard output");
  } else {
    core::write_file_atomic(options.output, lines);
  }
  core::log_info("{} pictures, {} classes{}", files.size(), names.size(), options.output.empty() ? "" : " -> " + options.output);
}

}  // namespace lockstep::infer
