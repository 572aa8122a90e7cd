#include "infer/encoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "config/pretrained_weights.h"
#include "config/shape_facts.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/pictures/clip_decoder.h"
#include "data/sounds/clap_decoder.h"
#include "data/sounds/sound_caption.h"
#include "data/text/clip_assets.h"
#include "hw/device.h"
#include "infer/file_list.h"
#include "models/weights.h"
#include "tasks/contrastive/engine/contrastive_data.h"
#include "tasks/contrastive/engine/towers_build.h"
#include "train/device.h"

namespace lockstep::infer {

Encoder::Encoder(const config::InferOptions& options, const hw::RankInfo& ranks)
    : options_(options), device_(train::pick_device(options.device, options.gpu_math, ranks)),
      precision_(options.precision, device_.type()) {
  const int64_t share = std::max<int64_t>(1, hw::usable_cpu_cores() / std::max(1, ranks.local_world_size));
  if (options.threads > 0 || ranks.local_world_size > 1)
    at::set_num_threads(static_cast<int>(options.threads > 0 ? options.threads : share));
  shape_ = config::resolve_contrastive_shape(
      options.model, config::is_clap_model(options.model),
      config::forced_overrides(options.force_image_size, options.force_context_length, options.force_quick_gelu));
  if (const config::ClipShape* clip = shape_.clip())
    if (const auto warning = config::gelu_warning(options.pretrained, options.model, clip->quick_gelu);
        !warning.empty())
      core::log_warning("{}", warning);
  encoder_ = tasks::load_text_encoder(options.tokenizer_vocab, shape_);
  model_ = tasks::build_towers(shape_, {.precision = &precision_, .device = device_, .pretrained = options.pretrained});
  const auto transform = make_transform();
  mover_.emplace(device_, precision_.input_type(), transform.mean, transform.std, tasks::text_place(shape_));
  engine_.emplace(*model_, *mover_, precision_, tasks::Weights::kFixed,
                  nn::call_recorder(options.cuda_graphs, device_));
}

at::Tensor Encoder::files(const std::vector<std::filesystem::path>& files, BadSamples& bad) {
  data::Loader loader(file_list_source(files), tolerant_decoder(make_decoder(), bad),
                      loader_config(/*has_other=*/true, /*has_text=*/false));
  return tasks::encode_all(context(what(), static_cast<int64_t>(files.size())), loader).image_NE;
}

at::Tensor Encoder::texts(const std::vector<std::string>& lines) {
  return tasks::encode_texts(context("texts", static_cast<int64_t>(lines.size())), encoder_, shape_.context_length(),
                             lines, options_.samples_per_batch);
}

std::vector<size_t> Encoder::cut_texts(const std::vector<std::string>& lines) const {
  const auto length = static_cast<size_t>(shape_.context_length());
  std::vector<int32_t> ids(length), longer(length + 1);
  std::vector<size_t> cut;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::fill(ids.begin(), ids.end(), 0);
    std::fill(longer.begin(), longer.end(), 0);
    encoder_(lines[i], ids);
    encoder_(lines[i], longer);
    if (!std::equal(ids.begin(), ids.end(), longer.begin())) cut.push_back(i);  // its end came early
  }
  return cut;
}

at::Tensor Encoder::classes(const std::vector<std::string>& names, const std::vector<std::string>& templates) {
  return tasks::zero_shot_classifier(
      context("prompts of classes", static_cast<int64_t>(names.size() * templates.size())), encoder_,
      shape_.context_length(), names, templates, options_.samples_per_batch);
}

double Encoder::scale() { return model_->logit_scale().detach().to(at::kDouble).exp().item<double>(); }

int64_t Encoder::embed_dim() const { return is_audio() ? shape_.clap()->embed_dim : shape_.clip()->embed_dim; }

data::TransformConfig Encoder::make_transform() const {
  data::TransformConfig transform;
  if (is_audio()) return transform;
  transform.image_pixels = static_cast<int>(shape_.clip()->vision.image_size);
  tasks::apply_preparation({options_.image_interpolation, options_.image_resize_mode, options_.image_fill_color,
                            options_.resize_order, options_.image_mean, options_.image_std, options_.max_image_pixels},
                           transform);
  return transform;
}

data::SampleDecoder Encoder::make_decoder() const {
  if (!is_audio())
    return data::make_clip_decoder(
        {.transform = make_transform(), .image_keys = image_keys(), .text_keys = text_keys()}, encoder_);
  const tasks::SoundOptions sound{options_.audio_fill, options_.audio_trunc, options_.audio_int16_normalize};
  return data::make_clap_decoder({.waveform = tasks::make_waveform(sound, shape_.clap()->audio, false),
                                  .audio_keys = audio_keys(),
                                  .text_keys = text_keys()},
                                 encoder_);
}

std::vector<std::string> Encoder::image_keys() const {
  return options_.image_key.empty() ? data::default_image_keys() : core::split(options_.image_key, ";");
}

std::vector<std::string> Encoder::audio_keys() const {
  return options_.audio_ext.empty() ? data::default_audio_keys() : core::split(options_.audio_ext, ";");
}

std::vector<std::string> Encoder::text_keys() const {
  if (!options_.text_key.empty()) return core::split(options_.text_key, ";");
  return is_audio() ? core::split(data::kSoundTextKeys, ";") : data::ClipDecoderConfig().text_keys;
}

data::LoaderConfig Encoder::loader_config(bool has_other, bool has_text) const {
  data::LoaderConfig config{.micro_batch_size = options_.samples_per_batch};
  if (has_other && is_audio()) config.clip_samples = shape_.clap()->audio.clip_samples;
  if (has_other && !is_audio()) config.image_pixels = shape_.clip()->vision.image_size;
  if (has_text) config.context_length = shape_.context_length();
  config.num_workers = std::max<int64_t>(1, options_.workers);
  return config;
}

std::string Encoder::weights_hash() const {
  std::string digests;
  for (const auto& [name, tensor] : models::named_values(*model_)) {
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    digests += name + core::xxh3_hex({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
  return core::xxh3_hex(digests);
}

/// A folder has several files, of which the tokenizer takes some; "" where texts are made up of no file.
std::string Encoder::vocabulary_hash() const {
  const config::ClipShape* clip = shape_.clip();
  std::filesystem::path path = options_.tokenizer_vocab;
  if (path.empty() && clip != nullptr && clip->text.tokens == config::TextTokens::kClip)
    path = data::find_clip_assets().vocabulary();
  if (path.empty()) return "";
  if (!std::filesystem::is_directory(path)) return core::xxh3_hex(core::read_file(path));
  std::string digests;
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt"})
    if (std::filesystem::exists(path / name)) digests += name + core::xxh3_hex(core::read_file(path / name));
  return core::xxh3_hex(digests);
}

core::Json Encoder::preparation() const {
  const data::TransformConfig transform = make_transform();
  core::Json facts{{"pixels", transform.image_pixels},
                   {"mean", transform.mean},
                   {"std", transform.std},
                   {"interpolation", options_.image_interpolation.value_or("bicubic")},
                   {"resize_mode", options_.image_resize_mode.value_or("shortest")},
                   {"resize_order", options_.resize_order},
                   {"audio_fill", options_.audio_fill},
                   {"audio_trunc", options_.audio_trunc},
                   {"context_length", shape_.context_length()}};
  if (transform.fill_color != 0) facts["fill_color"] = transform.fill_color;
  if (is_audio())
    facts["audio_int16_normalize"] = options_.audio_int16_normalize;
  else
    facts["max_image_pixels"] = options_.max_image_pixels;
  return facts;
}

core::Json Encoder::origin(bool has_text) const {
  core::Json facts{{"weights", weights_hash()}, {"shape", config::shape_facts(shape_)}, {"preparation", preparation()}};
  if (const std::string hash = has_text ? vocabulary_hash() : ""; !hash.empty()) facts["vocabulary"] = hash;
  return facts;
}

/// Tells how far the work has come: on a terminal at once, else now and then.
tasks::EncoderContext Encoder::context(const std::string& what, int64_t total) {
  const auto report = [what, total, tell = core::progress_teller()](int64_t done) {
    tell(fmt::format("{} of {} {}", std::min(done, total), total, what));
  };
  return {*engine_, one_rank_, report};
}

}  // namespace lockstep::infer
