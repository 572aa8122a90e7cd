#include "commands/bench_options.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "config/borrowed_flags.h"
#include "config/contrastive_shape.h"
#include "config/gpt_shape.h"
#include "config/gpu_math.h"
#include "config/image_options.h"
#include "config/imagenet_models.h"
#include "config/inference_options.h"
#include "config/option_checks.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::commands {
using config::borrow_flags;
namespace {
struct CaseText {
  const char* command;
  const char* summary;
};

CaseText case_text(BenchCaseName which) {
  switch (which) {
    case BenchCaseName::kCollective:
      return {"bench collective", "Check and time collectives over all ranks of a launch."};
    case BenchCaseName::kLoader:
      return {"bench loader",
              "Time the data path by itself. With a classifier as --model (resnet50) --train-data is read as in `train "
              "imagenet`: class folders, an LMDB, shards with .cls members or a table with labels."};
    case BenchCaseName::kOp: return {"bench op", "Check and time matrix products and other operators."};
    case BenchCaseName::kStep:
      return {"bench step", "Time whole training steps of CLIP, CLAP, a classifier or a GPT on made-up data."};
    case BenchCaseName::kCheckpoint: return {"bench checkpoint", "Time saving and loading of checkpoints."};
    case BenchCaseName::kLatency: return {"bench latency", "Time single calls of a trained model, stage by stage."};
  }
  return {};
}

bool is_among(const std::string& model, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), model) != names.end();
}

/// Whether it is a configuration of Hugging Face's, which has the width at the top. Who reads it tells what is wrong.
bool is_gpt_file(const std::string& name) {
  std::error_code unreadable;
  if (!core::ends_with(name, ".json") || !std::filesystem::is_regular_file(name, unreadable)) return false;
  try {
    const core::Json config = core::parse_json(core::read_file(name), name);
    return config.is_object() && (config.contains("n_embd") || config.contains("hidden_size"));
  } catch (const Error&) {
    return false;
  }
}

BenchModel model_kind_of(const std::string& name) {
  if (is_among(name, config::classifier_names())) return BenchModel::kClassifier;
  const bool is_gpt = is_among(name, config::gpt_model_names()) || is_gpt_file(name);
  return is_gpt ? BenchModel::kGpt : BenchModel::kContrastive;
}

void declare_run(core::OptionSet& set, BenchOptions& o, const core::OptionSet& clip) {
  set.group("Run and output");
  set.add("mode", &o.mode,
          {.help = "list: what would be measured. verify: check the results, no timing. time: check, then time.",
           .choices = {"list", "verify", "time"}});
  set.add("json", &o.json,
          {.help = "One JSON document on standard output: command, versions, hardware, every sample."});
  set.add("csv", &o.csv, {.help = "The table as comma-separated values."});
  std::vector<std::string> other_names = {"out"};
  if (o.which != BenchCaseName::kCollective) other_names.emplace_back("o");  // there nccl-tests' -o is --op
  set.add("output", &o.out,
          {.help = "Also write the JSON document to this file.", .metavar = "FILE", .aliases = other_names});
  set.add("warmup-iters", &o.num_warmup,
          {.help = "Iterations before the measured ones.", .min = 0, .max = 1e6, .aliases = {"w"}});
  set.add("iters", &o.num_iterations,
          {.help = "Measured iterations; each is one sample.", .min = 1, .max = 1e7, .aliases = {"n"}});
  borrow_flags(set, clip, {"device", "dist-backend", "dist-timeout", "join-timeout", "threads"});
  const bool has_model = o.which == BenchCaseName::kStep || o.which == BenchCaseName::kLatency;
  if (o.which != BenchCaseName::kStep) o.train.gpu_math = {};
  if (has_model || o.which == BenchCaseName::kOp) borrow_flags(set, clip, {"tf32", "cudnn-tf32", "cudnn-benchmark"});
}

void declare_collective(core::OptionSet& set, BenchOptions& o) {
  set.group("Collectives");
  set.add("collectives", &o.collectives,
          {.help = "What to run: all-reduce, all-gather, reduce-scatter, broadcast, all-to-all, send-receive (each "
                   "rank sends to the "
                   "next one), or all.",
           .metavar = "NAME"});
  set.add("minbytes", &o.min_bytes,
          {.help = "Smallest size: 8, 32K, 128M, 1G, ... (powers of 1024).", .metavar = "BYTES", .aliases = {"b"}});
  set.add("maxbytes", &o.max_bytes, {.help = "Largest size.", .metavar = "BYTES", .aliases = {"e"}});
  set.add("stepfactor", &o.step_factor,
          {.help = "Each size is this many times the one before.",
           .min = 1,
           .max = 1e6,
           .is_min_excluded = true,
           .aliases = {"f"}});
  set.add("datatype", &o.data_type,
          {.help = "Type of the elements.",
           .choices = {"float", "half", "bfloat16", "double", "int32", "int64", "uint8"},
           .refused_choices = {{"int8", "use uint8"}, {"uint32", "use int32"}, {"uint64", "use int64"}},
           .aliases = {"d"}});
  set.add("redop", &o.reduce_op,
          {.help = "Reduction of all-reduce and reduce-scatter.",
           .choices = {"sum", "avg", "max", "min"},
           .refused_choices = {{"prod", "nothing here uses products"}},
           .aliases = {"o"}});
  set.add("root", &o.root, {.help = "Sender of broadcast.", .min = 0, .aliases = {"r"}});
  set.add("average", &o.average,
          {.help = "How the times of one iteration on all ranks become its sample.",
           .choices = {"avg", "rank0", "min", "max"},
           .choice_aliases = {{"0", "rank0"}, {"1", "avg"}, {"2", "min"}, {"3", "max"}},
           .aliases = {"a"}});
  set.add("check", &o.num_checks,
          {.help = "Calls of each size whose values are checked before the timing; 0: none.",
           .min = 0,
           .max = 1e6,
           .aliases = {"c"}});
  set.refuse("ngpus", "one process drives one device here",
             "start one rank per device: lockstep launch --nproc-per-node N -- bench collective");
  set.refuse("nthreads", "one process drives one device here",
             "start one rank per device: lockstep launch --nproc-per-node N -- bench collective");
  set.refuse("stepbytes", "sizes grow by a factor here", "use --stepfactor");
}

/// --dataset-type of `train clip`, and the kinds that have labels alone.
void declare_loader_datasets(core::OptionSet& set, BenchOptions& o, const core::OptionSet& clip) {
  core::OptionSpec spec = clip.find("dataset-type")->spec;
  spec.group.clear();
  spec.help =
      "Kind of data set. auto goes by the name: .tar and pipe: are webdataset, .csv and .tsv csv; with a classifier "
      "folders are imagefolder or lmdb.";
  for (const char* kind : {"imagefolder", "lmdb"}) {
    spec.choices.emplace_back(kind);
    std::erase_if(spec.refused_choices, [&](const auto& refused) { return refused.first == kind; });
  }
  set.add("dataset-type", &o.train.dataset_type, std::move(spec));
}

void declare_loader(core::OptionSet& set, BenchOptions& o, const core::OptionSet& clip) {
  set.group("Data");
  borrow_flags(
      set, clip,
      {{"train-data",
        {},
        "Pictures with captions as in `train clip`, sounds with captions as in `train clap`, or with a classifier as "
        "--model pictures with labels as in `train imagenet`: shards ('/d/{00000..00099}.tar') and tables (.csv, "
        ".tsv) of either, class folders and LMDBs of labels.",
        "none: made-up data"},
       "train-data-upsampling-factors",
       "train-num-samples"});
  declare_loader_datasets(set, o, clip);
  borrow_flags(set, clip,
               {"dataset-resampled",
                "csv-separator",
                "csv-img-key",
                {"csv-caption-key", {}, "CSV column with the caption; a classifier reads --csv-label-key instead."}});
  set.add("csv-label-key", &o.csv_label_key,
          {.help = "With a classifier as --model: CSV column with the number of the class.", .metavar = "COLUMN"});
  borrow_flags(
      set, clip,
      {"image-key",
       {"text-key",
        {},
        "WebDataset members that hold the caption, joined with ';'; with a CLAP model json;txt unless given. A "
        "classifier reads the label in .cls."}});
  set.add(
      "audio-ext", &o.train.audio_ext,
      {.help = "With a CLAP model: WebDataset members that hold the sound, joined with ';'.", .metavar = "EXT;EXT"});
  borrow_flags(set, clip,
               {"batch-size", "data-order", "data-lanes", "shuffle", "on-bad-sample", "max-bad-samples", "index-dir",
                "max-image-pixels", "seed"});
  set.group("Image and text preparation");
  borrow_flags(set, clip,
               {{"model",
                 {},
                 "An OpenCLIP or CLAP model or its JSON file, whose pictures or sounds and texts are prepared, or a "
                 "classifier (resnet50), whose pictures are."},
                "force-image-size",
                "force-context-length",
                "train-transform",
                "aug-cfg"});
  config::declare_image_options(set,
                                {&o.train.image_mean, &o.train.image_std, &o.train.image_interpolation,
                                 &o.train.image_resize_mode, &o.train.image_fill_color, &o.train.resize_order},
                                config::PicturesOf::kClipOrClassifier);
  borrow_flags(set, clip, {"tokenizer-vocab"});
  set.add("jpeg-decode", &o.jpeg_decode,
          {.help = "With a classifier as --model: as in `train imagenet`.", .choices = {"exact", "scaled"}});
  set.group("Load");
  set.add("workers", &o.loader_workers,
          {.help = "Decoding threads of each rank; one measurement for each number.",
           .unit = "threads per rank",
           .min = 1,
           .max = 1024});
  set.add("think-ms", &o.think_ms,
          {.help = "Pause after each batch, in place of a device that computes that long; gives the share of time that "
                   "the device would be busy.",
           .unit = "ms",
           .min = 0,
           .max = 1e6});
}

void declare_op(core::OptionSet& set, BenchOptions& o) {
  set.group("Operators");
  set.add("ops", &o.ops,
          {.help = "What to run: gemm, copy, triad, attention, layer-norm, sum-norm (with the residual sum), "
                   "norm-backward, or all.",
           .metavar = "NAME"});
  set.add("precisions", &o.precisions, {.help = "Types of the elements: fp32, bf16, fp16, fp64.", .metavar = "NAME"});
  set.add("min-dim", &o.min_dim, {.help = "Smallest square matrix product.", .min = 1, .max = 1e6});
  set.add("max-dim", &o.max_dim, {.help = "Largest square matrix product.", .min = 1, .max = 1e6});
  set.add("stepfactor", &o.step_factor,
          {.help = "Each square product has this many times the rows of the one before.",
           .min = 1,
           .max = 1e6,
           .is_min_excluded = true,
           .aliases = {"f"}});
  set.add("model", &o.op_model,
          {.help = "Also the shapes of this OpenCLIP model's transformers.",
           .metavar = "NAME|FILE.json",
           .unset_text = "square products only"});
  set.add("batch-size", &o.op_batch,
          {.help = "Samples in the model's shapes.", .unit = "samples", .min = 1, .max = 1e6});
  set.add("array-bytes", &o.array_bytes,
          {.help = "Size of one array of copy and triad; several times the last cache.", .metavar = "BYTES"});
}

void declare_step(core::OptionSet& set, BenchOptions& o, const core::OptionSet& clip) {
  set.group("Model and step");
  borrow_flags(
      set, clip,
      {{"model",
        {},
        "An OpenCLIP or CLAP model or its JSON file, a classifier (resnet50), or a GPT (gpt2) or its config.json."},
       {"batch-size", {}, "Samples of a rank and micro-batch; of GPTs sequences."},
       "accum-freq",
       "precision",
       "grad-checkpointing",
       "force-image-size",
       "force-context-length",
       "force-quick-gelu",
       "force-patch-dropout",
       "use-bn-sync",
       "local-loss",
       "gather-with-grad",
       "grad-sync",
       "bucket-mb",
       "accumulate-allreduce-grads-in-fp32",
       "grad-clip-norm",
       "lr",
       "beta1",
       "beta2",
       "eps",
       "wd",
       "pretrained",
       "cuda-graphs",
       "seed"});
  set.add(
      "seq-length", &o.sequence_length,
      {.help = "GPT: tokens of a sequence.", .unit = "tokens", .unset_text = "by the model", .min = 1, .max = 1 << 24});
  set.add("batches", &o.batches,
          {.help = "Inputs instead of random ones: safetensors with image.N (B x 3 x pixels x pixels, normalised) and "
                   "text.N (B x tokens) for "
                   "N = 0, 1, ...; their B counts, not --batch-size.",
           .metavar = "FILE"});
  set.add("peak-tflops", &o.peak_tflops,
          {.help = "Peak of one device at this precision, for the MFU.",
           .unit = "TFLOP/s",
           .min = 0,
           .is_min_excluded = true});
  set.add("peak-from", &o.peak_file,
          {.help = "The same, as `lockstep bench op --json` has measured it.", .metavar = "FILE"});
  set.add("skip-products", &o.skips_products,
          {.help = "Matrix products are not measured behind the steps, so that the share of their rate is not told."});
  set.group("Search for the largest batch");
  set.add("find-batch", &o.find_batch,
          {.help = "multiple=N: first find the largest --batch-size that fits, in multiples of N; each attempt is a "
                   "process of its own.",
           .metavar = "multiple=N"});
  set.add("find-most", &o.find_most,
          {.help = "The search ends here.", .unit = "samples per rank", .min = 1, .max = 1e9});
  set.add("memory-limit", &o.memory_limit,
          {.help = "Memory that a step may hold in the search.",
           .metavar = "BYTES",
           .unset_text = "CPU: what is free (control group, machine); CUDA: the device"});
}

void declare_checkpoint(core::OptionSet& set, BenchOptions& o, const core::OptionSet& clip) {
  set.group("Checkpoint");
  borrow_flags(set, clip, {"model", "precision", "force-image-size", "force-context-length", "seed"});
  set.add(
      "dir", &o.directory,
      {.help = "Storage to measure: a folder in which a folder is made, and removed at the end.", .metavar = "DIR"});
}

void declare_latency(core::OptionSet& set, BenchOptions& o, const core::OptionSet& clip) {
  o.train.model = "ViT-B-32";
  o.num_iterations = 200;
  o.precisions = {"fp32"};
  set.group("What is measured");
  set.add(
      "model", &o.train.model,
      {.help =
           "An OpenCLIP or CLAP model or its JSON file, a classifier (resnet50), or a GPT (gpt2) or its config.json.",
       .metavar = "NAME|FILE.json"});
  set.add(
      "from", &o.latency_from,
      {.help = "Where a call begins. pictures: encoded pictures or recordings, and texts. pixels: decoded and resized "
               "pictures or clips, and token ids, in the memory of the host. tokens: the network's input on the "
               "device.",
       .metavar = "START",
       .unset_text = "pixels; GPT: tokens"});
  set.add("towers", &o.latency_towers,
          {.help = "image (or sounds), text, both.", .metavar = "TOWER", .unset_text = "both, where there are two"});
  set.add("batch-size", &o.latency_batches,
          {.help = "Samples of a call; one measurement for each.", .unit = "samples", .min = 1, .max = 65536});
  set.add("precisions", &o.precisions, {.help = "Type of weights and products: fp32, bf16, fp16.", .metavar = "NAME"});
  set.add(
      "text-length", &o.text_tokens,
      {.help =
           "Tokens of made-up texts and prompts, start and end included; unless given no more than the model reads.",
       .unit = "tokens",
       .min = 2,
       .max = 1e6});
  set.add("new-tokens", &o.new_tokens, {.help = "GPT: tokens to generate.", .unit = "tokens", .min = 2, .max = 1e6});
  set.add("images", &o.images,
          {.help = "Pictures to decode.", .metavar = "DIR", .unset_text = "made-up ones of 500 x 375 pixels"});
  set.add("texts", &o.texts, {.help = "Texts, one per line.", .metavar = "FILE", .unset_text = "made-up token ids"});
  borrow_flags(
      set, clip,
      {"pretrained", "force-image-size", "force-context-length", "force-quick-gelu", "tokenizer-vocab", "seed"});
  set.add(
      "seconds", &o.latency_seconds,
      {.help = "A measurement ends after --iters calls, or with the first call that ends behind this time, but never "
               "before its tenth. Loading, check and warm-up come on top.",
       .unit = "s",
       .min = 0,
       .max = 1e6});
  config::declare_cuda_graphs_option(set, &o.cuda_graphs);
}

/// Names from a list flag, each once; "all" stands for all of them. '_' is as good as '-'.
std::vector<std::string> resolve_names(std::string_view flag, const std::vector<std::string>& typed,
                                       std::span<const std::string> known, bool has_all) {
  std::vector<std::string> resolved;
  const auto add = [&](const std::string& name) {
    if (std::find(resolved.begin(), resolved.end(), name) == resolved.end()) resolved.push_back(name);
  };
  for (const std::string& text : typed) {
    const std::string name = core::replace_all(text, "_", "-");
    if (has_all && name == "all")
      std::for_each(known.begin(), known.end(), add);
    else if (std::find(known.begin(), known.end(), name) != known.end())
      add(name);
    else {
      const auto nearest = core::nearest_name(name, known);
      throw UsageError(fmt::format("options: {} '{}' is unknown, expected {}{}", flag, text, core::join_or(known),
                                   has_all ? ", or all" : ""),
                       nearest ? fmt::format("did you mean {}?", *nearest) : "");
    }
  }
  return resolved;
}

void check_loader(const BenchOptions& o, const core::OptionSet& set) {
  config::check_image_options(o.train.image_mean, o.train.image_std, o.train.force_image_size);
  if (o.train.train_data.empty() && !o.train.has_made_up_data())
    throw UsageError("options: 'bench loader' needs --train-data SPEC",
                     "or --dataset-type synthetic with --train-num-samples");
  const bool has_classifier = o.model_kind == BenchModel::kClassifier;
  std::error_code ignored;
  if (!has_classifier && (o.train.dataset_type == "imagefolder" || o.train.dataset_type == "lmdb"))
    throw UsageError(
        fmt::format("options: '--dataset-type {}' with --model {}: such data have labels, and no captions, "
                    "which it reads",
                    o.train.dataset_type, o.train.model),
        "give --model resnet50, or another classifier");
  if (!has_classifier && std::filesystem::is_directory(o.train.train_data, ignored))
    throw UsageError(fmt::format("options: --train-data '{}' is a folder: class folders and LMDBs have labels, and no "
                                 "captions, which '{}' reads",
                                 o.train.train_data, o.train.model),
                     "give --model resnet50, or another classifier");
  if (o.jpeg_decode != "exact" && !has_classifier)
    throw UsageError(
        fmt::format("options: '--jpeg-decode {}' with --model {}, expected a classifier", o.jpeg_decode, o.train.model),
        "give --model resnet50, or leave it out");
  if (!has_classifier && set.is_given("csv-label-key"))
    throw UsageError(fmt::format("options: --csv-label-key with --model {}, which reads captions", o.train.model),
                     "name their column with --csv-caption-key, or give --model resnet50");
  if (has_classifier && set.is_given("csv-caption-key"))
    throw UsageError(fmt::format("options: --csv-caption-key with --model {}, which reads labels", o.train.model),
                     "name their column with --csv-label-key, or give a model that reads captions");
}

void check_op(BenchOptions& o) {
  static const std::array<std::string, 7> ops = {"gemm",       "copy",     "triad",        "attention",
                                                 "layer-norm", "sum-norm", "norm-backward"};
  static const std::array<std::string, 4> precisions = {"fp32", "bf16", "fp16", "fp64"};
  o.ops = resolve_names("--ops", o.ops, ops, true);
  o.precisions = resolve_names("--precisions", o.precisions, precisions, false);
  if (o.min_dim > o.max_dim)
    throw UsageError(fmt::format("options: --min-dim {} is above --max-dim {}", o.min_dim, o.max_dim),
                     "give them in rising order");
  config::parse_bytes(o.array_bytes, "--array-bytes");
}

/// Refuses those of `flags` that were given, as a kind of model has no use for them.
void refuse_flags(const BenchOptions& o, const core::OptionSet& set, std::initializer_list<const char*> flags,
                  const std::string& why, const std::string& hint) {
  for (const char* flag : flags)
    if (set.is_given(flag))
      throw UsageError(fmt::format("options: --{} with --model {}, {}", flag, o.train.model, why), hint);
}

void refuse_latency_flags_of_other_models(const BenchOptions& o, const core::OptionSet& set) {
  const BenchModel model = o.model_kind;
  const std::string give_text = "leave it out, or give a model with a text tower (ViT-B-32)",
                    give_image = "leave it out, or give a model that sees pictures (ViT-B-32)";
  if (model == BenchModel::kClassifier)
    refuse_flags(o, set, {"text-length", "texts", "force-context-length", "force-quick-gelu", "tokenizer-vocab"},
                 "a classifier, which reads no texts", give_text);
  if (model == BenchModel::kGpt) {
    refuse_flags(o, set, {"images", "force-image-size"}, "a GPT, which sees no pictures", give_image);
    refuse_flags(o, set, {"texts", "force-context-length", "force-quick-gelu", "tokenizer-vocab"},
                 "a GPT, whose prompts are made-up tokens", "give their number with --text-length");
  }
  if (model != BenchModel::kGpt)
    refuse_flags(o, set, {"new-tokens"}, "which generates none", "leave it out, or give a GPT (gpt2)");
  if (model == BenchModel::kContrastive && o.train.is_clap())
    refuse_flags(o, set, {"images", "force-image-size", "force-quick-gelu"}, "a CLAP model, which sees no pictures",
                 give_image);
}

/// --precision as the training command of this kind of model has it.
void check_step_precision(const BenchOptions& o, const std::vector<std::string>& known, const char* command,
                          const std::string& hint) {
  if (!is_among(o.train.precision, known))
    throw UsageError(fmt::format("options: '--precision {}' with --model {}: `{}` has {}", o.train.precision,
                                 o.train.model, command, core::join_or(known)),
                     hint);
}

/// An unknown name may be that of another kind of model, misspelt.
void check_contrastive_name(const BenchOptions& o) {
  try {
    tasks::contrastive_shape_of(o.train);
  } catch (const UsageError& error) {
    std::vector<std::string> others = config::classifier_names(), gpts = config::gpt_model_names();
    others.insert(others.end(), gpts.begin(), gpts.end());
    const auto nearest = core::nearest_name(o.train.model, others);
    if (!nearest) throw;
    throw UsageError(fmt::format("options: --model '{}' is unknown", o.train.model),
                     fmt::format("did you mean {}?", *nearest));
  }
}

void check_step_model(const BenchOptions& o, const core::OptionSet& set) {
  const BenchModel model = o.model_kind;
  if (model != BenchModel::kGpt)
    refuse_flags(o, set, {"seq-length"}, "which is no GPT", "leave it out, or give a GPT (gpt2)");
  if (model == BenchModel::kContrastive) return check_contrastive_name(o);
  const std::string leave = "leave it out, or give a contrastive model (ViT-B-32)";
  if (model == BenchModel::kClassifier) {
    refuse_flags(o, set,
                 {"force-context-length", "force-quick-gelu", "force-patch-dropout", "local-loss", "gather-with-grad",
                  "accumulate-allreduce-grads-in-fp32", "grad-checkpointing", "batches"},
                 "a classifier, which has no such thing", leave);
    refuse_flags(o, set, {"beta1", "beta2", "eps"}, "which SGD trains", "leave it out");
    return check_step_precision(o, {"fp32", "amp", "amp_bf16"}, "train imagenet", "");
  }
  refuse_flags(o, set, {"force-context-length"}, "a GPT", "give the tokens of a sequence with --seq-length");
  refuse_flags(o, set,
               {"force-image-size", "force-quick-gelu", "force-patch-dropout", "use-bn-sync", "local-loss",
                "gather-with-grad", "bucket-mb", "pretrained", "batches"},
               "a GPT, whose steps do not know it", leave);
  if (o.train.grad_sync == "none")
    throw UsageError("options: '--grad-sync none' with a GPT, expected auto, ddp or zero1", "leave it out");
  check_step_precision(o, {"fp32", "bf16_master", "fp16_master"}, "train gpt",
                       "bf16 and bf16_master are --bf16 there, fp16_master is --fp16");
}

void check_latency(BenchOptions& o, const core::OptionSet& set) {
  static const std::array<std::string, 3> froms = {"pictures", "pixels", "tokens"}, towers = {"both", "image", "text"},
                                          precisions = {"fp32", "bf16", "fp16"};
  config::check_image_options({}, {}, o.train.force_image_size);
  o.latency_from = resolve_names("--from", o.latency_from, froms, true);
  o.latency_towers = resolve_names("--towers", o.latency_towers, towers, true);
  o.precisions = resolve_names("--precisions", o.precisions, precisions, true);
  refuse_latency_flags_of_other_models(o, set);
  if (!o.texts.empty() && set.is_given("text-length"))
    throw UsageError(fmt::format("options: --text-length {} with --texts '{}': the texts have their own lengths, "
                                 "--text-length is that of made-up ones",
                                 o.text_tokens, o.texts),
                     "give one of them");
}

void check_step(BenchOptions& o, const core::OptionSet& set) {
  config::check_image_options({}, {}, o.train.force_image_size);
  check_step_model(o, set);
  if (!o.find_batch.empty()) {
    constexpr std::string_view kKey = "multiple=";
    const auto multiple = core::starts_with(o.find_batch, kKey)
                              ? core::parse_int(std::string_view(o.find_batch).substr(kKey.size()))
                              : std::nullopt;
    if (!multiple || *multiple < 1 || *multiple > o.find_most)
      throw UsageError(fmt::format(
          "options: --find-batch '{}' is not understood, expected multiple=N with N from 1 to --find-most ({})",
          o.find_batch, o.find_most));
    o.find_multiple = *multiple;
    if (!o.batches.empty())
      throw UsageError("options: --find-batch makes its own batches, --batches brings some", "give one of them");
  }
  if (o.peak_tflops && !o.peak_file.empty())
    throw UsageError("options: --peak-tflops and --peak-from both give the peak", "give one of them");
  if (!o.memory_limit.empty()) config::parse_bytes(o.memory_limit, "--memory-limit");
  if (!o.batches.empty() && set.is_given("batch-size"))
    throw UsageError("options: --batches has its own size, --batch-size is another", "leave --batch-size out");
}

void check_checkpoint(const BenchOptions& o) {
  config::check_image_options({}, {}, o.train.force_image_size);
  if (o.directory.empty())
    throw UsageError("options: 'bench checkpoint' needs --dir DIR", "name a folder on the storage to measure");
}

void check_collective(BenchOptions& o) {
  o.collectives = resolve_names("--collectives", o.collectives, bench_collective_names(), true);
  const int64_t min = config::parse_bytes(o.min_bytes, "--minbytes"),
                max = config::parse_bytes(o.max_bytes, "--maxbytes");
  if (min > max)
    throw UsageError(fmt::format("options: --minbytes {} is above --maxbytes {}", o.min_bytes, o.max_bytes),
                     "give -b and -e in rising order");
  const bool is_whole_type = o.data_type == "int32" || o.data_type == "int64" || o.data_type == "uint8";
  if (o.reduce_op == "avg" && is_whole_type)
    throw UsageError(fmt::format("options: --redop avg of {} would lose its fractions", o.data_type),
                     "use --redop sum, or a floating-point type");
  if (o.mode == "verify" && o.num_checks == 0)
    throw UsageError("options: --mode verify with --check 0 does nothing", "leave --check out");
}

/// What the training command of a model that is not contrastive takes where nothing was said.
void fill_step_defaults(BenchOptions& o, core::OptionSet& set) {
  const tasks::GptOptions gpt;
  const bool is_gpt = o.model_kind == BenchModel::kGpt;
  const auto fill = [&](const char* flag, auto& field, const auto& value) {
    if (set.is_given(flag)) return;
    field = value;
    set.mark_derived(flag, "the model");
  };
  constexpr double kLearningRate = 1e-4, kClassifierDecay = 1e-4;  // small: every step has the same samples
  fill("precision", o.train.precision, "fp32");
  if (is_gpt && o.train.precision == "bf16") o.train.precision = "bf16_master";  // as `train gpt` calls it
  fill("lr", o.train.lr, kLearningRate);
  fill("wd", o.train.wd, is_gpt ? gpt.weight_decay : kClassifierDecay);
  if (!is_gpt) return;
  fill("batch-size", o.train.micro_batch_size, gpt.micro_batch_size);
  fill("beta1", o.train.beta1, gpt.adam_beta1);
  fill("beta2", o.train.beta2, gpt.adam_beta2);
  fill("eps", o.train.eps, gpt.adam_eps);
  fill("grad-clip-norm", o.train.grad_clip_norm, gpt.clip_grad);
}

}  // namespace

std::span<const std::string> bench_collective_names() {
  static const std::array<std::string, 6> names = {"all-reduce", "all-gather", "reduce-scatter",
                                                   "broadcast",  "all-to-all", "send-receive"};
  return names;
}

core::OptionSet declare_bench_options(BenchOptions& options) {
  const CaseText text = case_text(options.which);
  core::OptionSet set(text.command, text.summary);
  const core::OptionSet clip = tasks::declare_contrastive_options(options.train);  // flags that mean the same there
  switch (options.which) {
    case BenchCaseName::kCollective: declare_collective(set, options); break;
    case BenchCaseName::kLoader: declare_loader(set, options, clip); break;
    case BenchCaseName::kOp: declare_op(set, options); break;
    case BenchCaseName::kStep: declare_step(set, options, clip); break;
    case BenchCaseName::kCheckpoint: declare_checkpoint(set, options, clip); break;
    case BenchCaseName::kLatency: declare_latency(set, options, clip); break;
  }
  declare_run(set, options, clip);
  return set;
}

void fill_bench_defaults(BenchOptions& options, core::OptionSet& set) {
  options.train.task = config::is_clap_model(options.train.model) ? "clap" : "clip";
  options.model_kind = model_kind_of(options.train.model);
  const bool reads_captions = options.model_kind == BenchModel::kContrastive;
  if (options.which == BenchCaseName::kLoader && options.train.is_clap() && !set.is_given("text-key")) {
    tasks::ContrastiveOptions clap;
    clap.task = options.train.task;
    tasks::declare_contrastive_options(clap);  // which sets defaults
    options.train.text_key = clap.text_key;
    set.mark_derived("text-key", "the model");
  }
  if (options.which == BenchCaseName::kLatency && reads_captions && !set.is_given("text-length")) {
    const int64_t most = tasks::contrastive_shape_of(options.train).context_length();
    if (most < options.text_tokens) {
      options.text_tokens = most;
      set.mark_derived("text-length", "the model");
    }
  }
  if (options.which == BenchCaseName::kStep) {
    if (reads_captions)
      tasks::fill_optimizer_defaults(options.train, set);
    else
      fill_step_defaults(options, set);
  }
  if (options.which == BenchCaseName::kCheckpoint) {  // its optimiser never takes a step
    options.train.beta1 = 0.9;
    options.train.beta2 = 0.98;
    options.train.eps = 1e-6;
  }
}

void check_bench_options(BenchOptions& options, const core::OptionSet& set) {
  if (options.json && options.csv)
    throw UsageError(fmt::format("options: '{}' cannot print JSON and CSV at once", set.command()),
                     "give --json or --csv");
  switch (options.which) {
    case BenchCaseName::kCollective: return check_collective(options);
    case BenchCaseName::kLoader: return check_loader(options, set);
    case BenchCaseName::kOp: return check_op(options);
    case BenchCaseName::kStep: return check_step(options, set);
    case BenchCaseName::kCheckpoint: return check_checkpoint(options);
    case BenchCaseName::kLatency: return check_latency(options, set);
  }
}

void check_bench_ranks(const BenchOptions& options, int64_t num_ranks) {
  if (options.which == BenchCaseName::kLatency && num_ranks > 1)
    throw UsageError(fmt::format("bench: latency is that of one rank, there are {}", num_ranks),
                     "start it without `lockstep launch`, or with one rank");
}

}  // namespace lockstep::commands
