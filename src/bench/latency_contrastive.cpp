// Letters: B samples, T token ids, E shared embedding.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/latency_subject.h"
#include "core/error.h"
#include "core/rng.h"
#include "data/parallel_for.h"
#include "data/sounds/audio_encode.h"
#include "infer/file_list.h"
#include "models/contrastive_task.h"
#include "tasks/contrastive/engine/contrastive_data.h"
#include "tasks/contrastive/engine/embedding_engine.h"
#include "tasks/contrastive/engine/towers_build.h"

namespace lockstep::bench {
namespace {

/// A loaded pair of towers in one precision.
struct LoadedTowers {
  LoadedTowers(const tasks::ContrastiveOptions& options, const config::ContrastiveShape& shape, at::Device device,
               const std::string& type, bool is_plain, const nn::CallRecorder& recorder)
      : precision(precision_name(type), device.type()),
        network(tasks::build_towers(shape, {.precision = &precision,
                                            .device = device,
                                            .pretrained = options.pretrained,
                                            .seed = static_cast<uint64_t>(options.seed),
                                            .exact_shortcuts = !is_plain})),
        mover(tasks::make_batch_mover(options, shape, device, precision.input_type())) {
    if (is_plain)
      network->set_training(false);
    else
      engine.emplace(*network, mover, precision, tasks::Weights::kFixed, recorder);
  }
  train::Precision precision;
  std::unique_ptr<models::TwoTowers> network;
  train::BatchMover mover;
  std::optional<tasks::EmbeddingEngine> engine;  // behind what it refers to
};

class ContrastiveSubject final : public LatencySubject {
 public:
  explicit ContrastiveSubject(const BenchContext& context)
      : context_(context), shape_(tasks::contrastive_shape_of(train_options())) {
    if (options().text_tokens > shape_.context_length())
      throw UsageError(fmt::format("bench: --text-length {} is more than the {} tokens of '{}'", options().text_tokens,
                                   shape_.context_length(), train_options().model),
                       "give --text-length that the model has, or --force-context-length");
    if (const auto* clip = shape_.clip())
      transform_ = tasks::make_transform(train_options(), *clip, /*is_train=*/false);
  }

  std::vector<std::string> froms() const override { return {"pixels", "pictures", "tokens"}; }
  std::vector<std::string> towers() const override { return {"both", "image", "text"}; }

  bool prepare(const LatencyPoint& point) override {
    const bool loads = !loaded_ || loaded_type_ != point.precision;
    if (loads) {
      loaded_.reset();  // its memory first
      loaded_.emplace(train_options(), shape_, context_.device, point.precision, /*is_plain=*/false,
                      nn::call_recorder(options().cuda_graphs, context_.device));
      loaded_type_ = point.precision;
    }
    point_ = point;
    make_files();
    host_ = {};
    host_.num_samples = point.batch;
    if (has_other()) read_files(nullptr);
    if (has_text()) read_texts();
    on_device_ = {};
    if (point.from != "tokens") return loads;
    on_device_ = loaded_->mover.to_device(host_);
    if (has_text()) on_device_.text_BT = on_device_.text_BT.narrow(1, 0, num_columns()).contiguous();
    return loads;
  }

  int64_t count_wrong() override {
    LoadedTowers plain(train_options(), shape_, context_.device, "fp32", /*is_plain=*/true, {});
    const c10::NoGradGuard no_grad;
    const models::Batch batch = plain.mover.to_device(host_);
    const int64_t num_calls = context_.device.is_cpu() ? 1 : nn::CaptureLimits().least_calls;
    for (int64_t i = 0; i < num_calls; ++i) run(nullptr);  // on CUDA the last one is a replay, as are those timed
    int64_t wrong = 0;
    const auto compare = [&](const at::Tensor& got, const at::Tensor& features) {
      wrong += count_apart(got, models::normalise_rows(features).cpu(), feature_tolerance(point_.precision));
    };
    if (batch.image_BCYX.defined()) compare(other_BE_, plain.network->encode_image(batch.image_BCYX));
    if (batch.audio_BS.defined()) compare(other_BE_, plain.network->encode_audio(batch.audio_BS));
    if (batch.text_BT.defined()) compare(text_BE_, plain.network->encode_text(batch.text_BT));
    return wrong;
  }

  void run(StageClock* clock) override {
    if (clock != nullptr) clock->begin();
    const auto mark = [&](const char* stage) {
      if (clock != nullptr) clock->mark(stage);
    };
    models::Batch batch = on_device_;
    if (point_.from == "pictures") {
      if (has_other()) read_files(clock);
      if (has_text() && !options().texts.empty()) {
        read_texts();
        mark("tokenise");
      }
    }
    if (point_.from != "tokens" && has_other()) {
      batch = loaded_->mover.to_device(host_, train::BatchMover::Texts::kLeave);
      mark("transfer");
    }
    const tasks::EmbeddingEngine& engine = *loaded_->engine;
    if (has_other()) {
      other_BE_ = shape_.clip() != nullptr ? engine.pictures(batch.image_BCYX) : engine.sounds(batch.audio_BS);
      mark("image");
    }
    if (has_text()) {
      text_BE_ = point_.from == "tokens" ? engine.texts(batch.text_BT)
                                         : engine.texts(host_.text_BT, host_.context_length, host_.num_samples);
      mark("text");
    }
    if (has_other()) other_BE_ = other_BE_.cpu();  // sync: a call ends when its results are on the host
    if (has_text()) text_BE_ = text_BE_.cpu();     // sync: as above
    mark("output");
  }

  core::Json facts() const override {
    core::Json facts = core::Json::object();
    if (has_text()) {
      facts["text_tokens"] = num_tokens();
      facts["text_columns"] = num_columns();
    }
    if (context_.device.is_cuda()) facts["cuda_graphs"] = loaded_->engine->num_recorded();
    if (const auto* clip = shape_.clip(); has_other() && clip != nullptr) facts["pixels"] = clip->vision.image_size;
    return facts;
  }

 private:
  const commands::BenchOptions& options() const { return context_.options; }
  const tasks::ContrastiveOptions& train_options() const { return context_.options.train; }
  bool has_other() const { return point_.tower != "text"; }
  bool has_text() const { return point_.tower != "image"; }

  std::span<const int32_t> text(int64_t b) const {
    const auto width = static_cast<size_t>(host_.context_length);
    return std::span(host_.text_BT).subspan(static_cast<size_t>(b) * width, width);
  }

  /// Columns of token ids that the text tower is given: those that the features of any text depend on.
  int64_t num_columns() const {
    int64_t most = 0;
    for (int64_t b = 0; b < host_.num_samples; ++b) most = std::max(most, loaded_->network->num_used_ids(text(b)));
    return most;
  }

  /// Tokens of the longest text, start and end included, padding not.
  int64_t num_tokens() const {
    const auto padding = static_cast<int32_t>(pad_id());
    int64_t most = 0;
    for (int64_t b = 0; b < host_.num_samples; ++b) {
      const auto ids = text(b);
      const auto is_token = [&](int32_t id) { return id != padding; };
      most = std::max<int64_t>(most, ids.rend() - std::find_if(ids.rbegin(), ids.rend(), is_token));
    }
    return std::min(most + (pads_with_end() ? 1 : 0), host_.context_length);
  }

  bool pads_with_end() const {
    const auto* clip = shape_.clip();
    return clip != nullptr && clip->text.tokens == config::TextTokens::kSentencePiece;
  }
  int64_t pad_id() const {
    constexpr int64_t kEnd = 1;
    if (const auto* clap = shape_.clap()) return clap->text.pad_id;
    return pads_with_end() ? kEnd : shape_.clip()->text.pad_id;
  }

  void make_files() {
    if (!has_other() || std::ssize(files_) >= point_.batch) return;
    if (shape_.clip() != nullptr) {
      files_ = encoded_pictures(options(), point_.batch);
      return;
    }
    const auto& audio = shape_.clap()->audio;
    core::CounterRng rng(core::stream_key({static_cast<uint64_t>(train_options().seed), 0x736f756e}));
    std::vector<float> mono(static_cast<size_t>(audio.clip_samples));
    for (float& value : mono) value = static_cast<float>(rng.uniform() - 0.5);
    files_.assign(static_cast<size_t>(point_.batch), data::encode_flac(mono, audio.sample_rate));
  }

  /// Decodes and prepares; each thread its samples.
  void read_files(StageClock* clock) {
    if (shape_.clip() != nullptr) return read_pictures(files_, transform_, host_, scratch_, clock);
    const auto count = static_cast<size_t>(point_.batch);
    const int64_t threads = std::min<int64_t>(point_.batch, at::get_num_threads());
    const tasks::SoundOptions sound{train_options().audio_fill, train_options().audio_trunc,
                                    train_options().audio_int16_normalize};
    const auto config = tasks::make_waveform(sound, shape_.clap()->audio, /*is_train=*/false);
    const auto samples = static_cast<size_t>(config.clip_samples);
    host_.clip_samples = config.clip_samples;
    host_.audio_BS.resize(count * samples);
    data::for_each_parallel(count, threads, [&](size_t i, size_t) {
      data::WaveformScratch scratch;
      data::read_waveform(std::as_bytes(std::span(files_[i])), "recording", config, /*rng_key=*/0,
                          std::span(host_.audio_BS).subspan(i * samples, samples), scratch);
    });
    if (clock != nullptr) clock->mark("decode");
  }

  /// Token ids of --texts, line by line; else made ones of --text-length, start and end included.
  void read_texts() {
    const int64_t width = shape_.context_length();
    host_.context_length = width;
    host_.text_BT.assign(static_cast<size_t>(point_.batch * width), 0);
    const auto row = [&](int64_t b) {
      return std::span(host_.text_BT).subspan(static_cast<size_t>(b * width), static_cast<size_t>(width));
    };
    if (!options().texts.empty()) {
      if (!encoder_) encoder_ = tasks::load_text_encoder(train_options().tokenizer_vocab, shape_);
      if (lines_.empty()) lines_ = infer::read_lines(options().texts);
      for (int64_t b = 0; b < point_.batch; ++b) encoder_(lines_[static_cast<size_t>(b) % lines_.size()], row(b));
      return;
    }
    const auto* clip = shape_.clip();
    const auto vocabulary =
        static_cast<uint64_t>(clip != nullptr ? config::num_text_ids(clip->text) : shape_.clap()->text.vocab_size);
    core::CounterRng rng(core::stream_key({static_cast<uint64_t>(train_options().seed), 0x74657874}));
    for (int64_t b = 0; b < point_.batch; ++b) {
      const auto ids = row(b);
      constexpr uint64_t kFirst = 4;  // behind every padding and start
      std::fill(ids.begin(), ids.end(), static_cast<int32_t>(pad_id()));
      for (int64_t t = 0; t < options().text_tokens; ++t)
        ids[static_cast<size_t>(t)] = static_cast<int32_t>(kFirst + rng.below(vocabulary - 1 - kFirst));
      const auto last = static_cast<size_t>(options().text_tokens - 1);
      if (pads_with_end())
        ids[last] = static_cast<int32_t>(pad_id());
      else if (clip != nullptr)
        ids[last] = static_cast<int32_t>(vocabulary - 1);  // CLIP's end
    }
  }

  BenchContext context_;
  config::ContrastiveShape shape_;
  data::TransformConfig transform_;
  std::optional<LoadedTowers> loaded_;
  std::string loaded_type_;
  LatencyPoint point_;
  std::vector<std::string> files_;  // encoded
  PictureScratch scratch_;
  data::HostBatch host_;
  models::Batch on_device_;
  data::TextEncoder encoder_;
  std::vector<std::string> lines_;
  at::Tensor other_BE_, text_BE_;
};

}  // namespace

std::unique_ptr<LatencySubject> make_contrastive_subject(const BenchContext& context) {
  return std::make_unique<ContrastiveSubject>(context);
}

}  // namespace lockstep::bench
