#include "config/infer_options.h"

#include <algorithm>
#include <filesystem>

#include "config/audio_options.h"
#include "config/contrastive_shape.h"
#include "config/image_options.h"
#include "config/imagenet_models.h"
#include "config/inference_options.h"
#include "config/option_checks.h"
#include "config/tower_weights.h"
#include "core/error.h"

namespace lockstep::config {
namespace {
void declare_input(core::OptionSet& set, InferOptions& o) {
  set.group("Input and output");
  set.add("images", &o.images,
          {.help = "Folder of pictures, read with its sub-folders in the order of their sorted names, or one picture.",
           .metavar = "DIR|FILE"});
  set.add("sounds", &o.sounds,
          {.help = "With a CLAP model: folder of sounds (.flac, .wav, .ogg, .opus), or one, read in the same way.",
           .metavar = "DIR|FILE"});
  if (o.job == InferJob::kCaption) {
    set.add("output", &o.output,
            {.help = "Result as JSON Lines, one object per picture: file and caption.",
             .metavar = "FILE",
             .unset_text = "standard output",
             .aliases = {"o", "out"}});
  } else if (o.job == InferJob::kEmbed) {
    set.add("texts", &o.texts, {.help = "Texts, one per line.", .metavar = "FILE"});
    set.add(
        "shards", &o.shards,
        {.help = "WebDataset shards instead: each becomes a file of the folder --output. Every rank does its share; a "
                 "start with the same options goes on with what is missing.",
         .metavar = "SPEC"});
    set.add("image-key", &o.image_key,
            {.help = "With --shards: members that hold the picture, joined with ';'.",
             .metavar = "EXT;EXT",
             .unset_text = "jpg;png;jpeg;webp"});
    set.add("audio-ext", &o.audio_ext,
            {.help = "With --shards: members that hold the sound, joined with ';'.",
             .metavar = "EXT;EXT",
             .unset_text = "flac;wav;ogg"});
    set.add("text-key", &o.text_key,
            {.help = "With --shards: members that hold the caption, joined with ';'.",
             .metavar = "EXT;EXT",
             .unset_text = "CLIP: txt; CLAP: json;txt"});
    set.add("towers", &o.towers,
            {.help = "With --shards: what of a sample is embedded; image stands for sounds, too.",
             .choices = {"both", "image", "text"},
             .choice_aliases = {{"audio", "image"}}});
    set.add("format", &o.format, {.help = "With --shards: form of the files.", .choices = {"safetensors", "npy"}});
    set.add("feature-dtype", &o.feature_type,
            {.help = "With --shards: type of the numbers.", .choices = {"fp32", "fp16"}});
    set.add("output", &o.output,
            {.help = "Result in safetensors with the keys image (or audio) and text: L2-normalised rows in the order "
                     "of the input. The metadata `files` is a JSON list of the files' names. With --shards a folder.",
             .metavar = "FILE|DIR",
             .aliases = {"o", "out"}});
  } else {
    set.add("classnames", &o.classnames,
            {.help = "Class names, one per line. With a classifier they are those of its classes, in their order.",
             .metavar = "FILE",
             .unset_text = "those in the record of a classifier's run, else their numbers"});
    set.add("templates", &o.templates,
            {.help = "Prompts, one per line with {} for the class name.",
             .metavar = "FILE",
             .unset_text = "the 80 prompts of OpenAI; sounds: This is a sound of {}."});
    set.add("top-k", &o.top_k, {.help = "Classes to print for each picture or sound.", .unit = "classes", .min = 1});
    set.add("output", &o.output,
            {.help = "Result as JSON Lines, one object per picture or sound.",
             .metavar = "FILE",
             .unset_text = "standard output",
             .aliases = {"o", "out"}});
  }
}
/// Defaults are those of OpenCLIP's CoCa.generate; its 6 beams in 3 groups are three times the same search of 2.
void declare_captions(core::OptionSet& set, InferOptions& o) {
  set.group("Captions");
  set.add("search", &o.caption_search,
          {.help = "How the next token is found. beam: several captions are followed at a time, the best mean logit "
                   "wins. greedy: the most probable token. top-k, top-p: drawn among the most probable ones.",
           .choices = {"beam", "greedy", "top-k", "top-p"},
           .choice_aliases = {{"beam_search", "beam"}, {"top_k", "top-k"}, {"top_p", "top-p"}}});
  set.add("num-beams", &o.num_beams, {.help = "Captions followed at a time.", .unit = "captions", .min = 2, .max = 64});
  set.add("top-k", &o.caption_top_k, {.help = "With --search top-k: draw among so many.", .unit = "tokens", .min = 1});
  set.add("top-p", &o.caption_top_p,
          {.help = "With --search top-p: draw among as few as together have this probability.",
           .min = 0,
           .max = 1,
           .is_min_excluded = true});
  set.add("temperature", &o.temperature,
          {.help = "Divides the logits in front of a draw.", .min = 0, .is_min_excluded = true});
  set.add("max-tokens", &o.longest_caption,
          {.help = "Longest caption, start and end token included.",
           .unit = "tokens",
           .unset_text = "30, or those of the model's context where it has fewer",
           .min = 3,
           .max = 65536,
           .aliases = {"seq-len"}});
  set.add("min-tokens", &o.shortest_caption,
          {.help = "No caption ends before it has so many tokens.",
           .unit = "tokens",
           .min = 1,
           .max = 65535,
           .aliases = {"min-seq-len"}});
  set.add("seed", &o.seed, {.help = "Keys every draw.", .min = 0});
}

void check_caption_options(const InferOptions& o, const core::OptionSet& set) {
  need_flag(set, o.images.empty(), "--images DIR", "give the folder of pictures");
  need_flag(set, o.pretrained.empty(), "--pretrained FILE", "without weights the captions would be noise");
  const int64_t longest = o.longest_caption.value_or(InferOptions::kLongestCaption);
  refuse_if(o.shortest_caption >= longest,
            fmt::format("--min-tokens {} must be less than --max-tokens {}", o.shortest_caption, longest),
            "give a longer --max-tokens");
  for (const auto& [flag, search] : {std::pair{"num-beams", "beam"}, {"top-k", "top-k"}, {"top-p", "top-p"}})
    refuse_if(set.is_given(flag) && o.caption_search != search,
              fmt::format("--{} belongs to --search {}, not {}", flag, search, o.caption_search),
              "drop one of the two");
  check_image_options(o.image_mean, o.image_std, o.force_image_size);
}
}  // namespace

core::OptionSet declare_infer_options(InferOptions& options) {
  const bool is_embed = options.job == InferJob::kEmbed;
  const bool is_caption = options.job == InferJob::kCaption;
  core::OptionSet set(is_embed     ? "infer embed"
                      : is_caption ? "infer caption"
                                   : "infer classify",
                      is_embed     ? "Embed pictures, sounds and texts with a CLIP or CLAP model."
                      : is_caption ? "Describe pictures with a captioning model (CoCa)."
                                   : "Classify pictures or sounds by class names without training, or pictures with a "
                                     "trained classifier.");
  set.group("Recipe");
  set.add_config_option();
  declare_input(set, options);
  if (is_caption) declare_captions(set, options);
  set.group("Model");
  set.add(
      "model", &options.model,
      {.help = std::string("Name of an OpenCLIP model (ViT-B-32, RN50, HTSAT-tiny-Roberta-base, ...), or a JSON "
                           "file in OpenCLIP's or LAION's format") +
               (options.job == InferJob::kClassify ? "; or a classifier by torchvision's name (resnet50). A run tells "
                                                     "its model, and the tensors of a file that it is a classifier."
                                                   : "."),
       .metavar = "NAME|FILE.json"});
  set.add("pretrained", &options.pretrained,
          {.help = std::string("Weights: .safetensors, a .pt file of OpenCLIP or LAION, ") +
                   (options.job == InferJob::kClassify ? "torchvision's .pth of a classifier, " : "") +
                   "a tag of OpenCLIP or hf-hub:ORG/NAME in a local cache, or a run of `lockstep train` (its newest "
                   "checkpoint) or one of its checkpoints, whose "
                   "model and preparation need no flags then.",
           .metavar = "FILE|DIR|TAG"});
  set.add("precision", &options.precision,
          {.help = "Numbers the towers compute with; amp is fp16 on CUDA and bf16 on the CPU.",
           .choices = {"fp32", "amp", "amp_bf16", "bf16", "pure_bf16"},
           .choice_aliases = {{"amp_bfloat16", "amp_bf16"}}});
  set.add("force-context-length", &options.force_context_length,
          {.help = "Text tokens.", .unit = "tokens", .unset_text = "by the model", .min = 2, .max = 65536});
  declare_shape_overrides(set, {&options.force_image_size, &options.force_quick_gelu});
  set.group("Image, sound and text preparation");
  declare_image_options(set,
                        {&options.image_mean, &options.image_std, &options.image_interpolation,
                         &options.image_resize_mode, &options.image_fill_color, &options.resize_order},
                        options.job == InferJob::kClassify ? PicturesOf::kClipOrClassifier : PicturesOf::kClip);
  if (options.job == InferJob::kClassify)
    set.add("val-resize-size", &options.resize_pixels,
            {.help = "With a classifier: the shortest side becomes this long, then the centre is cut out.",
             .unit = "pixels",
             .unset_text = "8/7 of the network's pictures: 256 of 224",
             .min = 8,
             .max = 8192});
  set.add("max-image-pixels", &options.max_image_pixels,
          {.help = "Larger pictures are refused (decompression bombs).", .unit = "pixels", .min = 1});
  declare_audio_options(set, {&options.audio_fill, &options.audio_trunc, &options.audio_int16_normalize});
  set.add("tokenizer-vocab", &options.tokenizer_vocab,
          {.help = "CLIP: byte-pair vocabulary in the format of OpenAI's bpe_simple_vocab_16e6.txt.gz. CLAP: folder "
                   "with RoBERTa's vocab.json and "
                   "merges.txt, or its tokenizer.json.",
           .metavar = "FILE|DIR",
           .unset_text = "CLIP: the one fetched at set-up"});
  set.group("Device and speed");
  set.add("batch-size", &options.samples_per_batch,
          {.help = "Pictures, sounds or texts of one forward pass.", .unit = "samples", .min = 1});
  declare_device_option(set, &options.device);
  if (!is_caption) declare_cuda_graphs_option(set, &options.cuda_graphs);
  declare_gpu_math_options(set, options.gpu_math);
  set.add("workers", &options.workers, {.help = "Decoding threads.", .unit = "threads", .min = 1, .max = 1024});
  declare_threads_option(set, &options.threads);
  return set;
}

static void check_classifier_options(const InferOptions& options, const core::OptionSet& set) {
  refuse_if(options.job == InferJob::kEmbed, fmt::format("'{}' is a classifier and embeds nothing", options.model),
            "use infer classify, or an OpenCLIP model");
  need_flag(set, options.images.empty(), "--images DIR", "give the folder to classify");
  need_flag(set, options.pretrained.empty(), "--pretrained FILE", "without weights the result would be noise");
  for (const char* flag : {"sounds", "templates", "tokenizer-vocab", "image-resize-mode", "image-fill-color",
                           "force-context-length", "force-quick-gelu", "resize-order"})
    refuse_if(set.is_given(flag), fmt::format("--{} does not belong to the classifier '{}'", flag, options.model),
              "drop it");
  check_image_options(options.image_mean, options.image_std, options.force_image_size);
}

bool InferOptions::has_classifier() const {
  const std::vector<std::string> names = classifier_names();
  return std::find(names.begin(), names.end(), model) != names.end();
}

void fill_infer_defaults(InferOptions& options, core::OptionSet& set) {
  std::error_code ignored;
  options.asks_weights = options.job == InferJob::kClassify && options.sounds.empty() &&
                         set.find("model")->origin.kind == core::Origin::Kind::kDefault &&
                         std::filesystem::is_regular_file(options.pretrained, ignored);
  if (options.has_classifier() || options.asks_weights) return;
  const bool is_clap = is_clap_model(options.model);
  fill_text_vocabulary(set, options.tokenizer_vocab,
                       [&] { return resolve_contrastive_shape(options.model, is_clap, {}); });
  if (is_clap) return;
  fill_from_weights(set, options.model, options.pretrained,
                    {&options.image_mean, &options.image_std, &options.image_interpolation, &options.image_resize_mode,
                     &options.image_fill_color, &options.resize_order});
}

void check_infer_options(const InferOptions& options, const core::OptionSet& set) {
  if (options.shards.empty()) need_place_of(options.output);
  if (options.job == InferJob::kCaption) return check_caption_options(options, set);
  if (options.asks_weights)
    return need_flag(set, options.images.empty(), "--images DIR", "give the folder to classify");
  if (options.has_classifier()) return check_classifier_options(options, set);
  refuse_if(options.resize_pixels.has_value(), "--val-resize-size belongs to classifiers", "drop it");
  const bool is_embed = options.job == InferJob::kEmbed, is_clap = is_clap_model(options.model);
  const char* folder = is_clap ? "--sounds DIR" : "--images DIR";
  need_flag(set, is_embed && options.input().empty() && options.texts.empty() && options.shards.empty(),
            is_clap ? "--sounds DIR, --texts FILE or --shards SPEC" : "--images DIR, --texts FILE or --shards SPEC",
            "give what to embed");
  for (const char* flag : {"images", "sounds", "texts"})
    refuse_if(!options.shards.empty() && set.is_given(flag), fmt::format("--shards and --{} at once", flag),
              "embed them in two starts");
  for (const char* flag : {"image-key", "audio-ext", "text-key", "towers", "format", "feature-dtype"})
    refuse_if(is_embed && options.shards.empty() && set.is_given(flag), fmt::format("--{} belongs to --shards", flag),
              "drop it");
  need_flag(set, is_embed && options.output.empty(), "--output FILE", "for example -o embeddings.safetensors");
  need_flag(set, !is_embed && options.input().empty(), folder, "give the folder to classify");
  need_flag(set, options.pretrained.empty(), "--pretrained FILE", "without weights the result would be noise");
  need_flag(set, !is_embed && options.classnames.empty(), "--classnames FILE",
            "give a file with one class name per line");
  if (!(is_clap ? options.images : options.sounds).empty())
    throw UsageError(fmt::format("options: '{}' got {} with the model '{}'", set.command(),
                                 is_clap ? "--images" : "--sounds", options.model),
                     is_clap ? "CLAP models take --sounds DIR"
                             : "sounds need a CLAP model: --model HTSAT-tiny-Roberta-base, for example");
  need_flag(set, is_clap && options.tokenizer_vocab.empty() && (!is_embed || !options.texts.empty()),
            "--tokenizer-vocab DIR", "give the folder with roberta-base's vocab.json and merges.txt (Hugging Face)");
  check_image_options(options.image_mean, options.image_std, options.force_image_size);
}

void check_infer_ranks(const std::string& command, bool has_shards, int64_t num_ranks) {
  refuse_if(
      num_ranks > 1 && !has_shards,
      fmt::format("'{}' is the work of one rank, there are {}: each would do all of it", command, num_ranks),
      command == "infer embed"
          ? "start it without `lockstep launch`, or with one rank; many ranks share --shards SPEC"
          : "start it without `lockstep launch`, or with one rank; of infer only `infer embed --shards` shares work");
}

}  // namespace lockstep::config
