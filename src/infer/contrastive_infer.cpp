#include "infer/contrastive_infer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/print.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "data/pictures/clip_decoder.h"
#include "data/sounds/clap_decoder.h"
#include "data/text/class_names.h"
#include "data/text/clip_assets.h"
#include "data/text/tokenizer.h"
#include "infer/caption_search.h"
#include "infer/class_results.h"
#include "infer/file_list.h"
#include "models/clip/clip_model.h"
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
    data::Loader loader(file_list_source(files), make_decoder(), loader_config());
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
  /// The caption of each picture, in order.
  std::vector<std::string> captions(const std::vector<std::filesystem::path>& files);
  double scale() { return model_->logit_scale().detach().to(at::kDouble).exp().item<double>(); }

 private:
  data::LoaderConfig loader_config() const {
    data::LoaderConfig config{.micro_batch_size = options_.samples_per_batch};
    if (is_audio())
      config.clip_samples = shape_.clap()->audio.clip_samples;
    else
      config.image_pixels = shape_.clip()->vision.image_size;
    config.num_workers = std::max<int64_t>(1, options_.workers);
    return config;
  }

  /// How captions are searched; they begin and end with CLIP's tokens.
  CaptionSearch caption_search() const {
    const bool is_top_k = options_.caption_search == "top-k", is_top_p = options_.caption_search == "top-p";
    return {.is_beam_search = options_.caption_search == "beam",
            .num_beams = options_.num_beams,
            .choice = {.is_greedy = !is_top_k && !is_top_p,
                       .temperature = options_.temperature,
                       .top_k = is_top_k ? options_.caption_top_k : 0,
                       .top_p = is_top_p ? options_.caption_top_p : 1.0},
            .seed = static_cast<uint64_t>(options_.seed),
            .longest = options_.longest_caption,
            .shortest = options_.shortest_caption,
            .start_id = data::ClipTokenizer::kStartOfText,
            .end_id = data::ClipTokenizer::kEndOfText,
            .pad_id = data::ClipTokenizer::kPadding};
  }

  models::ClipModel& captioning_model() {
    auto* clip = dynamic_cast<models::ClipModel*>(model_.get());
    if (clip == nullptr || !clip->has_captions())
      throw UsageError(fmt::format("infer: model '{}' makes no captions", options_.model),
                       "take a CoCa model: coca_ViT-B-32, coca_ViT-L-14");
    const auto& text = clip->shape().text;
    if (text.tokens != config::TextTokens::kClip || text.vocab_size <= data::ClipTokenizer::kEndOfText)
      throw UsageError(fmt::format("infer: the captions of model '{}' are not in CLIP's tokens", options_.model));
    if (options_.longest_caption > text.context_length)
      throw UsageError(fmt::format("infer: --max-tokens {} is more than the {} tokens of model '{}'",
                                   options_.longest_caption, text.context_length, options_.model),
                       "give a smaller one");
    return *clip;
  }

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

std::vector<std::string> Encoder::captions(const std::vector<std::filesystem::path>& files) {
  models::ClipModel& model = captioning_model();
  const data::ClipTokenizer tokenizer(options_.tokenizer_vocab.empty()
                                          ? data::find_clip_assets().vocabulary()
                                          : std::filesystem::path(options_.tokenizer_vocab));
  model.set_training(false);
  const c10::NoGradGuard no_grad;
  data::Loader loader(file_list_source(files), make_decoder(), loader_config());
  CaptionSearch search = caption_search();
  const auto progress = context("captions", std::ssize(files)).on_progress;
  std::vector<std::string> captions;
  for (data::HostBatch host = loader.next(); host.num_samples > 0; host = loader.next()) {
    const auto batch = mover_->to_device(host);
    const auto autocast = precision_.autocast();
    const at::Tensor picture_BSD = model.image_features(batch.image_BCYX).tokens_BTD;
    const NextLogits next_logits = [&](const at::Tensor& picture_N, const at::Tensor& ids_NT) {
      const at::Tensor logits_NTV =
          model.caption_logits(picture_BSD.index_select(0, picture_N.to(device_)), ids_NT.to(device_));
      return logits_NTV.select(1, ids_NT.size(1) - 1).to(at::kFloat).cpu();
    };
    for (std::vector<int32_t>& ids : search_captions(next_logits, batch.num_samples, search)) {
      std::erase_if(ids, [&](int32_t id) { return id == search.start_id || id == search.end_id; });
      captions.emplace_back(core::trim(tokenizer.decode(ids)));
    }
    search.seed += 1;  // pictures of the next batch draw other numbers
    progress(std::ssize(captions));
  }
  return captions;
}

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

void caption(const config::InferOptions& options) {
  Encoder encoder(options);
  const auto files = list_files(options.images, /*is_audio=*/false);
  const auto captions = encoder.captions(files);
  core::end_progress();
  std::string lines;
  for (size_t i = 0; i < files.size(); ++i) {
    const core::Json line = {{"file", files[i].lexically_relative(options.images).string()}, {"caption", captions[i]}};
    lines += line.dump(-1, ' ', false, core::Json::error_handler_t::replace) + "\n";
  }
  if (options.output.empty())
    core::print("{}", lines);
  else
    core::write_file_atomic(options.output, lines);
  core::log_info("{} pictures{}", files.size(), options.output.empty() ? "" : " -> " + options.output);
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
