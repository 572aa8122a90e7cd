#include "infer/contrastive_infer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/safetensors.h"
#include "data/pictures/clip_decoder.h"
#include "data/sounds/clap_decoder.h"
#include "data/text/class_names.h"
#include "data/text/clip_assets.h"
#include "infer/class_results.h"
#include "infer/file_list.h"
#include "tasks/contrastive/engine/contrastive_data.h"
#include "tasks/contrastive/engine/evaluator.h"
#include "tasks/contrastive/engine/towers_build.h"
#include "train/device.h"

namespace lockstep::infer {
namespace {

/// A loaded model with all that feeds it. One rank.
class Encoder {
 public:
  explicit Encoder(const config::InferOptions& options)
      : options_(options), device_(train::pick_device(options.device)), precision_(options.precision, device_.type()) {
    if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
    shape_ = config::resolve_contrastive_shape(
        options.model, config::is_clap_model(options.model),
        config::forced_overrides(options.force_image_size, options.force_context_length, options.force_quick_gelu));
    encoder_ = tasks::load_text_encoder(options.tokenizer_vocab, shape_);
    model_ =
        tasks::build_towers(shape_, {.precision = &precision_, .device = device_, .pretrained = options.pretrained});
    const auto transform = make_transform();
    mover_.emplace(device_, precision_.input_type(), transform.mean, transform.std);
  }

  bool is_audio() const { return shape_.clap() != nullptr; }
  const char* what() const { return is_audio() ? "sounds" : "pictures"; }

  at::Tensor files(const std::vector<std::filesystem::path>& files) {
    data::LoaderConfig config{.micro_batch_size = options_.samples_per_batch};
    if (is_audio())
      config.clip_samples = shape_.clap()->audio.clip_samples;
    else
      config.image_pixels = shape_.clip()->vision.image_size;
    config.num_workers = std::max<int64_t>(1, options_.workers);
    data::Loader loader(file_list_source(files), make_decoder(), config);
    return tasks::encode_all(context(what(), static_cast<int64_t>(files.size())), loader).image_NE;
  }
  at::Tensor texts(const std::vector<std::string>& lines) {
    return tasks::encode_texts(context("texts", static_cast<int64_t>(lines.size())), encoder_, shape_.context_length(),
                               lines, options_.samples_per_batch);
  }
  at::Tensor classes(const std::vector<std::string>& names, const std::vector<std::string>& templates) {
    return tasks::zero_shot_classifier(
        context("prompts of classes", static_cast<int64_t>(names.size() * templates.size())), encoder_,
        shape_.context_length(), names, templates, options_.samples_per_batch);
  }
  double scale() { return model_->logit_scale().detach().to(at::kDouble).exp().item<double>(); }

 private:
  data::TransformConfig make_transform() const {
    data::TransformConfig transform;
    if (is_audio()) return transform;
    transform.image_pixels = static_cast<int>(shape_.clip()->vision.image_size);
    tasks::apply_preparation({options_.image_interpolation, options_.image_resize_mode, options_.resize_order,
                              options_.image_mean, options_.image_std, options_.max_image_pixels},
                             transform);
    return transform;
  }

  data::SampleDecoder make_decoder() const {
    if (!is_audio()) return data::make_clip_decoder({.transform = make_transform()}, encoder_);
    const tasks::SoundOptions sound{options_.audio_fill, options_.audio_trunc, options_.audio_int16_normalize};
    return data::make_clap_decoder({.waveform = tasks::make_waveform(sound, shape_.clap()->audio, false)}, encoder_);
  }

  /// Tells how far the work has come: on a terminal at once, else now and then.
  tasks::EncoderContext context(const std::string& what, int64_t total) {
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

  const config::InferOptions& options_;
  at::Device device_;
  train::Precision precision_;
  config::ContrastiveShape shape_;
  data::TextEncoder encoder_;
  std::unique_ptr<models::TwoTowers> model_;
  std::optional<train::BatchMover> mover_;
  comm::Comm one_rank_;
};

core::SafetensorsEntry entry(const std::string& name, const at::Tensor& feature_NE) {
  return {
      .name = name,
      .dtype = "F32",
      .shape = feature_NE.sizes().vec(),
      .bytes = std::as_bytes(std::span(feature_NE.const_data_ptr<float>(), static_cast<size_t>(feature_NE.numel())))};
}

}  // namespace

void embed(const config::InferOptions& options) {
  Encoder encoder(options);
  at::Tensor other_NE, text_NE;
  std::vector<core::SafetensorsEntry> entries;
  std::map<std::string, std::string> facts{{"model", options.model}, {"pretrained", options.pretrained}};
  if (!options.input().empty()) {
    const auto files = list_files(options.input(), encoder.is_audio());
    core::Json names = core::Json::array();
    for (const auto& file : files) names.push_back(file.lexically_relative(options.input()).string());
    facts["files"] = names.dump(-1, ' ', false, core::Json::error_handler_t::replace);
    other_NE = encoder.files(files).contiguous();
    entries.push_back(entry(encoder.is_audio() ? "audio" : "image", other_NE));
  }
  if (!options.texts.empty()) {
    text_NE = encoder.texts(read_lines(options.texts)).contiguous();
    entries.push_back(entry("text", text_NE));
  }
  core::end_progress();
  core::write_safetensors(options.output, entries, facts);
  for (const auto& written : entries)
    core::log_info("{}: {} embeddings of width {} -> {}", written.name, written.shape[0], written.shape[1],
                   options.output);
}

void classify(const config::InferOptions& options) {
  Encoder encoder(options);
  const auto files = list_files(options.input(), encoder.is_audio());
  const auto names = data::read_class_names(options.classnames);
  const auto templates = !options.templates.empty() ? data::read_templates(options.templates)
                         : encoder.is_audio()       ? std::vector<std::string>{tasks::kSoundTemplate}
                                                    : data::read_templates(data::find_clip_assets().openai_templates());
  const auto class_KE = encoder.classes(names, templates);
  const auto other_NE = encoder.files(files);
  core::end_progress();
  const auto probability_NK = (encoder.scale() * other_NE.matmul(class_KE.t())).softmax(1);
  write_class_results(probability_NK, names, files, options);
  core::log_info("{} {}, {} classes{}", files.size(), encoder.what(), names.size(),
                 options.output.empty() ? "" : " -> " + options.output);
}

}  // namespace lockstep::infer
