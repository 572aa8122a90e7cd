#include "bench/loader_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/loader_drive.h"
#include "bench/sample_stats.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/strings.h"
#include "plan/batch_plan.h"
#include "stats/statistics.h"
#include "tasks/contrastive/engine/contrastive_data.h"
#include "tasks/imagenet/engine/imagenet_data.h"
#include "train/agree.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kMostClasses = 10'000'000;

std::string digest(const data::HostBatch& batch) {
  const auto bytes_of = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
  };
  return fmt::format("{} {} {} {} {}", batch.num_samples, core::xxh3_hex(bytes_of(batch.label_B)),
                     core::xxh3_hex(bytes_of(batch.image_BYXC)) + core::xxh3_hex(bytes_of(batch.audio_BS)),
                     core::xxh3_hex(bytes_of(batch.text_BT)), core::join(batch.keys, " "));
}

/// A data path by its options.
class MeasuredData {
 public:
  virtual ~MeasuredData() = default;
  virtual std::unique_ptr<data::Loader> open_train() = 0;
};

/// Pictures or sounds with captions, as `train clip` and `train clap` read them.
class CaptionedData final : public MeasuredData {
 public:
  CaptionedData(const tasks::ContrastiveOptions& options, comm::World& world, const plan::BatchPlan& plan)
      : options_(options), shape_(tasks::contrastive_shape_of(options_)), data_(options_, shape_, world, plan) {}
  std::unique_ptr<data::Loader> open_train() override { return data_.open_train(); }

 private:
  tasks::ContrastiveOptions options_;  // of data_, which refers to them
  config::ContrastiveShape shape_;
  tasks::ContrastiveData data_;
};

bool has_classifier(const commands::BenchOptions& options) {
  return options.model_kind == commands::BenchModel::kClassifier;
}

/// The flags of `bench loader` as `train imagenet` has them.
tasks::ImagenetOptions imagenet_options(const tasks::ContrastiveOptions& options, const commands::BenchOptions& bench) {
  tasks::ImagenetOptions imagenet;
  imagenet.jpeg_decode = bench.jpeg_decode;
  imagenet.csv_label_key = bench.csv_label_key;
  imagenet.model = options.model;
  imagenet.train_data = options.train_data;
  imagenet.train_num_samples = options.train_num_samples;
  imagenet.dataset_type = options.dataset_type;
  imagenet.num_classes = kMostClasses;  // labels are read, and no network counts them
  imagenet.image_key = options.image_key;
  imagenet.csv_separator = options.csv_separator;
  imagenet.csv_img_key = options.csv_img_key;
  imagenet.workers = options.workers;
  imagenet.data_lanes = options.data_lanes;
  imagenet.shuffle = options.shuffle;
  imagenet.on_bad_sample = options.on_bad_sample;
  imagenet.max_bad_samples = options.max_bad_samples;
  imagenet.index_dir = options.index_dir;
  imagenet.max_image_pixels = options.max_image_pixels;
  imagenet.seed = options.seed;
  imagenet.train_transform = options.train_transform;
  if (!options.force_image_size.empty()) imagenet.image_pixels = options.force_image_size.front();
  imagenet.interpolation = options.image_interpolation.value_or(imagenet.interpolation);
  imagenet.image_mean = options.image_mean;
  imagenet.image_std = options.image_std;
  imagenet.val_frequency_epochs = 0;
  return imagenet;
}

/// Pictures with labels, as `train imagenet` reads them.
class LabelledData final : public MeasuredData {
 public:
  LabelledData(tasks::ImagenetOptions options, comm::World& world, const plan::BatchPlan& plan)
      : options_(std::move(options)), data_(options_, world, plan) {}
  std::unique_ptr<data::Loader> open_train() override { return data_.open_train(nullptr); }

 private:
  tasks::ImagenetOptions options_;  // of data_, which refers to them
  tasks::ImagenetData data_;
};

class LoaderCase final : public BenchCase {
 public:
  explicit LoaderCase(const BenchContext& context) : context_(context) {
    plan_ = plan::make_batch_plan(world().size(), {.micro_batch_size = context.options.train.micro_batch_size});
  }

  std::vector<core::Json> points() override {
    std::vector<core::Json> out;
    for (const int64_t workers : context_.options.loader_workers)
      out.push_back({{"part", "loader"},
                     {"workers", workers},
                     {"micro_batch_size", plan_.micro_batch_size},
                     {"think_ms", context_.options.think_ms}});
    return out;
  }

  std::vector<std::string> preamble() override {
    const auto& o = context_.options;
    return {fmt::format("lockstep bench loader: {}, {}, {}", core::counted(world().size(), "rank"),
                        o.train.train_data.empty() ? "synthetic data" : o.train.train_data, what_text()),
            fmt::format("batches of {} per rank, warmup batches: {} batches: {} think time: {:g} ms; batch: "
                        "median and p90 of the time until the next batch is there, each that of the slowest rank",
                        core::counted(plan_.micro_batch_size, "sample"), o.num_warmup, o.num_iterations, o.think_ms),
            "rates: of all ranks together; per core: samples per second of processor time; busy: share of time that a "
            "device with this "
            "think time would work",
            "the timed part begins when a batch was not ready; ahead: share of its batches that were ready all the "
            "same when it began",
            ""};
  }

  std::vector<TableColumn> columns() override {
    return {{.key = "workers", .title = "workers", .width = 7},
            {.key = "micro_batch_size", .title = "batch", .is_in_table = false},
            {.key = "batch_ms", .title = "batch", .unit = "ms", .width = 8},
            {.key = "p90_ms", .title = "p90", .unit = "ms", .width = 8},
            {.key = "p99_ms", .title = "p99", .is_in_table = false},
            {.key = "samples_per_s", .title = "rate", .unit = "samples/s", .width = 11},
            {.key = "mbytes_per_s", .title = "read", .unit = "MB/s", .width = 8},
            {.key = "samples_per_cpu_s", .title = "per core", .unit = "samples/s", .width = 11},
            {.key = "source_ms", .title = "source", .is_in_table = false},
            {.key = "decode_ms", .title = "decode", .is_in_table = false},
            {.key = "ahead_percent", .title = "ahead", .unit = "%", .width = 6},
            {.key = "think_ms", .title = "think", .is_in_table = false},
            {.key = "busy_percent", .title = "busy", .unit = "%", .width = 6},
            {.key = "wrong", .title = "#wrong", .width = 6}};
  }

  /// Two loaders must hand out the same batches, and one that is set to a position the batch that follows it.
  int64_t verify(core::Json& row) override {
    constexpr int kNumBatches = 3;
    int64_t wrong = 0;
    prepare(row);
    train::succeed_together(world(), [&] {
      const auto first = data_->open_train(), second = data_->open_train(), third = data_->open_train();
      for (int i = 0; i < kNumBatches; ++i) {
        if (i + 1 == kNumBatches) third->seek(first->position());
        const auto batch = first->next();
        wrong += batch.num_samples != plan_.micro_batch_size;
        wrong += digest(batch) != digest(second->next());
        if (i + 1 == kNumBatches) wrong += digest(batch) != digest(third->next());
      }
    });
    int64_t total = 0;
    for (const auto& text : world().gather_strings(std::to_string(wrong))) total += core::parse_int(text).value();
    row["wrong"] = total;
    return total;
  }

  void time(core::Json& row) override {
    const auto& o = context_.options;
    LoaderTally tally;
    prepare(row);
    train::succeed_together(world(), [&] {
      tally = drive_loader(*data_->open_train(), {.num_warmup = o.num_warmup,
                                                  .num_batches = o.num_iterations,
                                                  .think = std::chrono::duration<double, std::milli>(o.think_ms)});
    });
    const auto samples_ms = combine_ranks(world(), tally.wait_ms, "max");
    const auto statistics = statistics_of(samples_ms);
    const auto of_all = [&](double mine) {
      double total = 0;
      for (const auto& text : world().gather_strings(core::Json(mine).dump()))
        total += core::parse_json(text, "number of a rank").get<double>();
      return total;
    };
    const double seconds = of_all(tally.seconds) / world().size(),
                 samples = of_all(static_cast<double>(tally.num_samples));
    row["batch_ms"] = statistics["median"];
    row["p90_ms"] = statistics["p90"];
    if (statistics.contains("p99")) row["p99_ms"] = statistics["p99"];
    row["samples_per_s"] = samples / seconds;
    if (!o.train.has_made_up_data()) row["mbytes_per_s"] = of_all(tally.bytes) / seconds / 1e6;
    row["samples_per_cpu_s"] = samples / of_all(tally.cpu_seconds);
    row["source_ms"] = of_all(tally.read_ms) / samples;
    row["decode_ms"] = of_all(tally.decode_ms) / samples;
    row["ahead_percent"] =
        100 * of_all(static_cast<double>(tally.num_ahead)) / world().size() / static_cast<double>(o.num_iterations);
    const double think_s = o.think_ms / 1e3 * static_cast<double>(tally.wait_ms.size());
    if (think_s > 0) row["busy_percent"] = 100 * think_s / seconds;
    row["statistics_ms"] = statistics;
    row["samples_ms"] = samples_ms;
  }

  std::vector<SummaryItem> summary(const std::vector<core::Json>& rows) override {
    double best = 0;
    for (const auto& row : rows) best = std::max(best, row.value("samples_per_s", 0.0));
    if (best == 0) return {};
    return {{.key = "best_samples_per_s",
             .label = "Highest rate",
             .value = best,
             .text = fmt::format("{:.1f} samples/s", best)}};
  }

 private:
  std::string what_text() const {
    const tasks::ContrastiveOptions& options = context_.options.train;
    if (has_classifier(context_.options))
      return fmt::format("pictures of {} pixels with labels", imagenet_options(options, context_.options).image_pixels);
    const config::ContrastiveShape shape = tasks::contrastive_shape_of(options);
    if (const auto* clip = shape.clip()) return fmt::format("pictures of {} pixels", clip->vision.image_size);
    const auto& audio = shape.clap()->audio;
    return fmt::format("clips of {} samples at {} Hz", audio.clip_samples, audio.sample_rate);
  }

  comm::Comm& world() const { return context_.world; }

  /// Data whose loaders have as many threads as the row says. Collective.
  void prepare(const core::Json& row) {
    tasks::ContrastiveOptions options = context_.options.train;
    options.workers = row["workers"];
    if (has_classifier(context_.options))
      data_ = std::make_unique<LabelledData>(imagenet_options(options, context_.options), *context_.processes, plan_);
    else
      data_ = std::make_unique<CaptionedData>(options, *context_.processes, plan_);
  }

  BenchContext context_;
  plan::BatchPlan plan_;
  std::unique_ptr<MeasuredData> data_;
};

}  // namespace

std::unique_ptr<BenchCase> make_loader_case(const BenchContext& context) {
  return std::make_unique<LoaderCase>(context);
}

}  // namespace lockstep::bench
