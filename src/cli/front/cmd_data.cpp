#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/front/commands.h"
#include "cli/front/data_lmdb.h"
#include "cli/front/data_text.h"
#include "core/counted.h"
#include "core/error_lines.h"
#include "core/join_first.h"
#include "core/log.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"
#include "core/units.h"
#include "data/inspect.h"
#include "data/pictures/make_shapes.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"
#include "data/sounds/make_sounds.h"

namespace lockstep::cli {

void print_data_json(const core::Json& json) {
  core::print("{}\n", json.dump(2, ' ', false, core::Json::error_handler_t::replace));
}

void declare_data_workers(core::OptionSet& set, std::optional<int64_t>& num_workers, const std::string& help) {
  set.add("workers", &num_workers,
          {.help = help, .unit = "threads", .unset_text = "one per core", .min = 1, .max = 1024});
}

int64_t data_threads(const std::optional<int64_t>& num_workers) {
  return num_workers.value_or(std::max(1u, std::thread::hardware_concurrency()));
}

bool parse_or_help(core::OptionSet& set, std::span<const std::string> args) {
  set.parse(args);
  if (set.wants_help()) core::print("{}", set.help_text());
  return set.wants_help();
}

namespace {
using core::Json;
using core::OptionSet;

constexpr const char* kDataUsage =
    "Usage: lockstep data COMMAND [FLAGS]\n"
    "\n"
    "  make-shapes   write a demo data set of captioned pictures\n"
    "  make-sounds   write a demo data set of captioned sounds\n"
    "  to-lmdb       write labelled pictures into one LMDB\n"
    "  index         count and hash shards: exact epochs, quick resume, verification\n"
    "  verify        read shards, LMDBs, class folders or token files, list damage\n"
    "  inspect       show what shards, LMDBs, class folders or token files hold\n"
    "  tokenize      turn JSON Lines into token files (.bin and .idx)\n"
    "  train-bpe     train a byte-level BPE vocabulary\n"
    "\n"
    "`lockstep data COMMAND --help` shows the flags.\n";

constexpr size_t kShownMissing = 3;  // shards

void refuse_table(const std::string& shard) {
  const std::string extension = core::to_lower_ascii(std::filesystem::path(shard).extension().string());
  if (extension != ".csv" && extension != ".tsv") return;
  throw UsageError(
      fmt::format("data: '{}' is a table, expected shards (.tar)", shard),
      fmt::format("a table needs no index; training reads it by --dataset-type csv --train-data '{}'", shard));
}

/// Flags that index and verify share.
struct ShardFlags {
  std::vector<std::string> lists;
  std::string index_dir;
  std::optional<int64_t> num_workers;
  bool as_json = false;

  void declare(OptionSet& set, bool writes) {
    set.add_positional(
        "shards", &lists,
        {.help = "Shards: files or brace lists in quotes, joined with '::' or given one after the other.",
         .metavar = "SHARDS"});
    set.add("index-dir", &index_dir,
            {.help = "Folder of the side-car files.",
             .metavar = "DIR",
             .unset_text = "beside the shards",
             .aliases = writes ? std::vector<std::string>{"o", "output"} : std::vector<std::string>{}});
    declare_data_workers(set, num_workers, "Shards read at the same time.");
    set.add("json", &as_json, {.help = "Machine-readable output."});
  }
  data::IndexJob job() const {
    data::IndexJob job{.shards = {},
                       .index_dir = index_dir,
                       .num_threads = data_threads(num_workers),
                       .force = false,
                       .on_progress = {}};
    for (const std::string& list : lists)
      for (data::ShardSource& source : data::parse_shard_sources(list, ""))
        job.shards.insert(job.shards.end(), source.shards.begin(), source.shards.end());
    for (const std::string& shard : job.shards) refuse_table(shard);
    job.on_progress = [total = job.shards.size()](int64_t done, const std::string& shard) {
      core::show_progress(fmt::format("{}/{} shards  {}", done, total, shard));
    };
    return job;
  }
};

struct IndexFlags {
  ShardFlags shards;
  bool force = false;
};

OptionSet declare(IndexFlags& flags) {
  OptionSet set("data index",
                "Reads every shard once and writes beside it how many samples it has, where they lie, and its hash.");
  flags.shards.declare(set, /*writes=*/true);
  set.add("force", &flags.force, {.help = "Index shards again whose side-car fits their size."});
  return set;
}

bool is_missing(const std::string& shard) {
  std::error_code failure;
  return !data::is_pipe(shard) && !std::filesystem::exists(shard, failure) && !failure;
}

/// Missing shards are many where a range in braces is wrong: one line tells them.
void print_indexed(const data::IndexSummary& summary, size_t num_shards) {
  std::vector<std::string> missing;
  for (const auto& [shard, error] : summary.damaged)
    if (is_missing(shard)) missing.push_back(shard);
  core::print("{}: {} indexed, {} had an index, {} missing, {} damaged; {}, {}\n", core::counted(num_shards, "shard"),
              summary.num_built, summary.num_reused, missing.size(), summary.damaged.size() - missing.size(),
              core::counted(summary.num_samples, "sample"), core::format_bytes(static_cast<double>(summary.bytes)));
  if (!missing.empty())
    core::print("  missing: {}\n  {}\n", core::join_first(missing, kShownMissing),
                data::missing_shard_hint(missing.front()));
  for (const auto& [shard, error] : summary.damaged)
    if (!is_missing(shard)) core::print("  {}\n", one_line_text(error));
}

int run_index(std::span<const std::string> args) {
  IndexFlags index_flags;
  const ShardFlags& flags = index_flags.shards;
  OptionSet set = declare(index_flags);
  if (parse_or_help(set, args)) return 0;
  if (are_labelled_sets(flags.lists)) return index_labelled_sets(flags.lists, flags.as_json);
  data::IndexJob job = flags.job();
  job.force = index_flags.force;
  const data::IndexSummary summary = data::build_indexes(job);
  core::end_progress();
  if (flags.as_json) {
    Json damaged = Json::array();
    for (const auto& [shard, error] : summary.damaged)
      damaged.push_back({{"shard", shard}, {"error", error.what()}, {"missing", is_missing(shard)}});
    print_data_json({{"shards", job.shards.size()},
                     {"indexed", summary.num_built},
                     {"reused", summary.num_reused},
                     {"samples", summary.num_samples},
                     {"bytes", summary.bytes},
                     {"damaged", damaged}});
  } else {
    print_indexed(summary, job.shards.size());
  }
  return summary.damaged.empty() ? 0 : static_cast<int>(ExitCode::kData);
}

struct VerifyFlags {
  ShardFlags shards;
  bool decodes = true;
  int64_t vocab_size = 0;
};

OptionSet declare(VerifyFlags& flags) {
  OptionSet set(
      "data verify",
      "Reads shards, LMDBs, class folders or token files (.idx) whole, compares them with their index or hashes where "
      "there are any, decodes every picture and recording, and lists what is missing or damaged.");
  flags.shards.declare(set, /*writes=*/false);
  set.add("decode", &flags.decodes,
          {.help = "Decode every picture and recording; --no-decode compares bytes alone, at the speed of the disk."});
  set.add("vocab-size", &flags.vocab_size,
          {.help = "Token files (.idx): larger ids are damage; 0: any id will do.", .unit = "tokens", .min = 0});
  return set;
}

int run_verify(std::span<const std::string> args) {
  VerifyFlags verify_flags;
  const ShardFlags& flags = verify_flags.shards;
  OptionSet set = declare(verify_flags);
  if (parse_or_help(set, args)) return 0;
  if (are_token_files(flags.lists)) return inspect_token_files(flags.lists, verify_flags.vocab_size, flags.as_json);
  const auto depth = verify_flags.decodes ? data::PictureDepth::kDecoded : data::PictureDepth::kFirstBytes;
  if (are_labelled_sets(flags.lists))
    return verify_labelled_sets(flags.lists, data_threads(flags.num_workers), depth, flags.as_json);
  data::IndexJob job = flags.job();
  job.decodes = verify_flags.decodes;
  const std::vector<data::VerifyResult> results = data::verify_shards(job);
  core::end_progress();
  int64_t num_missing = 0, num_damaged = 0, num_unchecked = 0, num_samples = 0;
  data::MediaCheck pictures, recordings;  // counts alone
  Json list = Json::array();
  for (const data::VerifyResult& result : results) {
    num_missing += result.is_missing ? 1 : 0;
    num_damaged += result.error.empty() || result.is_missing ? 0 : 1;
    num_unchecked += result.has_index || result.is_missing ? 0 : 1;
    num_samples += result.num_samples;
    for (const auto& [sum, check] :
         {std::pair(&pictures, &result.pictures), std::pair(&recordings, &result.recordings)}) {
      sum->num_seen += check->num_seen;
      sum->num_bad += check->num_bad;
    }
    list.push_back({{"shard", result.shard},
                    {"ok", result.is_good()},
                    {"missing", result.is_missing},
                    {"indexed", result.has_index},
                    {"samples", result.num_samples},
                    {"bytes", result.bytes},
                    {"pictures", result.pictures.num_seen},
                    {"bad_pictures", result.pictures.num_bad},
                    {"first_bad_pictures", result.pictures.bad},
                    {"recordings", result.recordings.num_seen},
                    {"bad_recordings", result.recordings.num_bad},
                    {"first_bad_recordings", result.recordings.bad},
                    {"error", result.error}});
    if (flags.as_json) continue;
    if (!result.error.empty())
      core::print("{} {}\n  {}\n", result.is_missing ? "MISSING" : "DAMAGED", result.shard, result.error);
    for (const auto& [what, check] :
         {std::pair("PICTURES", &result.pictures), std::pair("RECORDINGS", &result.recordings)}) {
      if (check->num_bad > 0) core::print("BAD {} {}: {}\n", what, result.shard, check->num_bad);
      print_bad_pictures(check->bad, check->num_bad);
    }
  }
  if (flags.as_json) {
    print_data_json({{"shards", results.size()},
                     {"missing", num_missing},
                     {"damaged", num_damaged},
                     {"without_index", num_unchecked},
                     {"samples", num_samples},
                     {"pictures", pictures.num_seen},
                     {"bad_pictures", pictures.num_bad},
                     {"recordings", recordings.num_seen},
                     {"bad_recordings", recordings.num_bad},
                     {"results", list}});
  } else {
    core::print("{}: {} whole, {} missing, {} damaged; {}\n", core::counted(results.size(), "shard"),
                static_cast<int64_t>(results.size()) - num_missing - num_damaged, num_missing, num_damaged,
                core::counted(num_samples, "sample"));
    const auto missing = std::find_if(results.begin(), results.end(), [](const auto& each) { return each.is_missing; });
    if (missing != results.end()) core::print("  {}\n", data::missing_shard_hint(missing->shard));
    for (const auto& [what, sum] : {std::pair("picture", &pictures), std::pair("recording", &recordings)})
      if (sum->num_seen > 0) core::print("{} decoded: {} bad\n", core::counted(sum->num_seen, what), sum->num_bad);
    if (num_unchecked > 0)
      core::print(
          "{} without an index: structure checked{}, but not whether it is what it was (`lockstep data index`)\n",
          core::counted(num_unchecked, "shard"),
          pictures.num_seen > 0     ? ", and pictures"
          : recordings.num_seen > 0 ? ", and recordings"
                                    : "");
  }
  return num_missing + num_damaged + pictures.num_bad + recordings.num_bad == 0 ? 0 : static_cast<int>(ExitCode::kData);
}

/// "44100, 48000" of counts by value.
std::string join_keys(const std::map<int64_t, int64_t>& counts) {
  std::vector<std::string> keys;
  for (const auto& [key, count] : counts) keys.push_back(std::to_string(key));
  return core::join(keys, ", ");
}

void print_bad(const char* what, int64_t count, const std::vector<std::string>& messages) {
  if (count == 0) return;
  core::print("\n{} that training refuses\n", core::counted(count, what));
  for (const std::string& message : messages) core::print("  {}\n", message);
  if (count > static_cast<int64_t>(messages.size()))
    core::print("  and {} more\n", count - static_cast<int64_t>(messages.size()));
}

void print_report(const data::InspectReport& report) {
  core::print("{}, {} read: {}, {} usable\n", core::counted(report.num_shards, "shard"), report.num_read,
              core::counted(report.num_samples, "sample"), report.num_usable);
  core::print("\nextension        members       bytes\n");
  for (const auto& [name, entry] : report.extensions)
    core::print("{:<14} {:>9}  {:>10}\n", name, entry.count, core::format_bytes(static_cast<double>(entry.bytes)));
  if (!report.skipped.empty()) core::print("\nleft out by training\n");
  for (const auto& [reason, count] : report.skipped) core::print("  {:>9}  {}\n", count, reason);
  if (report.num_decoded > 0)
    core::print("\n{} of {} decoded: {} to {} pixels wide, {} to {} high\n", report.num_decoded,
                core::counted(report.num_pictures, "picture"), report.min_width, report.max_width, report.min_height,
                report.max_height);
  if (report.sounds.num_decoded > 0)
    core::print("\n{} of {} recordings decoded: {:.2f} to {:.2f} s long, {} Hz, {} channels, {} silent\n",
                report.sounds.num_decoded, report.sounds.num_recordings, report.sounds.min_seconds,
                report.sounds.max_seconds, join_keys(report.sounds.rates), join_keys(report.sounds.channels),
                report.sounds.num_silent);
  print_undecoded("", "pictures", report.num_pictures, report.num_decoded, report.bad_pictures.size());
  print_undecoded("", "recordings", report.sounds.num_recordings, report.sounds.num_decoded, report.sounds.bad.size());
  print_bad("shard", static_cast<int64_t>(report.damaged_shards.size()), report.damaged_shards);
  print_bad("picture", static_cast<int64_t>(report.bad_pictures.size()), report.bad_pictures);
  print_bad("recording", static_cast<int64_t>(report.sounds.bad.size()), report.sounds.bad);
  print_bad("caption", report.num_bad_captions, report.bad_captions);
  if (!report.captions.empty()) core::print("\nfirst captions\n");
  for (const auto& [key, text] : report.captions) core::print("  {}: {}\n", key, core::trim(text));
}

struct InspectFlags {
  ShardFlags shards;
  data::InspectConfig config;
};

OptionSet declare(InspectFlags& flags) {
  OptionSet set("data inspect",
                "Shows what shards hold: counts, extensions, first captions, picture sizes, lengths of recordings, and "
                "what training would refuse. Of class folders and LMDBs: pictures, classes, sizes.");
  set.add_positional("shards", &flags.shards.lists,
                     {.help = "Shards: files or brace lists in quotes; or folders of class folders, LMDBs, or token "
                              "files (.idx).",
                      .metavar = "SHARDS"});
  set.add("max-shards", &flags.config.max_shards,
          {.help = "Read this many shards from the front of the list; 0: all.", .unit = "shards", .min = 0});
  set.add("captions", &flags.config.max_shown, {.help = "Captions to show.", .min = 0});
  set.add("pictures", &flags.config.max_decoded,
          {.help = "Pictures to decode, and recordings; those behind are taken for good. Captions are all read.",
           .min = 0});
  set.add("image-key", &flags.config.image_keys, {.help = "Extensions of pictures, in the order of preference."});
  set.add("audio-ext", &flags.config.audio_keys, {.help = "Extensions of recordings, in the order of preference."});
  set.add("text-key", &flags.config.text_keys,
          {.help = "Extensions of captions, in the order of preference.",
           .unset_text = "txt beside pictures, json and txt beside recordings"});
  set.add("json", &flags.shards.as_json, {.help = "Machine-readable output."});
  return set;
}

int run_inspect(std::span<const std::string> args) {
  InspectFlags flags;
  OptionSet set = declare(flags);
  if (parse_or_help(set, args)) return 0;
  if (are_token_files(flags.shards.lists)) return inspect_token_files(flags.shards.lists, 0, flags.shards.as_json);
  if (are_labelled_sets(flags.shards.lists))
    return inspect_labelled_sets(flags.shards.lists, flags.config.max_decoded, flags.shards.as_json);
  flags.config.shards = flags.shards.job().shards;
  const data::InspectReport report = data::inspect_shards(flags.config);
  if (flags.shards.as_json) {
    print_data_json(report.to_json());
  } else {
    print_report(report);
  }
  return report.is_clean() ? 0 : static_cast<int>(ExitCode::kData);
}

void print_demo_set(const data::DemoSetResult& result, const char* what) {
  core::print("{} {} training and {} validation samples in {}, {} held-out {} of {} classes\n",
              result.was_there ? "found" : "wrote", result.num_train, result.num_val,
              core::format_bytes(static_cast<double>(result.num_bytes)), result.num_heldout, what, result.num_classes);
}

/// Flags of every make-*.
struct DemoFlags {
  std::string output;
  int64_t seed = 0;
  std::optional<int64_t> num_workers;
  bool as_json = false;

  void declare_size(OptionSet& set, data::DemoSetOptions& options, const char* heldout) {
    set.add_positional("output", &output,
                       {.help = "Folder to write to.", .metavar = "DIR", .aliases = {"o", "output"}});
    set.add("samples", &options.num_train, {.help = "Training samples.", .min = 1});
    set.add("val-samples", &options.num_val,
            {.help = fmt::format("Validation samples, and as many held-out {}.", heldout), .min = 1});
    set.add("samples-per-shard", &options.samples_per_shard, {.help = "Samples per shard.", .min = 1});
  }
  void declare_making(OptionSet& set, const char* what, const char* made) {
    set.add("seed", &seed, {.help = fmt::format("Another seed gives other {}.", what), .min = 0});
    declare_data_workers(set, num_workers, fmt::format("{} at the same time; the files do not depend on it.", made));
    set.add("json", &as_json, {.help = "Machine-readable output."});
  }
  /// Takes over what options cannot be parsed into.
  void finish(data::DemoSetOptions& options) const {
    options.output = output;
    options.seed = static_cast<uint64_t>(seed);
    options.num_workers = static_cast<int>(data_threads(num_workers));
  }
};

/// Flags of one make-*.
template <typename Config> struct MakeFlags {
  DemoFlags demo;
  Config config;
};
using MakeShapesFlags = MakeFlags<data::MakeShapesConfig>;
using MakeSoundsFlags = MakeFlags<data::MakeSoundsConfig>;

/// Parses the flags of a make-*, makes the set, and tells of it by `print` or as JSON.
template <typename Flags, typename Make, typename Print>
int run_make(std::span<const std::string> args, const Make& make, const Print& print) {
  Flags flags;
  OptionSet set = declare(flags);
  if (parse_or_help(set, args)) return 0;
  flags.demo.finish(flags.config.set);
  const auto result = make(flags.config);
  if (flags.demo.as_json)
    print_data_json(data::to_json(result));
  else
    print(result);
  return 0;
}

OptionSet declare(MakeShapesFlags& flags) {
  OptionSet set(
      "data make-shapes",
      "Writes a demo data set: pictures of coloured shapes with captions, as WebDataset shards and class folders.");
  flags.demo.declare_size(set, flags.config.set, "pictures");
  set.add("image-size", &flags.config.image_pixels,
          {.help = "Height and width of a picture.", .unit = "pixels", .min = 1, .max = 4096});
  set.add(
      "labels", &flags.config.set.has_class_folders,
      {.help = "The pictures of the shards also as train/CLASS/ and val/CLASS/, which `train imagenet DIR` reads."});
  flags.demo.declare_making(set, "pictures", "Pictures drawn");
  return set;
}

void print_shapes(const data::DemoSetResult& result) {
  print_demo_set(result, "pictures");
  core::print("  --train-data '{}'\n  --val-data '{}'\n  --imagenet-val {}\n  --classnames {}\n  --templates {}\n",
              result.train_shards, result.val_shards, result.heldout.string(), result.class_names.string(),
              result.templates.string());
  if (!result.train_folder.empty()) core::print("  train imagenet {}\n", result.train_folder.parent_path().string());
}

int run_make_shapes(std::span<const std::string> args) {
  return run_make<MakeShapesFlags>(args, data::make_shapes, print_shapes);
}

OptionSet declare(MakeSoundsFlags& flags) {
  OptionSet set("data make-sounds",
                "Writes a demo data set: tones, chords, sweeps, noises and rhythms with captions, as WebDataset shards "
                "of FLAC and class "
                "folders, with a tokenizer trained on the captions.");
  flags.demo.declare_size(set, flags.config.set, "recordings");
  set.add("seconds", &flags.config.seconds, {.help = "Length of a recording.", .unit = "s", .min = 0.25, .max = 60});
  set.add("sample-rate", &flags.config.sample_rate,
          {.help = "Rate of the recordings.", .unit = "Hz", .min = 8000, .max = 192000});
  set.add("vocab-size", &flags.config.vocab_size,
          {.help = "Most tokens of the tokenizer.", .unit = "tokens", .min = 300, .max = 50000});
  flags.demo.declare_making(set, "sounds", "Sounds computed");
  return set;
}

void print_sounds(const data::MakeSoundsResult& result) {
  print_demo_set(result.set, "recordings");
  core::print("  {} values at {} Hz each; a tokenizer of {} tokens in {}\n", result.clip_samples, result.sample_rate,
              result.vocab_size, result.tokenizer.string());
  core::print("  --train-data '{}'\n  --val-data '{}'\n", result.set.train_shards, result.set.val_shards);
  core::print("  held-out recordings {}\n  class names {}\n  templates {}\n", result.set.heldout.string(),
              result.set.class_names.string(), result.set.templates.string());
}

int run_make_sounds(std::span<const std::string> args) {
  return run_make<MakeSoundsFlags>(args, data::make_sounds, print_sounds);
}

struct DataCommand {
  const char* name;
  int (*run)(std::span<const std::string> args);
};
constexpr std::array kCommands{DataCommand{"index", run_index},
                               DataCommand{"inspect", run_inspect},
                               DataCommand{"make-shapes", run_make_shapes},
                               DataCommand{"make-sounds", run_make_sounds},
                               DataCommand{"to-lmdb", run_to_lmdb},
                               DataCommand{"tokenize", run_tokenize},
                               DataCommand{"train-bpe", run_train_bpe},
                               DataCommand{"verify", run_verify}};

template <typename Flags> void visit_options_of(const OptionVisitor& visit) {
  Flags flags;
  visit(declare(flags));
}

}  // namespace

void visit_data_options(const OptionVisitor& visit) {
  visit_options_of<MakeShapesFlags>(visit);
  visit_options_of<MakeSoundsFlags>(visit);
  visit_options_of<IndexFlags>(visit);
  visit_options_of<VerifyFlags>(visit);
  visit_options_of<InspectFlags>(visit);
  visit_lmdb_options(visit);
  visit_text_options(visit);
}

int cmd_data(const commands::ParsedCommand& parsed_command) {
  const std::span<const std::string> args = parsed_command.rest;
  const bool wants_help = !args.empty() && (args[0] == "--help" || args[0] == "-h" || args[0] == "help");
  if (wants_help) {
    core::print("{}", kDataUsage);
    return 0;
  }
  std::vector<std::string> names;
  for (const DataCommand& command : kCommands) {
    if (!args.empty() && args[0] == command.name) return command.run(args.subspan(1));
    names.emplace_back(command.name);
  }
  if (args.empty())
    throw UsageError(fmt::format("data: expected {}", core::join_or(names)), "see `lockstep data --help`");
  const auto nearest = core::nearest_name(args[0], names);
  throw UsageError(fmt::format("data: unknown command '{}', expected {}", args[0], core::join_or(names)),
                   nearest ? fmt::format("did you mean '{}'?", *nearest) : "see `lockstep data --help`");
}

}  // namespace lockstep::cli
