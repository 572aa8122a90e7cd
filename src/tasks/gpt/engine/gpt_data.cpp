#include "tasks/gpt/engine/gpt_data.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "core/error.h"
#include "core/log.h"
#include "data/text/text_tokenizer.h"
#include "data/tokens/token_prefetch.h"
#include "hw/machine_memory.h"
#include "tasks/gpt/front/gpt_data_config.h"

namespace lockstep::tasks {
namespace {

/// Micro-batches that are read ahead beside the one that is handed out.
constexpr size_t kReadAhead = 2;

class StreamBatches final : public train::BatchSource {
 public:
  StreamBatches(data::GptStream stream, const data::DocumentRules& rules, train::CopyStream copies)
      : stream_(std::move(stream), kReadAhead), rules_(rules), copies_(copies) {}

  models::Batch next(train::PhaseClock& phases) override {
    stream_.next(host_);
    phases.mark(train::Phase::kDataWait);
    if (host_.num_samples == 0)
      throw DataError(fmt::format("data: the samples end after {}, the run needs more",
                                  stream_.position().at("consumed_samples").get<int64_t>()));
    models::Batch batch = copies_.run([this] { return to_device(); });
    phases.mark(train::Phase::kH2d);
    return batch;
  }
  core::Json position() const override { return stream_.position(); }
  core::Json join_positions(const std::vector<core::Json>& of_ranks) const override {
    return of_ranks.front();  // they count the samples of all
  }

 private:
  at::Tensor copy(const std::vector<int32_t>& values) const {
    const std::vector<int64_t> sizes{host_.num_samples, host_.sequence_length};
    return copies_.staged(at::from_blob(const_cast<int32_t*>(values.data()), sizes, at::kInt))
        .to(at::kLong, /*non_blocking=*/false, /*copy=*/true);
  }

  models::Batch to_device() const {
    models::Batch batch;
    batch.num_samples = host_.num_samples;
    batch.text_BT = copy(host_.tokens_BT);
    batch.target_BT = copy(host_.labels_BT);
    if (std::find(host_.loss_mask_BT.begin(), host_.loss_mask_BT.end(), 0) != host_.loss_mask_BT.end())
      batch.loss_weight_BT =
          copies_
              .staged(at::from_blob(const_cast<uint8_t*>(host_.loss_mask_BT.data()), batch.text_BT.sizes(), at::kByte))
              .to(at::kFloat);
    if (rules_.reset_position_ids) batch.position_BT = copy(host_.position_ids_BT);
    if (rules_.reset_attention_mask) batch.document_BT = copy(document_numbers());
    return batch;
  }

  /// Number of the piece of each token.
  std::vector<int32_t> document_numbers() const {
    std::vector<int32_t> numbers(host_.tokens_BT.size());
    for (size_t piece = 0; piece + 1 < host_.piece_bounds.size(); ++piece)
      std::fill(numbers.begin() + host_.piece_bounds[piece], numbers.begin() + host_.piece_bounds[piece + 1],
                static_cast<int32_t>(piece));
    return numbers;
  }

  data::TokenPrefetch stream_;
  data::DocumentRules rules_;
  train::CopyStream copies_;
  data::TokenBatch host_;
};

/// The id that ends documents; of made-up data and decimal ids the last one.
int32_t eod_of(const GptOptions& o, int64_t vocab) {
  if (o.mock_data || o.tokenizer_type == "NullTokenizer") return static_cast<int32_t>(vocab - 1);
  if (o.tokenizer_model.empty() && o.vocab_file.empty()) return -1;
  return data::open_text_tokenizer({.model = o.tokenizer_model, .vocab_file = o.vocab_file, .merge_file = o.merge_file})
      ->eod()
      .value_or(-1);
}

}  // namespace

GptData::GptData(const GptOptions& o, const plan::GptLayout& layout, const plan::MeshPoint& place, at::Device device)
    : config_{.sequence_length = layout.shape.sequence,
              .micro_batch_size = layout.batch.micro_batch_size,
              .data_rank = place.dp,
              .data_size = layout.dp(),
              .rules = {.eod = eod_of(o, layout.shape.vocab),
                        .reset_position_ids = o.reset_position_ids,
                        .reset_attention_mask = o.reset_attention_mask,
                        .eod_mask_loss = o.eod_mask_loss}},
      copies_(device) {
  if (config_.rules.eod < 0 && (o.reset_position_ids || o.reset_attention_mask || o.eod_mask_loss))
    throw UsageError(
        "train: --reset-position-ids, --reset-attention-mask and --eod-mask-loss need the token that ends documents",
        "give --tokenizer-model, or --vocab-file and --merge-file");
  data::GptDataConfig config = gpt_data_config(o, layout);
  config.eod = config_.rules.eod;
  config.memory_bytes = hw::available_memory_bytes();
  samples_per_evaluation_ = o.eval_iters * layout.batch.global_batch;
  const bool is_first_rank = place.dp == 0 && place.tp == 0 && place.pp == 0;
  const std::filesystem::path folder =
      o.data_cache_path.empty() ? data::default_index_folder(config) : std::filesystem::path(o.data_cache_path);
  if (!folder.empty())
    config.cache =
        std::make_shared<data::ArrayCache>(folder, /*is_required=*/!o.data_cache_path.empty(), /*warns=*/is_first_rank);
  config.is_first_rank = is_first_rank;
  train_ = data::open_gpt_samples(config, data::Split::kTrain);
  if (train_ == nullptr) throw UsageError("train: the training split holds no documents", "give it a share in --split");
  if (is_first_rank) {
    for (const SplitFact& fact : gpt_split_facts(config)) {
      core::log_info("data, {}: {}", fact.name, fact.text);
      if (!fact.warning.empty()) core::log_warning("{}", fact.warning);
    }
  }
  if (gpt_num_evaluations(o, gpt_train_steps(o, layout.batch.global_batch)) == 0) return;
  valid_ = data::open_gpt_samples(config, data::Split::kValid);
  if (valid_ == nullptr)
    throw UsageError("train: --eval-interval needs validation data, whose split holds no documents",
                     "give it a share in --split, or drop --eval-interval");
}

data::GptStream GptData::stream(std::shared_ptr<const data::GptSamples> samples) const {
  return data::GptStream(std::move(samples), config_);
}

std::unique_ptr<train::BatchSource> GptData::open_train(const core::Json& position) const {
  data::GptStream train = stream(train_);
  if (!position.is_null()) train.seek(position);
  return std::make_unique<StreamBatches>(std::move(train), config_.rules, copies_);
}

std::unique_ptr<train::BatchSource> GptData::open_validation(int64_t num_done) const {
  if (valid_ == nullptr) return nullptr;
  data::GptStream valid = stream(valid_);
  core::Json position = valid.position();
  position["consumed_samples"] = num_done * samples_per_evaluation_;
  valid.seek(position);
  return std::make_unique<StreamBatches>(std::move(valid), config_.rules, copies_);
}

}  // namespace lockstep::tasks
