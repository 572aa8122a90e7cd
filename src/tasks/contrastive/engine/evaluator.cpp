#include "tasks/contrastive/engine/evaluator.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "data/text/class_names.h"
#include "models/contrastive_task.h"

namespace lockstep::tasks {
namespace {

/// How the rows of all ranks lie one behind the other, padded to as many of each, and in which order they are wanted.
struct RowOrder {
  int64_t rows_of_rank = 0;
  std::vector<int64_t> rows;
};

/// `places`, rising: which of the samples of this rank its rows are. Rank r's sample i is sample r + i * size of all.
/// Collective.
RowOrder order_of_all(const std::vector<int64_t>& places, comm::Comm& comm, at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  auto most = at::full({1}, std::ssize(places), options);
  comm.all_reduce(most, comm::ReduceOp::kMax).wait();
  RowOrder order{.rows_of_rank = most.item<int64_t>(), .rows = {}};  // sync: evaluation
  auto padded = at::full({order.rows_of_rank}, -1, at::kLong);
  std::copy(places.begin(), places.end(), padded.mutable_data_ptr<int64_t>());
  auto gathered = at::empty({order.rows_of_rank * comm.size()}, options);
  comm.all_gather_into(gathered, padded.to(device)).wait();
  const auto all = gathered.to(at::kCPU);  // sync: evaluation
  const auto* place = all.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < all.numel(); ++row)
    if (place[row] >= 0) order.rows.push_back(row);
  const auto sample = [&](int64_t row) { return place[row] * comm.size() + row / order.rows_of_rank; };
  std::sort(order.rows.begin(), order.rows.end(), [&](int64_t a, int64_t b) { return sample(a) < sample(b); });
  return order;
}

/// Collective.
at::Tensor gather_rows(const at::Tensor& rows, const RowOrder& order, comm::Comm& comm) {
  if (comm.size() == 1) return rows;
  auto sizes = rows.sizes().vec();
  sizes[0] = order.rows_of_rank;
  auto padded = at::zeros(sizes, rows.options());
  padded.narrow(0, 0, rows.size(0)).copy_(rows);
  sizes[0] = order.rows_of_rank * comm.size();
  auto gathered = at::empty(sizes, rows.options());
  comm.all_gather_into(gathered, padded).wait();
  return gathered.index_select(0, at::tensor(order.rows, at::kLong).to(rows.device()));
}

at::Tensor concatenated(const std::vector<at::Tensor>& parts, at::IntArrayRef row_sizes,
                        const at::TensorOptions& options) {
  if (!parts.empty()) return at::cat(parts);
  auto sizes = row_sizes.vec();
  sizes.insert(sizes.begin(), 0);
  return at::empty(sizes, options);
}

/// The sum over ranks of a host number.
template <typename Number> Number total_over_ranks(Number mine, comm::Comm& comm, at::Device device) {
  auto sum = at::full({1}, mine, at::TensorOptions(c10::CppTypeToScalarType<Number>::value).device(device));
  comm.all_reduce(sum).wait();
  return sum.template item<Number>();  // sync: evaluation
}

constexpr int64_t kBatchesAtOnce = 16;  // of texts

struct RankParts {
  std::vector<at::Tensor> image, text, label;
  double caption_loss_sum = 0;  // over samples
  std::vector<int64_t> places;
};

RankParts encode_own(const EncoderContext& context, data::Loader& loader) {
  RankParts parts;
  for (;;) {
    data::HostBatch host = loader.next();
    if (host.num_samples == 0) return parts;
    const EmbeddingEngine::Features features = context.engine.embed_captioned(host);
    if (features.other_BE.defined()) parts.image.push_back(features.other_BE);
    if (features.text_BE.defined()) parts.text.push_back(features.text_BE);
    if (features.label_B.defined()) parts.label.push_back(features.label_B);
    if (features.caption_loss.defined())  // sync: evaluation
      parts.caption_loss_sum += features.caption_loss.item<double>() * static_cast<double>(host.num_samples);
    parts.places.insert(parts.places.end(), host.place_B.begin(), host.place_B.end());
    loader.recycle(std::move(host));
    if (context.on_progress) context.on_progress(std::ssize(parts.places));
  }
}

}  // namespace

EncodedSet encode_all(const EncoderContext& context, data::Loader& loader, at::Device place) {
  const c10::NoGradGuard no_grad;
  const RankParts parts = encode_own(context, loader);
  const auto device = context.engine.mover().device();
  EncodedSet set;
  const RowOrder order = order_of_all(parts.places, context.data_axis, device);
  set.num_samples = std::ssize(order.rows);
  set.num_failed = total_over_ranks(loader.num_bad_samples(), context.data_axis, device);
  const auto join = [&](const std::vector<at::Tensor>& own, bool wanted, at::IntArrayRef row, at::ScalarType dtype) {
    if (!wanted || set.num_samples == 0) return at::Tensor();
    const auto rows = concatenated(own, row, at::TensorOptions(dtype).device(device));
    return gather_rows(rows, order, context.data_axis).to(place);
  };
  // A rank without samples learns from the others which parts there are and how wide they are.
  auto widths = at::zeros({3}, at::TensorOptions(at::kLong).device(device));
  if (!parts.image.empty()) widths[0] = parts.image[0].size(1);
  if (!parts.text.empty()) widths[1] = parts.text[0].size(1);
  if (!parts.label.empty()) widths[2] = 1;
  context.data_axis.all_reduce(widths, comm::ReduceOp::kMax).wait();
  const auto width = widths.to(at::kCPU);  // sync: evaluation
  const auto* w = width.const_data_ptr<int64_t>();
  set.image_NE = join(parts.image, w[0] > 0, {w[0]}, at::kFloat);
  set.text_NE = join(parts.text, w[1] > 0, {w[1]}, at::kFloat);
  set.label_N = join(parts.label, w[2] > 0, {}, at::kLong);
  if (context.engine.network().has_captions() && set.image_NE.defined() && set.text_NE.defined())
    set.caption_loss =
        total_over_ranks(parts.caption_loss_sum, context.data_axis, device) / static_cast<double>(set.num_samples);
  return set;
}

at::Tensor encode_texts(const EncoderContext& context, const data::TextEncoder& encoder, int64_t context_length,
                        const std::vector<std::string>& texts, int64_t samples_per_batch) {
  const c10::NoGradGuard no_grad;
  const int64_t total = static_cast<int64_t>(texts.size());
  const int64_t size = context.data_axis.size();
  std::vector<int64_t> own;
  for (int64_t text = context.data_axis.rank(); text < total; text += size) own.push_back(text);
  LOCKSTEP_CHECK(total >= size, "texts={} ranks={}", total, size);
  // Texts of like length come together: more at a time than one batch.
  const auto texts_at_once = static_cast<size_t>(samples_per_batch * kBatchesAtOnce);
  std::vector<at::Tensor> parts;
  for (size_t first = 0; first < own.size(); first += texts_at_once) {
    const size_t count = std::min(texts_at_once, own.size() - first), width = static_cast<size_t>(context_length);
    std::vector<int32_t> ids(count * width, 0);
    for (size_t b = 0; b < count; ++b)
      encoder(texts[static_cast<size_t>(own[first + b])], std::span(ids).subspan(b * width, width));
    parts.push_back(context.engine.texts(ids, context_length, samples_per_batch));
    if (context.on_progress) context.on_progress(static_cast<int64_t>(first + count));
  }
  std::vector<int64_t> places(own.size());
  std::iota(places.begin(), places.end(), 0);
  const RowOrder order = order_of_all(places, context.data_axis, context.engine.mover().device());
  return gather_rows(at::cat(parts), order, context.data_axis).to(at::kCPU);
}

at::Tensor zero_shot_classifier(const EncoderContext& context, const data::TextEncoder& encoder, int64_t context_length,
                                const std::vector<std::string>& class_names, const std::vector<std::string>& templates,
                                int64_t samples_per_batch) {
  std::vector<std::string> prompts;
  for (const auto& name : class_names)
    for (const auto& prompt : templates) prompts.push_back(data::fill_template(prompt, name));
  // Enough prompts for every rank; a repeated prompt is dropped again below.
  const size_t real = prompts.size();
  while (prompts.size() < static_cast<size_t>(context.data_axis.size())) prompts.push_back(prompts.front());
  const auto prompt_PE = encode_texts(context, encoder, context_length, prompts, samples_per_batch)
                             .narrow(0, 0, static_cast<int64_t>(real));
  const auto mean_KE =
      prompt_PE.view({static_cast<int64_t>(class_names.size()), static_cast<int64_t>(templates.size()), -1}).mean(1);
  return models::normalise_rows(mean_KE);
}

train::Metrics validate_pairs(const EncoderContext& context, const std::string& modality, data::Loader& loader,
                              int64_t samples_per_batch) {
  const EncodedSet set = encode_all(context, loader, context.engine.mover().device());
  if (set.num_samples == 0 || !set.image_NE.defined() || !set.text_NE.defined())
    throw DataError(
        fmt::format("evaluation: the validation data hold no pair of {} and text", modality),
        fmt::format("check --val-data, and {} and --text-key", modality == "audio" ? "--audio-ext" : "--image-key"));
  const double scale =
      context.engine.network().logit_scale().detach().to(at::kDouble).exp().item<double>();  // sync: evaluation
  train::Metrics metrics = retrieval_metrics(modality, set.image_NE, set.text_NE, context.data_axis);
  metrics.emplace_back(
      modality == "audio" ? "clap_val_loss" : "clip_val_loss",
      batched_contrastive_loss(set.image_NE, set.text_NE, scale, samples_per_batch, context.data_axis));
  metrics.emplace_back("num_samples", static_cast<double>(set.num_samples));
  if (set.num_failed > 0) metrics.emplace_back("num_failed", static_cast<double>(set.num_failed));
  if (set.caption_loss) metrics.emplace_back("val_generative_loss", *set.caption_loss);
  return metrics;
}

train::Metrics zero_shot_accuracy(const std::string& prefix, const EncodedSet& pictures, const at::Tensor& class_KE) {
  const int64_t K = class_KE.size(0);
  if (pictures.num_samples == 0 || !pictures.label_N.defined())
    throw DataError("evaluation: the zero-shot data hold no labelled sample",
                    "give one folder per class, or shards whose samples have a .cls member");
  const int64_t largest = pictures.label_N.max().item<int64_t>(), smallest = pictures.label_N.min().item<int64_t>();
  if (smallest < 0 || largest >= K)
    throw DataError(
        fmt::format("evaluation: label {} is not a class: expected 0 to {}", smallest < 0 ? smallest : largest, K - 1),
        "the class-name file needs one line for each class folder, in the sorted order of the folders");
  const auto score_NK = pictures.image_NE.matmul(class_KE.t());
  const auto top_N5 = std::get<1>(score_NK.topk(std::min<int64_t>(5, K), 1));
  const auto hit_N5 = top_N5.eq(pictures.label_N.unsqueeze(1)).to(at::kDouble);
  const double N = static_cast<double>(pictures.num_samples);
  return {{prefix + "-top1", hit_N5.narrow(1, 0, 1).sum().item<double>() / N},
          {prefix + "-top5", hit_N5.sum().item<double>() / N}};
}

}  // namespace lockstep::tasks
