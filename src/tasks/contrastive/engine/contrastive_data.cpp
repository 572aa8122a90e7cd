#include "tasks/contrastive/engine/contrastive_data.h"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/pictures/clip_decoder.h"
#include "data/pictures/per_colour.h"
#include "data/sounds/clap_decoder.h"
#include "data/text/clip_assets.h"
#include "data/text/piece_encoder.h"
#include "data/text/roberta_tokenizer.h"
#include "data/text/tokenizer.h"
#include "data/text/word_pieces.h"
#include "tasks/contrastive/front/aug_cfg.h"
#include "tasks/contrastive/front/text_ids.h"
#include "train/agree.h"

namespace lockstep::tasks {

namespace {

data::AugmentConfig make_augment(const std::vector<std::string>& aug_cfg) {
  const AugConfig config = parse_aug_cfg(aug_cfg);
  return {.jitter = config.color_jitter,
          .jitter_probability = config.color_jitter_prob,
          .grey_probability = config.gray_scale_prob};
}

data::TextCleaning cleaning_of(const config::TextShape& text) {
  using config::TextCleaning;
  const TextCleaning cleaning = text.used_cleaning();
  if (cleaning == TextCleaning::kCanonical) return data::TextCleaning::kCanonical;
  return cleaning == TextCleaning::kLower ? data::TextCleaning::kLower : data::TextCleaning::kWhiteSpace;
}

data::TextEncoder load_clip_text_encoder(const std::string& path, data::TextCleaning cleaning) {
  const auto tokenizer = std::make_shared<const data::ClipTokenizer>(
      path.empty() ? data::find_clip_assets().vocabulary() : std::filesystem::path(path), cleaning);
  return [tokenizer](std::string_view utf8, std::span<int32_t> out) { tokenizer->encode(utf8, out); };
}

/// Every text is the same row of ids, up to the model's length.
data::TextEncoder made_up_texts(int64_t context_length, int64_t vocab_size, int64_t pad_id) {
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < context_length; ++t) {
    const int64_t id = t % (vocab_size - 1);
    ids.push_back(static_cast<int32_t>(id < pad_id ? id : id + 1));
  }
  return data::make_constant_encoder(ids, static_cast<int32_t>(pad_id));
}

data::TextEncoder load_roberta_text_encoder(const std::string& path, const config::RobertaShape& shape,
                                            std::optional<data::TextCleaning> cleaning) {
  const auto tokenizer = std::make_shared<const data::RobertaTokenizer>(path, cleaning);
  if (tokenizer->vocab_size() > shape.vocab_size || tokenizer->padding_id() != shape.pad_id)
    throw UsageError(
        fmt::format(
            "train: the tokenizer '{}' has {} tokens and pads with {}, the model takes {} tokens and pads with {}",
            path, tokenizer->vocab_size(), tokenizer->padding_id(), shape.vocab_size, shape.pad_id),
        "give the vocabulary that belongs to --model");
  return [tokenizer](std::string_view utf8, std::span<int32_t> out) { tokenizer->encode(utf8, out); };
}

data::TextEncoder load_piece_encoder(const std::string& path, const config::TextShape& text) {
  using config::TextTokens;
  using data::PieceFrame;
  const PieceFrame frame = text.tokens == TextTokens::kXlmRoberta ? PieceFrame::kXlmRoberta
                           : text.tokens == TextTokens::kGemma    ? PieceFrame::kGemma
                           : text.tokens == TextTokens::kMt5      ? PieceFrame::kMt5
                           : text.tokens == TextTokens::kNllb     ? PieceFrame::kNllb
                                                                  : PieceFrame::kT5;
  return data::make_piece_encoder({.model = path,
                                   .frame = frame,
                                   .cleaning = cleaning_of(text),
                                   .vocab_size = config::num_text_ids(text),
                                   .language = text.language});
}

/// What --tokenizer-vocab must be for a model whose tokens are not CLIP's.
const char* tokenizer_hint(config::TextTokens tokens) {
  if (tokens == config::TextTokens::kWordPiece)
    return "give bert-base-uncased's vocab.txt, or fetch it into the local cache with `hf download "
           "google-bert/bert-base-uncased`";
  return tokens == config::TextTokens::kRoberta
             ? "give the folder with roberta-base's vocab.json and merges.txt, or fetch it into the local cache with "
               "`hf download FacebookAI/roberta-base`"
         : tokens == config::TextTokens::kXlmRoberta
             ? "give its SentencePiece file: `hf download FacebookAI/xlm-roberta-base sentencepiece.bpe.model`"
         : tokens == config::TextTokens::kNllb
             ? "give its SentencePiece file: `hf download facebook/nllb-200-distilled-600M sentencepiece.bpe.model`"
         : tokens == config::TextTokens::kSentencePiece
             ? "give its SentencePiece file: `hf download google/siglip-base-patch16-224 spiece.model`"
             : "give its SentencePiece file: tokenizer.model of Gemma (SigLIP2), spiece.model of mT5 (`hf download "
               "google/mt5-base spiece.model`)";
}

data::TextEncoder load_clip_model_text_encoder(const std::string& path, const config::ClipShape& shape) {
  const config::TextShape& text = shape.text;
  check_text_ids(shape);
  if (text.tokens == config::TextTokens::kClip) return load_clip_text_encoder(path, cleaning_of(text));
  if (path.empty())
    return [name = shape.name, tokens = text.tokens](std::string_view, std::span<int32_t>) {
      throw UsageError(fmt::format("train: texts of model '{}' need --tokenizer-vocab", name), tokenizer_hint(tokens));
    };
  if (text.tokens == config::TextTokens::kRoberta)
    return load_roberta_text_encoder(path, text.roberta, cleaning_of(text));
  if (text.tokens == config::TextTokens::kWordPiece)
    return data::make_word_piece_encoder(path, text.vocab_size, cleaning_of(text));
  return load_piece_encoder(path, text);
}

}  // namespace

void apply_preparation(const PreparationOptions& options, data::TransformConfig& transform) {
  if (options.interpolation == "bilinear") transform.filter = data::ResizeFilter::kBilinear;
  if (options.resize_mode == "longest") transform.resize_mode = data::ResizeMode::kLongest;
  if (options.resize_mode == "squash") transform.resize_mode = data::ResizeMode::kSquash;
  if (options.fill_color) transform.fill_color = static_cast<uint8_t>(*options.fill_color);
  if (options.resize_order == "horizontal") transform.pass_order = data::PassOrder::kHorizontalFirst;
  transform.limits.max_pixels = options.max_image_pixels;
  transform.mean = data::per_colour(options.mean, transform.mean);
  transform.std = data::per_colour(options.std, transform.std);
}

data::TransformConfig make_transform(const ContrastiveOptions& options, const config::ClipShape& shape, bool is_train) {
  data::TransformConfig transform;
  const auto augmentation = parse_aug_cfg(options.aug_cfg);
  transform.image_pixels = static_cast<int>(shape.vision.image_size);
  transform.is_train = is_train;
  transform.scale_min = augmentation.scale_min;
  transform.scale_max = augmentation.scale_max;
  transform.ratio_min = augmentation.ratio_min;
  transform.ratio_max = augmentation.ratio_max;
  apply_preparation({options.image_interpolation, options.image_resize_mode, options.image_fill_color,
                     options.resize_order, options.image_mean, options.image_std, options.max_image_pixels},
                    transform);
  if (is_train) transform.filter = data::ResizeFilter::kBicubic;  // OpenCLIP's random crops have no other
  return transform;
}

data::WaveformConfig make_waveform(const SoundOptions& options, const config::AudioShape& shape, bool is_train) {
  data::WaveformConfig waveform;
  waveform.sample_rate = shape.sample_rate;
  waveform.clip_samples = shape.clip_samples;
  waveform.fill = data::parse_audio_fill(options.fill);
  waveform.crop = data::parse_audio_crop(options.trunc);
  if (!is_train && waveform.crop == data::AudioCrop::kRandom) waveform.crop = data::AudioCrop::kFront;
  waveform.int16_round_trip = options.int16_normalize;
  return waveform;
}

train::BatchMover::TextPlace text_place(const config::ContrastiveShape& shape) {
  return shape.packs_texts() ? train::BatchMover::TextPlace::kHost : train::BatchMover::TextPlace::kDevice;
}

train::BatchMover make_batch_mover(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                                   at::Device device, at::ScalarType input_type) {
  const auto transform =
      shape.clip() != nullptr ? make_transform(options, *shape.clip(), /*is_train=*/false) : data::TransformConfig{};
  return train::BatchMover(device, input_type, transform.mean, transform.std, text_place(shape));
}

data::TextEncoder load_text_encoder(const std::string& path, const config::ContrastiveShape& shape) {
  if (const auto* clip = shape.clip()) return load_clip_model_text_encoder(path, *clip);
  const config::RobertaShape& text = shape.clap()->text;
  return path.empty() ? made_up_texts(text.context_length, text.vocab_size, text.pad_id)
                      : load_roberta_text_encoder(path, text, std::nullopt);
}

data::TextEncoder ContrastiveData::open_text_encoder() const {
  const auto* clip = shape_.clip();
  const bool has_own_tokens = clip != nullptr && clip->text.tokens != config::TextTokens::kClip;
  if (!has_own_tokens || !options_.tokenizer_vocab.empty()) return load_text_encoder(options_.tokenizer_vocab, shape_);
  if (!options_.val_data.empty() || options_.has_zero_shot() || !options_.has_made_up_data())
    throw UsageError(fmt::format("train: texts of model '{}' need --tokenizer-vocab", clip->name),
                     tokenizer_hint(clip->text.tokens));
  const config::TextShape& text = clip->text;
  return made_up_texts(text.context_length, config::num_text_ids(text), text.pad_id);
}

ContrastiveData::ContrastiveData(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                                 comm::World& world, const plan::BatchPlan& batch)
    : options_(options), shape_(shape), rank_(world.rank()), world_size_(world.size()), batch_(batch) {
  train::succeed_together(world.comm(), [&] { text_encoder_ = open_text_encoder(); });
  if (!has_train()) return;
  const auto config = train_source();
  std::exception_ptr failure;
  bool indexed = false;
  if (world.rank() == 0) {
    try {
      indexed = data::prepare_index(config, std::max<int64_t>(1, options.workers));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  world.wait_for_rank_zero("it indexes the shards");  // hours, where there are many
  train::decide_on_rank_zero(world.comm(), [&] {
    if (failure) std::rethrow_exception(failure);
    const auto size = data::epoch_size(config);
    core::log_info("data: {} ({}), {} of {} an epoch{}", core::counted(size.num_known, "sample"), size.origin,
                   core::counted(size.num_batches, "step"), core::counted(config.global_batch, "sample"),
                   indexed ? "; shards indexed" : "");
    if (const auto warning = data::size_warning(config); !warning.empty()) core::log_warning("{}", warning);
    return std::string();
  });
}

data::SourceConfig ContrastiveData::train_source() const {
  data::SourceConfig config;
  config.spec = options_.train_data;
  config.type = data::parse_dataset_type(options_.dataset_type);
  config.upsampling_factors = options_.train_data_upsampling_factors.value_or("");
  config.resampled = options_.dataset_resampled;
  config.num_samples = options_.train_num_samples.value_or(0);
  config.seed = static_cast<uint64_t>(options_.seed);
  config.rank = rank_;
  config.world_size = world_size_;
  config.global_batch = batch_.global_batch;
  config.num_lanes = options_.data_lanes;
  config.shuffle = options_.shuffle == "on";
  config.order = data::parse_data_order(options_.data_order);
  config.num_workers = std::max<int64_t>(1, options_.workers);
  config.micro_batch_size = batch_.micro_batch_size;
  config.image_keys = core::split(options_.image_key, ";");
  config.text_keys = options_.json_text_key ? std::vector<std::string>{"json"} : core::split(options_.text_key, ";");
  config.csv_separator = options_.csv_separator;
  config.csv_image_key = options_.csv_img_key;
  config.csv_caption_key = options_.csv_caption_key;
  config.csv_label_key = options_.csv_label_key;
  if (shape_.clip() != nullptr) config.synthetic_pixels = shape_.clip()->vision.image_size;
  if (shape_.clap() != nullptr) {
    config.need_image = false;
    config.need_audio = true;
    config.audio_keys = core::split(options_.audio_ext, ";");
    if (config.type == data::DatasetType::kSynthetic) config.type = data::DatasetType::kSyntheticAudio;
  }
  config.index_dir = options_.index_dir;
  config.keep_lost = options_.on_bad_sample == "skip";
  return config;
}

data::SourceConfig ContrastiveData::eval_source(const std::string& spec) const {
  data::SourceConfig config = train_source();
  config.spec = spec;
  config.type = data::DatasetType::kAuto;
  config.upsampling_factors.clear();
  config.resampled = false;
  config.num_samples = 0;
  config.shuffle = false;
  config.order = data::DataOrder::kLockstep;
  config.keep_lost = false;
  return config;
}

data::JsonCaptionKeys ContrastiveData::json_caption_keys(bool is_train) const {
  if (!options_.json_text_key) return {};
  return {.keys = core::split(*options_.json_text_key, ";"),
          .weights = is_train ? options_.json_text_key_probs : std::vector<double>()};
}

data::SampleDecoder ContrastiveData::make_decoder(bool is_train) const {
  const auto text_keys = core::split(options_.text_key, ";");
  const auto seed = static_cast<uint64_t>(options_.seed);
  const bool is_random = is_train && options_.train_transform == "train";
  if (const auto* clap = shape_.clap())
    return data::make_clap_decoder(
        {.waveform = make_waveform({options_.audio_fill, options_.audio_trunc, options_.audio_int16_normalize},
                                   clap->audio, is_random),
         .audio_keys = core::split(options_.audio_ext, ";"),
         .text_keys = text_keys,
         .is_train = is_random,
         .seed = seed},
        text_encoder_);
  return data::make_clip_decoder({.transform = make_transform(options_, *shape_.clip(), is_random),
                                  .augment = is_random ? make_augment(options_.aug_cfg) : data::AugmentConfig{},
                                  .image_keys = core::split(options_.image_key, ";"),
                                  .text_keys = text_keys,
                                  .json_keys = json_caption_keys(is_train),
                                  .seed = seed},
                                 text_encoder_);
}

std::unique_ptr<data::Loader> ContrastiveData::make_loader(std::unique_ptr<data::SampleSource> source, bool with_text,
                                                           bool is_train) const {
  data::LoaderConfig config;
  config.micro_batch_size = batch_.micro_batch_size;
  if (shape_.clip() != nullptr) config.image_pixels = shape_.clip()->vision.image_size;
  if (shape_.clap() != nullptr) config.clip_samples = shape_.clap()->audio.clip_samples;
  config.context_length = with_text ? shape_.context_length() : 0;
  config.num_workers = std::max<int64_t>(1, options_.workers);
  config.prefetch_batches = 2 * (is_train ? batch_.num_micro_batches : 1);
  if (options_.on_bad_sample == "skip")
    config.on_bad_sample = is_train ? data::OnBadSample::kSkip : data::OnBadSample::kLeaveOut;
  config.may_leave_out = true;
  if (options_.max_bad_samples) config.max_bad_samples = *options_.max_bad_samples;
  return std::make_unique<data::Loader>(std::move(source), make_decoder(is_train), config);
}

std::unique_ptr<data::Loader> ContrastiveData::open_train(const core::Json& position) {
  auto source = data::open_train_source(train_source());
  if (!position.is_null()) data::seek_source(*source, position);  // before the loader begins to read ahead
  return make_loader(std::move(source), true, true);
}

data::EpochSize ContrastiveData::epoch_size() const { return data::epoch_size(train_source()); }

void ContrastiveData::refuse_missing(const std::string& spec) const {
  data::refuse_missing_shards(eval_source(spec), std::max<int64_t>(1, options_.workers));
}

std::unique_ptr<data::Loader> ContrastiveData::open_validation() {
  return make_loader(data::open_eval_source(eval_source(options_.val_data)), true, false);
}

std::unique_ptr<data::Loader> ContrastiveData::open_labelled(const std::string& spec, bool numbered_classes) {
  auto config = eval_source(spec);
  config.need_text = false;
  config.need_label = true;
  config.numbered_classes = numbered_classes;
  return make_loader(data::open_eval_source(config), false, false);
}

}  // namespace lockstep::tasks
