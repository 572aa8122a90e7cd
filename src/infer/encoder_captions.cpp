#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/error.h"
#include "core/strings.h"
#include "data/text/clip_assets.h"
#include "data/text/tokenizer.h"
#include "infer/caption_search.h"
#include "infer/encoder.h"
#include "infer/file_list.h"
#include "models/clip/clip_model.h"

namespace lockstep::infer {
namespace {

/// How captions are searched; they begin and end with CLIP's tokens.
CaptionSearch search_of(const config::InferOptions& options, int64_t context) {
  const bool is_top_k = options.caption_search == "top-k", is_top_p = options.caption_search == "top-p";
  return {.is_beam_search = options.caption_search == "beam",
          .num_beams = options.num_beams,
          .choice = {.is_greedy = !is_top_k && !is_top_p,
                     .temperature = options.temperature,
                     .top_k = is_top_k ? options.caption_top_k : 0,
                     .top_p = is_top_p ? options.caption_top_p : 1.0},
          .seed = static_cast<uint64_t>(options.seed),
          .longest = options.longest_caption.value_or(std::min(config::InferOptions::kLongestCaption, context)),
          .shortest = options.shortest_caption,
          .start_id = data::ClipTokenizer::kStartOfText,
          .end_id = data::ClipTokenizer::kEndOfText,
          .pad_id = data::ClipTokenizer::kPadding};
}

}  // namespace

models::ClipModel& Encoder::captioning_model() {
  auto* clip = dynamic_cast<models::ClipModel*>(model_.get());
  if (clip == nullptr || !clip->has_captions())
    throw UsageError(fmt::format("infer: model '{}' makes no captions", options_.model),
                     "take a CoCa model: coca_ViT-B-32, coca_ViT-L-14");
  const auto& text = clip->shape().text;
  if (text.tokens != config::TextTokens::kClip || text.vocab_size <= data::ClipTokenizer::kEndOfText)
    throw UsageError(
        fmt::format("infer: the captions of model '{}' are not in CLIP's tokens", options_.model),
        "take a CoCa model whose text tower is CLIP's: with RoBERTa, whose tokens see those behind them, a "
        "decoder learns to copy a caption, not to write one");
  if (options_.longest_caption.value_or(0) > text.context_length)
    throw UsageError(fmt::format("infer: --max-tokens {} is more than the {} tokens of model '{}'",
                                 *options_.longest_caption, text.context_length, options_.model),
                     "give a smaller one");
  return *clip;
}

std::vector<std::string> Encoder::captions(const std::vector<std::filesystem::path>& files, BadSamples& bad) {
  models::ClipModel& model = captioning_model();
  const data::ClipTokenizer tokenizer(options_.tokenizer_vocab.empty()
                                          ? data::find_clip_assets().vocabulary()
                                          : std::filesystem::path(options_.tokenizer_vocab));
  model.set_training(false);
  const c10::NoGradGuard no_grad;
  data::Loader loader(file_list_source(files), tolerant_decoder(make_decoder(), bad),
                      loader_config(/*has_other=*/true, /*has_text=*/false));
  CaptionSearch search = search_of(options_, model.shape().text.context_length);
  const auto progress = context("captions", std::ssize(files)).on_progress;
  std::vector<std::string> captions;
  for (data::HostBatch host = loader.next(); host.num_samples > 0; host = loader.next()) {
    const auto batch = mover_->to_device(host);
    const auto autocast = precision_.autocast();
    const at::Tensor picture_BSD = model.image_features(batch.image_BCYX).tokens_BTD;
    const NextLogits next_logits = [&](const at::Tensor& picture_N, const at::Tensor& ids_NT) {
      const at::Tensor logits_NV =
          model.next_token_logits(picture_BSD.index_select(0, picture_N.to(device_)), ids_NT.to(device_));
      return logits_NV.to(at::kFloat).cpu();
    };
    for (std::vector<int32_t>& ids : search_captions(next_logits, batch.num_samples, search)) {
      std::erase_if(ids, [&](int32_t id) { return id == search.start_id || id == search.end_id; });
      captions.emplace_back(core::trim(tokenizer.decode(ids)));
    }
    search.seed += 1;  // pictures of the next batch draw other numbers
    progress(std::ssize(captions));
  }
  return captions;
}

}  // namespace lockstep::infer
