// Letters: B sequences that still grow, L tokens of one forward pass, V token ids.
#include "infer/generation.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "hw/machine_memory.h"

namespace lockstep::infer {
namespace {

constexpr uint64_t kDrawStream = 0x67656e65;  // apart from other draws under the same seed

/// One of the sequences that grow together.
struct Row {
  size_t prompt;       // whose it is
  int64_t max_tokens;  // new ones, at most
  core::CounterRng rng;
};

class Generation {
 public:
  Generation(models::GptModel& model, std::span<const std::vector<int32_t>> prompts, uint64_t first_number,
             const GenerationConfig& config)
      : model_(model), prompts_(prompts), config_(config), done_(prompts.size()) {
    for (const auto& prompt : prompts) {
      LOCKSTEP_CHECK(!prompt.empty() && std::ssize(prompt) <= positions(), "a prompt of {} tokens", prompt.size());
      longest_ = std::max(longest_, std::ssize(prompt));
    }
    for (size_t i = 0; i < prompts.size(); ++i)
      rows_.push_back({i, std::min(config.max_new_tokens, room_behind(i)),
                       core::CounterRng(core::stream_key({config.seed, kDrawStream, first_number + i}))});
  }

  std::vector<Continuation> run() {
    int64_t most_tokens = 0;
    for (const Row& row : rows_) most_tokens = std::max(most_tokens, row.max_tokens);
    std::vector<int64_t> first_slots;
    for (const auto& prompt : prompts_) first_slots.push_back(longest_ - std::ssize(prompt));
    const at::TensorOptions tensors = model_.named_parameters().front().tensor->options().requires_grad(false);
    models::GptCache cache(model_.shape(), model_.shard(), first_slots,
                           {.capacity = longest_ + most_tokens - 1, .tensors = tensors});
    at::Tensor ids_BL = prompt_ids();
    while (true) {
      const std::vector<int64_t> growing = choose(next_logits(ids_BL.to(tensors.device()), cache));
      if (growing.empty()) return std::move(done_);
      if (growing.size() < rows_.size()) keep(growing, cache);
      std::vector<int64_t> last;
      for (const Row& row : rows_) last.push_back(done_[row.prompt].ids.back());
      ids_BL = at::tensor(last, at::kLong).unsqueeze(1);
    }
  }

 private:
  int64_t positions() const { return model_.shape().max_positions; }
  /// Tokens that can follow a prompt: the last one needs no position, since nothing is computed from it.
  int64_t room_behind(size_t prompt) const { return positions() - std::ssize(prompts_[prompt]) + 1; }

  /// Prompts that end together; what lies before the shorter ones is seen by nobody.
  at::Tensor prompt_ids() const {
    const at::Tensor ids_BL = at::full({std::ssize(prompts_), longest_}, 0, at::kLong);
    for (size_t i = 0; i < prompts_.size(); ++i)
      std::copy(prompts_[i].begin(), prompts_[i].end(),
                ids_BL.data_ptr<int64_t>() + (static_cast<int64_t>(i) + 1) * longest_ - std::ssize(prompts_[i]));
    return ids_BL;
  }

  /// Of the token behind the last one: [B, V], on the CPU.
  at::Tensor next_logits(const at::Tensor& ids_BL, models::GptCache& cache) const {
    const c10::NoGradGuard no_grad;
    const at::Tensor last_1BD = model_.forward_next(ids_BL, cache).narrow(0, ids_BL.size(1) - 1, 1);
    return model_.logits(last_1BD)
        .squeeze(0)
        .narrow(1, 0, config_.num_ids)
        .to(at::kFloat)
        .cpu()
        .contiguous();  // sync: the next token depends on it
  }

  /// Adds a token to each row; the rows that go on.
  std::vector<int64_t> choose(const at::Tensor& logits_BV) {
    std::vector<int64_t> growing;
    for (size_t i = 0; i < rows_.size(); ++i) {
      Row& row = rows_[i];
      Continuation& text = done_[row.prompt];
      const float* logits = logits_BV.const_data_ptr<float>() + static_cast<int64_t>(i) * config_.num_ids;
      text.ids.push_back(choose_token({logits, static_cast<size_t>(config_.num_ids)}, config_.choice, row.rng));
      if (std::count(config_.stop_ids.begin(), config_.stop_ids.end(), text.ids.back()) > 0)
        text.reason = StopReason::kEod;
      else if (std::ssize(text.ids) < row.max_tokens)
        growing.push_back(static_cast<int64_t>(i));
      else
        text.reason = row.max_tokens < config_.max_new_tokens ? StopReason::kPositions : StopReason::kLength;
    }
    if (config_.on_token) config_.on_token();
    return growing;
  }

  void keep(const std::vector<int64_t>& growing, models::GptCache& cache) {
    cache.keep(growing);
    std::vector<Row> rows;
    for (const int64_t row : growing) rows.push_back(rows_[static_cast<size_t>(row)]);
    rows_ = std::move(rows);
  }

  models::GptModel& model_;
  std::span<const std::vector<int32_t>> prompts_;
  const GenerationConfig& config_;
  std::vector<Continuation> done_;
  std::vector<Row> rows_;
  int64_t longest_ = 0;
};

}  // namespace

const char* stop_reason_name(StopReason reason) {
  return reason == StopReason::kEod ? "eod" : reason == StopReason::kLength ? "length" : "positions";
}

void prepare_generation(models::GptModel& model, size_t num_sequences) {
  constexpr size_t kLeastInFp32 = 4;  // as nn::is_faster
  const at::Tensor& first = *model.named_parameters().front().tensor;
  if (!first.is_cpu()) return;  // nothing is packed there
  const at::ScalarType type = first.scalar_type();
  bool pays = type != at::kFloat || num_sequences >= kLeastInFp32;
  int64_t num_weights = 0;
  for (const auto& parameter : model.named_parameters()) num_weights += parameter.tensor->numel();
  constexpr int64_t kMostBytes = 4;  // of a packed weight: of bf16 numbers, too, on processors that multiply none
  if (pays && num_weights * kMostBytes > hw::available_memory_bytes()) {
    core::log_warning("infer: the weights are not packed: that would take up to {:.1f} GB, {:.1f} GB are free",
                      static_cast<double>(num_weights * kMostBytes) / 1e9,
                      static_cast<double>(hw::available_memory_bytes()) / 1e9);
    pays = false;
  }
  model.prepare_inference(pays ? std::optional(type) : std::nullopt);
}

std::vector<Continuation> generate_tokens(models::GptModel& model, std::span<const std::vector<int32_t>> prompts,
                                          uint64_t first_number, const GenerationConfig& config) {
  LOCKSTEP_CHECK(config.num_ids > 0 && config.num_ids <= model.shape().vocab && config.max_new_tokens > 0, "{} ids",
                 config.num_ids);
  return prompts.empty() ? std::vector<Continuation>() : Generation(model, prompts, first_number, config).run();
}

}  // namespace lockstep::infer
