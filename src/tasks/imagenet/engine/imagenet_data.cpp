#include "tasks/imagenet/engine/imagenet_data.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "core/counted.h"
#include "core/log.h"
#include "core/strings.h"
#include "core/units.h"
#include "data/pictures/per_colour.h"
#include "data/pictures/picture_decoder.h"
#include "data/stage.h"
#include "tasks/imagenet/front/data_folder.h"
#include "train/agree.h"

namespace lockstep::tasks {
data::TransformConfig make_imagenet_transform(const ImagenetOptions& options, bool is_train, int64_t crop_pixels) {
  auto transform = data::imagenet_transform(is_train, static_cast<int>(crop_pixels),
                                            static_cast<int>(options.resize_pixels.value_or(0)));
  transform.resize_pixels = std::max(transform.resize_pixels, transform.image_pixels);
  transform.scale_min = options.scale[0];
  transform.scale_max = options.scale[1];
  transform.ratio_min = options.ratio[0];
  transform.ratio_max = options.ratio[1];
  transform.flip_probability = is_train ? options.hflip : 0;
  if (options.interpolation == "bicubic") transform.filter = data::ResizeFilter::kBicubic;
  if (options.jpeg_decode == "scaled") transform.jpeg_decode = data::JpegDecode::kScaled;
  transform.limits.max_pixels = options.max_image_pixels;
  transform.mean = data::per_colour(options.image_mean, transform.mean);
  transform.std = data::per_colour(options.image_std, transform.std);
  return transform;
}

data::AugmentConfig make_imagenet_augment(const ImagenetOptions& options) {
  data::AugmentConfig augment;
  augment.policy = data::parse_augment_policy(options.auto_augment);
  augment.magnitude = static_cast<int>(options.ra_magnitude);
  augment.erase_probability = options.random_erase;
  constexpr float kHighestLevel = 255;
  const auto mean = data::per_colour(options.image_mean, data::imagenet_transform(/*is_train=*/true).mean);
  for (size_t color = 0; color < mean.size(); ++color)
    augment.erase_color[color] = static_cast<uint8_t>(std::lround(std::clamp(mean[color], 0.0F, 1.0F) * kHighestLevel));
  return augment;
}

ImagenetData::ImagenetData(const ImagenetOptions& options, comm::World& world, const plan::BatchPlan& batch)
    : options_(options), rank_(world.rank()), world_size_(world.size()), batch_(batch),
      train_spec_(options.train_data) {
  std::exception_ptr failure;
  if (world.rank() == 0) {
    try {
      refuse_other_data_folder(options_, /*must_exist=*/true);
      if (has_validation() && options.has_made_up_data() && options.val_num_samples < world.size())
        throw UsageError(fmt::format("train: --val-num-samples {} are too few pictures for {}", options.val_num_samples,
                                     core::counted(world.size(), "rank")),
                         "make up one for each rank at least");
      const int64_t num_threads = std::max<int64_t>(1, options.workers);
      if (has_train()) data::prepare_index(train_source(), num_threads);
      if (has_validation()) {
        data::refuse_missing_shards(validation_source(), num_threads);
        open_validation(TellBadSamples::kNo)->next();  // the evaluation tells of those that it leaves out
      }
    } catch (...) {
      failure = std::current_exception();
    }
  }
  world.wait_for_rank_zero("it indexes the shards");
  stage(world);
  train::decide_on_rank_zero(world.comm(), [&] {
    if (failure) std::rethrow_exception(failure);
    if (!has_train()) return std::string();
    const auto size = epoch_size();
    core::log_info("data: {} ({}), {} of {} an epoch", core::counted(size.num_known, "picture"), size.origin,
                   core::counted(size.num_batches, "step"), core::counted(batch_.global_batch, "picture"));
    if (const auto warning = data::size_warning(train_source()); !warning.empty()) core::log_warning("{}", warning);
    return std::string();
  });
}

void ImagenetData::stage(comm::World& world) {
  if (options_.stage_to.empty() || !has_train()) return;
  const auto copy = [&] {
    const data::StageResult result = data::stage_data({.source = train_source(), .folder = options_.stage_to});
    train_spec_ = result.spec;
    if (rank_ == 0)
      core::log_info("data: {}, {}, {} '{}' in {:.1f} s", core::counted(result.num_files, "file"),
                     core::format_bytes(static_cast<double>(result.num_bytes)),
                     result.was_there ? "found in" : "copied to", options_.stage_to, result.seconds);
  };
  train::succeed_together(world.comm(), copy, [&] { world.wait_for_all("they copy the data to --stage-to"); });
}

bool ImagenetData::has_validation() const {
  if (options_.val_frequency_epochs == 0 && !options_.is_evaluate) return false;
  return options_.has_made_up_data() ? options_.val_num_samples > 0 : !options_.val_data.empty();
}

data::SourceConfig ImagenetData::train_source() const {
  data::SourceConfig config;
  config.spec = train_spec_;
  config.num_repeats = options_.dataset_repeat;
  config.type = data::parse_dataset_type(options_.dataset_type);
  config.num_samples = options_.train_num_samples.value_or(0);
  config.seed = static_cast<uint64_t>(options_.seed);
  config.rank = rank_;
  config.world_size = world_size_;
  config.global_batch = batch_.global_batch;
  config.num_lanes = options_.data_lanes;
  config.shuffle = options_.shuffle == "on";
  config.num_workers = std::max<int64_t>(1, options_.workers);
  config.micro_batch_size = batch_.micro_batch_size;
  config.need_text = false;
  config.need_label = true;
  config.num_classes = classifier_of(options_).num_classes;
  config.image_keys = core::split(options_.image_key, ";");
  config.csv_separator = options_.csv_separator;
  config.csv_image_key = options_.csv_img_key;
  config.csv_label_key = options_.csv_label_key;
  config.synthetic_pixels = options_.image_pixels;
  config.index_dir = options_.index_dir;
  config.keep_lost = options_.on_bad_sample == "skip";
  return config;
}

data::SourceConfig ImagenetData::validation_source() const {
  data::SourceConfig config = train_source();
  config.spec = options_.val_data;
  config.num_repeats = 1;
  config.type = data::parse_dataset_type(options_.validation_type());
  config.synthetic_pixels = options_.evaluation_pixels();
  config.num_samples = options_.has_made_up_data() ? options_.val_num_samples : 0;
  config.global_batch = world_size_;  // evaluation streams end where the data end
  config.shuffle = false;
  config.keep_lost = false;
  return config;
}

data::EpochSize ImagenetData::epoch_size() const { return data::epoch_size(train_source()); }

std::unique_ptr<data::Loader> ImagenetData::make_loader(std::unique_ptr<data::SampleSource> source, bool is_train,
                                                        TellBadSamples tells) const {
  const bool is_random = is_train && options_.train_transform == "train";
  data::LoaderConfig config;
  config.micro_batch_size = batch_.micro_batch_size;
  config.image_pixels = is_train ? options_.image_pixels : options_.evaluation_pixels();
  config.num_workers = std::max<int64_t>(1, options_.workers);
  config.prefetch_batches = 2 * (is_train ? batch_.num_micro_batches : 1);
  if (options_.on_bad_sample == "skip")
    config.on_bad_sample = is_train ? data::OnBadSample::kSkip : data::OnBadSample::kLeaveOut;
  config.may_leave_out = true;
  config.is_quiet = tells == TellBadSamples::kNo;
  if (options_.max_bad_samples) config.max_bad_samples = *options_.max_bad_samples;
  auto decoder =
      data::make_picture_decoder({.transform = make_imagenet_transform(options_, is_random, config.image_pixels),
                                  .augment = is_random ? make_imagenet_augment(options_) : data::AugmentConfig(),
                                  .image_keys = core::split(options_.image_key, ";"),
                                  .seed = static_cast<uint64_t>(options_.seed)});
  return std::make_unique<data::Loader>(std::move(source), std::move(decoder), config);
}

std::unique_ptr<data::Loader> ImagenetData::open_train(const core::Json& position) {
  auto source = data::open_train_source(train_source());
  if (!position.is_null()) source->seek(position);  // before the loader begins to read ahead
  return make_loader(std::move(source), true, TellBadSamples::kYes);
}

std::unique_ptr<data::Loader> ImagenetData::open_validation(TellBadSamples tells) const {
  return make_loader(data::open_eval_source(validation_source()), false, tells);
}

}  // namespace lockstep::tasks
