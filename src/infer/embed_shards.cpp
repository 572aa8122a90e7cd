#include "infer/embed_shards.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>

#include "core/clock.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"
#include "data/train_stream.h"
#include "infer/bad_samples.h"
#include "infer/embed_progress.h"
#include "infer/embedding_folder.h"
#include "infer/encoder.h"

namespace lockstep::infer {
namespace {

/// Where a stream's samples stand, by their places; the reading thread writes it.
class SamplePlaces {
 public:
  void add(const data::RawSample& sample) {
    const std::scoped_lock lock(mutex_);
    keys_.push_back(sample.key);
    offsets_.push_back(sample.offset);
  }
  std::string key(int64_t place) const {
    const std::scoped_lock lock(mutex_);
    return keys_.at(static_cast<size_t>(place));
  }
  uint64_t offset(int64_t place) const {
    const std::scoped_lock lock(mutex_);
    return offsets_.at(static_cast<size_t>(place));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> keys_;
  std::vector<uint64_t> offsets_;
};

/// What a shard holds and lacks.
struct ShardNotes {
  SamplePlaces places;
  BadSamples bad, cut;
  std::optional<ShardDamage> damage;  // set by the reading thread before its last batch is handed out
};

std::vector<std::string> list_shards(const std::string& spec) {
  std::vector<std::string> shards;
  for (const data::ShardSource& source : data::parse_shard_sources(spec, ""))
    shards.insert(shards.end(), source.shards.begin(), source.shards.end());
  return shards;
}

/// What a shard holds, up to the first damage or failing read that nothing behind it can be read after: the stream then
/// ends, and where is noted. A shard without a sample before that throws.
class TolerantSource final : public data::SampleSource {
 public:
  TolerantSource(std::unique_ptr<data::SampleSource> source, ShardNotes& notes)
      : source_(std::move(source)), notes_(notes) {}

  std::optional<data::RawSample> next() override {
    if (is_over_) return std::nullopt;
    try {
      std::optional<data::RawSample> sample = source_->next();
      if (!sample) {
        tell_skipped();
        return sample;
      }
      last_.key = sample->key;
      last_.shard = sample->shard;
      last_.offset = sample->offset;
      last_.id = sample->id;
      has_any_ = true;
      notes_.places.add(*sample);
      return sample;
    } catch (const Error& error) {
      const bool is_of_shard = error.code() == ExitCode::kData || error.code() == ExitCode::kEnvironment;
      if (!has_any_ || is_interrupted_ || !is_of_shard) throw;
      is_over_ = true;
      notes_.damage = ShardDamage{.after = last_.key, .reason = error.what()};
      return std::nullopt;
    }
  }
  core::Json position() const override { return source_->position(); }
  void seek(const core::Json& position) override { source_->seek(position); }
  data::SourceReport report() const override { return source_->report(); }
  void interrupt() override {
    is_interrupted_ = true;
    source_->interrupt();
  }

 private:
  /// What the source passed over, by reason.
  void tell_skipped() {
    if (is_over_) return;
    is_over_ = true;
    for (const auto& [reason, count] : source_->report().skipped) {
      last_.key = fmt::format("{} of them", count);
      ++last_.id;
      notes_.bad.add(last_, reason);
    }
  }

  std::unique_ptr<data::SampleSource> source_;
  ShardNotes& notes_;
  data::RawSample last_;
  bool has_any_ = false, is_over_ = false;
  std::atomic<bool> is_interrupted_ = false;
};

/// One shard that is being read ahead.
struct OpenShard {
  size_t number = 0;
  ShardNotes notes;
  std::unique_ptr<data::Loader> loader;  // before `notes` dies
};

class ShardEmbedding {
 public:
  ShardEmbedding(const config::InferOptions& options, const hw::RankInfo& ranks)
      : options_(options), ranks_(ranks), encoder_(options, ranks),
        folder_(options.output, list_shards(options.shards), encoder_.is_audio() ? "audio" : "image",
                options.format == "npy") {
    folder_.open(facts(), newly_noted());
    for (size_t shard = 0; shard < folder_.shards().size(); ++shard) {
      if (static_cast<int>(shard % static_cast<size_t>(ranks.world_size)) != ranks.rank) continue;
      (folder_.has(shard) ? num_there_ : num_to_do_) += 1;
      if (!folder_.has(shard)) waiting_.push_back(shard);
    }
  }

  void run() {
    const c10::NoGradGuard no_grad;
    core::log_info("embed: {} of {} shards are rank {}'s, {} of them there already", num_there_ + num_to_do_,
                   folder_.shards().size(), ranks_.rank, num_there_);
    progress_.emplace(num_to_do_);
    std::unique_ptr<OpenShard> ahead = open_next();
    while (ahead) {
      const std::unique_ptr<OpenShard> shard = std::move(ahead);
      ahead = open_next();  // its first batches are decoded meanwhile
      progress_->begin(size_of(folder_.shards()[shard->number]));
      try {
        embed(*shard);
      } catch (const DataError& error) {
        fail(shard->number, error);
      } catch (const EnvironmentError& error) {
        if (!is_reading_) throw;
        fail(shard->number, error);
      }
      progress_->end();
    }
    core::end_progress();
    finish();
  }

 private:
  bool has_other() const { return options_.towers != "text"; }
  bool has_text() const { return options_.towers != "image"; }

  /// All that the numbers depend on.
  core::Json facts() const {
    core::Json facts{{"format_version", EmbeddingFolder::kFormatVersion},
                     {"model", options_.model},
                     {"precision", options_.precision},
                     {"towers", options_.towers},
                     {"format", options_.format},
                     {"dtype", options_.feature_type},
                     {"batch_size", options_.samples_per_batch}};
    facts.update(encoder_.origin(has_text()));
    facts["shards"] = folder_.shards();
    for (const auto& [name, keys] :
         {std::pair("image_key", &options_.image_key), std::pair("audio_ext", &options_.audio_ext),
          std::pair("text_key", &options_.text_key)})
      if (!keys->empty()) facts[name] = *keys;
    if (!encoder_.device().is_cpu())
      facts["gpu_math"] = {{"tf32", options_.gpu_math.tf32},
                           {"cudnn_tf32", options_.gpu_math.cudnn_tf32},
                           {"cudnn_benchmark", options_.gpu_math.cudnn_benchmark}};
    return facts;
  }

  /// Flags with other than their usual values that folders of format 1 do not tell.
  std::vector<std::string> newly_noted() const {
    const config::InferOptions usual;
    std::vector<std::string> flags;
    if (options_.force_quick_gelu) flags.emplace_back("--force-quick-gelu");
    if (has_text() && !options_.tokenizer_vocab.empty()) flags.emplace_back("--tokenizer-vocab");
    if (options_.max_image_pixels != usual.max_image_pixels) flags.emplace_back("--max-image-pixels");
    if (options_.audio_int16_normalize != usual.audio_int16_normalize) flags.emplace_back("--audio-int16-normalize");
    return flags;
  }

  std::unique_ptr<OpenShard> open_next() {
    if (waiting_.empty()) return nullptr;
    auto shard = std::make_unique<OpenShard>();
    shard->number = waiting_.front();
    waiting_.erase(waiting_.begin());
    data::SourceConfig config;
    config.spec = data::list_of_shard(folder_.shards()[shard->number]);
    config.type = data::DatasetType::kWebDataset;
    config.shuffle = false;
    config.need_image = has_other() && !encoder_.is_audio();
    config.need_audio = has_other() && encoder_.is_audio();
    config.need_text = has_text();
    config.image_keys = encoder_.image_keys();
    config.audio_keys = encoder_.audio_keys();
    config.text_keys = encoder_.text_keys();
    config.index = data::IndexUse::kOff;
    shard->loader = std::make_unique<data::Loader>(
        std::make_unique<TolerantSource>(data::open_eval_source(config), shard->notes),
        tolerant_decoder(cut_noting_decoder(encoder_.make_decoder(), shard->notes.cut), shard->notes.bad),
        encoder_.loader_config(has_other(), has_text()));
    return shard;
  }

  /// By its index, where it has one of the file that is there.
  EmbedProgress::Shard size_of(const std::string& path) {
    EmbedProgress::Shard size;
    std::error_code failure;
    if (!data::is_streamed(path))
      if (const uintmax_t bytes = std::filesystem::file_size(path, failure); !failure) size.num_bytes = bytes;
    data::SampleFilter filter;
    if (has_other() && encoder_.is_audio()) filter.audio_keys = encoder_.audio_keys();
    if (has_other() && !encoder_.is_audio()) filter.image_keys = encoder_.image_keys();
    if (has_text()) filter.text_keys = encoder_.text_keys();
    try {
      const auto index = indexes_.find(path);
      if (index && index->bytes == size.num_bytes) size.num_samples = index->num_usable(filter);
    } catch (const Error&) {  // an index that cannot be read is none: the shard itself is read
    }
    return size;
  }

  void embed(OpenShard& shard) {
    const std::string& path = folder_.shards()[shard.number];
    ShardEmbeddings result{
        .shard = path, .keys = {}, .other_NE = {}, .text_NE = {}, .bad = {}, .cut = {}, .damage = {}};
    std::vector<at::Tensor> others, texts;
    is_reading_ = true;
    for (data::HostBatch host = shard.loader->next(); host.num_samples > 0; host = shard.loader->next()) {
      const auto features = encoder_.engine().embed(host);
      std::vector<int64_t> kept;
      for (int64_t row = 0; row < host.num_samples; ++row) {
        const auto at = static_cast<size_t>(row);
        if (host.label_B.empty() || host.label_B[at] == kBadLabel) continue;  // empty: none of the batch has a label
        kept.push_back(row);
        result.keys.push_back(shard.notes.places.key(host.place_B[at]));
      }
      const auto keep = [&](const at::Tensor& rows_BE, std::vector<at::Tensor>& parts) {
        if (!rows_BE.defined()) return;
        const bool has_all = std::ssize(kept) == host.num_samples;
        parts.push_back(has_all ? rows_BE : rows_BE.index_select(0, at::tensor(kept, at::kLong).to(rows_BE.device())));
      };
      keep(features.other_BE, others);
      keep(features.text_BE, texts);
      progress_->add(host.num_samples, shard.notes.places.offset(host.place_B.back()));
      shard.loader->recycle(std::move(host));
      show_progress();
    }
    is_reading_ = false;
    const auto joined = [&](const std::vector<at::Tensor>& parts, bool wanted) {
      if (!wanted) return at::Tensor();
      const at::ScalarType type = options_.feature_type == "fp16" ? at::kHalf : at::kFloat;
      const at::Tensor rows_NE = parts.empty() ? at::empty({0, encoder_.embed_dim()}) : at::cat(parts);
      return rows_NE.to(at::kCPU, type).contiguous();  // sync: once per shard
    };
    result.other_NE = joined(others, has_other());
    result.text_NE = joined(texts, has_text());
    result.bad = shard.notes.bad.in_order();
    result.cut = shard.notes.cut.in_order();
    num_cut_ += std::ssize(result.cut);
    result.damage = shard.notes.damage;
    constexpr int64_t kMostTold = 20;  // the files list all
    for (const data::BadSample& sample : result.bad)
      if (++num_bad_ <= kMostTold)
        core::log_warning("embed: '{}' of '{}' is left out: {}", sample.key, path, sample.reason);
    folder_.write(shard.number, result);
    if (!result.damage) {
      ++num_done_;
      return;
    }
    const auto rows = static_cast<int64_t>(result.keys.size());
    partial_.push_back(fmt::format("'{}' behind sample '{}' ({} are kept)", path, result.damage->after, rows));
    core::log_warning("embed: shard '{}' is lost behind sample '{}', {} are kept: {}", path, result.damage->after, rows,
                      result.damage->reason);
  }

  void fail(size_t shard, const Error& error) {
    if (failed_.empty()) first_hint_ = error.hint();
    failed_.push_back(folder_.shards()[shard]);
    core::log_warning("embed: shard '{}' is left out: {}", folder_.shards()[shard], error.what());
  }

  /// The rate is that of this start; what lay there before does not count.
  std::string progress_text() const {
    const double seconds = core::ms_since(begin_) / 1e3;
    const int64_t num_samples = progress_->num_done();
    const double per_s = static_cast<double>(num_samples) / seconds;
    std::string left;
    if (const auto num_left = progress_->num_left(); num_left && per_s > 0) {
      const auto rest = static_cast<int64_t>(*num_left / per_s);
      left = fmt::format(", {:02}:{:02}:{:02} left", rest / 3600, rest / 60 % 60, rest % 60);
    }
    return fmt::format("embed: {} of {}, {}, {:.1f} samples/s{}{}{}{}", num_there_ + num_done_,
                       core::counted(num_there_ + num_to_do_, "shard"), core::counted(num_samples, "sample"), per_s,
                       left, num_bad_ > 0 ? fmt::format(", {} bad", num_bad_) : "",
                       num_cut_ > 0 ? fmt::format(", {} cut", core::counted(num_cut_, "caption")) : "",
                       partial_.empty() ? "" : fmt::format(", {} shards in part", partial_.size()));
  }

  void show_progress() {
    constexpr double kDistanceMs = 30'000;
    core::show_progress(progress_text());
    if (core::stderr_is_terminal() || core::ms_since(last_line_) < kDistanceMs) return;
    core::log_info("{}", progress_text());
    last_line_ = core::Clock::now();
  }

  void finish() const {
    core::log_info("{} -> {}", progress_text(), options_.output);
    std::vector<std::string> parts;
    if (!failed_.empty())
      parts.push_back(fmt::format("{} of {} shards could not be read, the first is '{}'", failed_.size(),
                                  num_there_ + num_to_do_, failed_.front()));
    if (!partial_.empty())
      parts.push_back(fmt::format("{} of {} shards could be read in part, the first is {}", partial_.size(),
                                  num_there_ + num_to_do_, partial_.front()));
    if (!parts.empty())
      throw DataError("infer: " + core::join(parts, "; "),
                      fmt::format("{}; a start with the same options embeds only what is missing",
                                  first_hint_.empty() ? "repair or fetch them" : first_hint_));
  }

  const config::InferOptions& options_;
  hw::RankInfo ranks_;
  Encoder encoder_;
  EmbeddingFolder folder_;
  std::vector<size_t> waiting_;
  std::vector<std::string> failed_;   // paths
  std::string first_hint_;            // what to do about the first of them; "" where nothing says it
  std::vector<std::string> partial_;  // in words: which, and from where
  int64_t num_there_ = 0, num_to_do_ = 0, num_done_ = 0, num_bad_ = 0, num_cut_ = 0;
  std::optional<EmbedProgress> progress_;  // of this start
  data::IndexHeaders indexes_{/*index_dir=*/""};
  bool is_reading_ = false;
  core::Clock::time_point begin_ = core::Clock::now(), last_line_ = begin_;
};

}  // namespace

void embed_shards(const config::InferOptions& options, const hw::RankInfo& ranks) {
  ShardEmbedding(options, ranks).run();
}

}  // namespace lockstep::infer
