#include "train/clip_data.h"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/clip_assets.h"
#include "data/clip_decoder.h"
#include "train/agree.h"

namespace lockstep::train {

namespace {

/// --image-mean, --image-std: OpenAI's values when empty, one value for all colours, or three.
std::array<float, 3> per_colour(const std::vector<double>& values, const std::array<float, 3>& fallback) {
  if (values.empty()) return fallback;
  const auto value = [&](size_t colour) { return static_cast<float>(values.size() == 1 ? values[0] : values[colour]); };
  return {value(0), value(1), value(2)};
}

}  // namespace

void apply_preparation(const PreparationOptions& options, data::TransformConfig& transform) {
  if (options.interpolation == "bilinear") transform.filter = data::ResizeFilter::kBilinear;
  if (options.resize_mode == "longest") transform.resize_mode = data::ResizeMode::kLongest;
  if (options.resize_mode == "squash") transform.resize_mode = data::ResizeMode::kSquash;
  if (options.resize_order == "horizontal") transform.pass_order = data::PassOrder::kHorizontalFirst;
  transform.limits.max_pixels = options.max_image_pixels;
  transform.mean = per_colour(options.mean, transform.mean);
  transform.std = per_colour(options.std, transform.std);
}

data::TransformConfig make_transform(const spec::TrainOptions& options, const spec::ClipShape& shape, bool is_train) {
  data::TransformConfig transform;
  const auto augmentation = spec::parse_aug_cfg(options.aug_cfg);
  transform.image_pixels = static_cast<int>(shape.vision.image_size);
  transform.is_train = is_train;
  transform.scale_min = augmentation.scale_min;
  transform.scale_max = augmentation.scale_max;
  transform.ratio_min = augmentation.ratio_min;
  transform.ratio_max = augmentation.ratio_max;
  apply_preparation({options.image_interpolation, options.image_resize_mode, options.resize_order, options.image_mean, options.image_std,
                     options.max_image_pixels},
                    transform);
  return transform;
}

std::shared_ptr<const data::ClipTokenizer> load_tokenizer(const std::string& path) {
  return std::make_shared<const data::ClipTokenizer>(path.empty() ? data::find_clip_assets().vocabulary() : std::filesystem::path(path));
}

ClipData::ClipData(const spec::TrainOptions& options, const spec::ClipShape& shape, comm::World& world,
                   const plan::BatchPlan& batch)
    : options_(options),
      shape_(shape),
      rank_(world.rank()),
      world_size_(world.size()),
      batch_(batch),
      train_transform_(make_transform(options, shape, options.train_transform == "train")),
      eval_transform_(make_transform(options, shape, false)) {
  succeed_together(world.comm(), [&] { tokenizer_ = load_tokenizer(options.tokenizer_vocab); });
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
  decide_on_rank_zero(world.comm(), [&] {
    if (failure) std::rethrow_exception(failure);
    const auto size = data::epoch_size(config);
    core::log_info("data: {} samples ({}), {} steps of {} samples an epoch{}", size.num_known, size.origin, size.num_batches,
                   config.global_batch, indexed ? "; shards indexed" : "");
    return std::string();
  });
}

data::SourceConfig ClipData::train_source() const {
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
  config.samples_per_rank = batch_.samples_per_micro;
  config.image_keys = core::split(options_.image_key, ";");
  config.text_keys = core::split(options_.text_key, ";");
  config.csv_separator = options_.csv_separator;
  config.csv_image_key = options_.csv_img_key;
  config.csv_caption_key = options_.csv_caption_key;
  config.synthetic_pixels = shape_.vision.image_size;
  config.index_dir = options_.index_dir;
  return config;
}

data::SourceConfig ClipData::eval_source(const std::string& spec) const {
  data::SourceConfig config = train_source();
  config.spec = spec;
  config.type = data::DatasetType::kAuto;
  config.upsampling_factors.clear();
  config.resampled = false;
  config.num_samples = 0;
  config.shuffle = false;
  config.order = data::DataOrder::kLockstep;
  return config;
}

std::unique_ptr<data::Loader> ClipData::make_loader(std::unique_ptr<data::SampleSource> source, const data::TransformConfig& transform,
                                                    bool with_text, bool is_train) const {
  data::LoaderConfig config;
  config.samples_per_rank = batch_.samples_per_micro;
  config.image_pixels = shape_.vision.image_size;
  config.context_length = with_text ? shape_.text.context_length : 0;
  config.num_workers = std::max<int64_t>(1, options_.workers);
  config.prefetch_batches = 2 * (is_train ? batch_.num_micro : 1);
  if (options_.on_bad_sample == "skip" && is_train) config.on_bad_sample = data::OnBadSample::kSkip;
  if (options_.max_bad_samples) config.max_bad_samples = *options_.max_bad_samples;
  data::ClipDecoderConfig decoder{.transform = transform,
                                  .image_keys = core::split(options_.image_key, ";"),
                                  .text_keys = core::split(options_.text_key, ";"),
                                  .seed = static_cast<uint64_t>(options_.seed)};
  return std::make_unique<data::Loader>(std::move(source), data::make_clip_decoder(decoder, tokenizer_), config);
}

std::unique_ptr<data::Loader> ClipData::open_train(const core::Json& position) {
  auto source = data::open_train_source(train_source());
  if (!position.is_null()) source->seek(position);  // before the loader begins to read ahead
  return make_loader(std::move(source), train_transform_, true, true);
}

data::EpochSize ClipData::epoch_size() const { return data::epoch_size(train_source()); }

std::unique_ptr<data::Loader> ClipData::open_validation() {
  return make_loader(data::open_eval_source(eval_source(options_.val_data)), eval_transform_, true, false);
}

std::unique_ptr<data::Loader> ClipData::open_labelled(const std::string& spec) {
  auto config = eval_source(spec);
  config.need_text = false;
  config.need_label = true;
  return make_loader(data::open_eval_source(config), eval_transform_, false, false);
}

}  // namespace lockstep::train
