#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/front/data_lmdb.h"
#include "cli/front/data_text.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/error_lines.h"
#include "core/log.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"
#include "core/units.h"
#include "data/labelled_set.h"
#include "data/shards/lmdb_reader.h"
#include "data/to_lmdb.h"

namespace lockstep::cli {
namespace {
using core::Json;
using core::OptionSet;

constexpr size_t kShownNames = 8;  // of classes

std::vector<std::string> first_names(const std::vector<std::string>& names) {
  return {names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), kShownNames))};
}

struct ToLmdbFlags {
  std::string input, output;
  data::SourceConfig source;
  bool decodes = false;
  std::string on_bad_sample = "stop";
  std::optional<int64_t> max_bad_samples;
  std::optional<int64_t> num_workers;
  bool as_json = false;
};

OptionSet declare(ToLmdbFlags& flags) {
  OptionSet set("data to-lmdb",
                "Writes labelled pictures into one LMDB, in the layout of the folder2lmdb scripts that Python programs "
                "read. What is broken off goes on where it was.");
  set.add_positional("input", &flags.input,
                     {.help = "Folder of class folders, a .csv or .tsv table with labels, shards with .cls members (a "
                              "brace list in quotes), or another LMDB.",
                      .metavar = "DATA"});
  set.add_positional("output", &flags.output, {.help = "Folder to write.", .metavar = "DIR"});
  set.add("csv-separator", &flags.source.csv_separator, {.help = "Table: between the columns."});
  set.add("csv-img-key", &flags.source.csv_image_key, {.help = "Table: column of the files."});
  set.add("csv-label-key", &flags.source.csv_label_key, {.help = "Table: column of the labels, numbers from 0."});
  set.add("num-classes", &flags.source.num_classes,
          {.help = "Labels from here on are refused; 0: any.", .unit = "classes", .min = 0});
  set.add("check-pictures", &flags.decodes,
          {.help = "Decode every picture as well: one that training would refuse is bad. Costs about as much "
                   "processor time as an epoch of training takes for decoding; `data verify` of the result does the "
                   "same later and names all bad ones."});
  set.add(
      "on-bad-sample", &flags.on_bad_sample,
      {.help = "stop: a picture that cannot be read, or is none, ends the conversion. skip: it is left out, counted "
               "and listed at the end.",
       .choices = {"stop", "skip"}});
  set.add("max-bad-samples", &flags.max_bad_samples,
          {.help = "With --on-bad-sample skip: more bad pictures than this end the conversion.",
           .unit = "pictures",
           .unset_text = "1000",
           .min = 0});
  declare_data_workers(set, flags.num_workers, "Threads that read; the output does not depend on it.");
  set.add("json", &flags.as_json, {.help = "Machine-readable output."});
  return set;
}

const char* media_name(bool is_of_sounds) { return is_of_sounds ? "recording" : "picture"; }

/// What `data verify` found in one LMDB or folder.
struct SetCheck {
  std::string what;  ///< "12 pictures", "12 pictures of 3 classes"
  int64_t num_pictures = 0;
  uint64_t num_bytes = 0;
  std::optional<bool> has_hashes;  ///< Of an LMDB.
  int64_t num_bad = 0;
  std::vector<std::string> bad = {};
};

SetCheck check_set(const std::string& name, int64_t num_threads, data::PictureDepth depth) try {
  if (data::is_lmdb(name)) {
    data::LmdbCheck check = data::verify_lmdb(name, num_threads, depth);
    return {.what = core::counted(check.num_pictures, "picture"),
            .num_pictures = check.num_pictures,
            .num_bytes = check.num_bytes,
            .has_hashes = check.has_hashes,
            .num_bad = check.num_bad,
            .bad = std::move(check.bad)};
  }
  data::FolderCheck check = data::check_class_folders(
      name, num_threads, depth, [](int64_t num_done) { core::show_progress(core::counted(num_done, "picture")); });
  core::end_progress();
  return {.what = fmt::format("{} of {}", core::counted(check.num_pictures, media_name(check.is_of_sounds)),
                              core::counted(check.num_classes, "class", "classes")),
          .num_pictures = check.num_pictures,
          .num_bytes = check.num_bytes,
          .has_hashes = std::nullopt,
          .num_bad = check.num_bad,
          .bad = std::move(check.bad)};
} catch (const DataError& error) {
  core::end_progress();
  return {.what = "cannot be read", .has_hashes = std::nullopt, .num_bad = 1, .bad = {one_line_text(error)}};
}

Json to_json(const SetCheck& check, const std::string& name) {
  Json json{{check.has_hashes ? "lmdb" : "folder", name},
            {"samples", check.num_pictures},
            {"bytes", check.num_bytes},
            {"bad", check.num_bad},
            {"errors", check.bad}};
  if (check.has_hashes) json["has_hashes"] = *check.has_hashes;
  return json;
}

void print_check(const SetCheck& check, const std::string& name, data::PictureDepth depth) {
  core::print(
      "{}: {}, {} bad, {}{}{}\n", name, check.what, check.num_bad,
      core::format_bytes(static_cast<double>(check.num_bytes)),
      check.has_hashes.value_or(true) ? "" : "; it has no hashes to compare",
      depth == data::PictureDepth::kDecoded ? "" : "; nothing was decoded: damage inside of pictures is not seen");
  print_bad_pictures(check.bad, check.num_bad);
}

void print_report(const data::LabelledReport& report, const std::string& name) {
  const std::string media = media_name(report.is_of_sounds);
  core::print("{}: {} of {}", name, report.is_lmdb ? "an LMDB" : "class folders",
              core::counted(report.num_pictures, media));
  if (report.num_classes > 0) core::print(" in {}", core::counted(report.num_classes, "class", "classes"));
  if (report.is_lmdb) core::print(", {}", core::format_bytes(static_cast<double>(report.num_bytes)));
  core::print("\n");
  if (report.class_names.empty())
    core::print("  classes are numbers without names\n");
  else
    core::print("  classes: {}{}\n", core::join(first_names(report.class_names), ", "),
                report.class_names.size() > kShownNames ? ", ..." : "");
  if (!report.is_lmdb)
    core::print("  {}s of a class: {} ({}) to {} ({})\n", media, report.fewest_of_class, report.smallest_class,
                report.most_of_class, report.largest_class);
  if (report.num_decoded > 0 && report.is_of_sounds)
    core::print("  {} decoded, at even distances: {:.2f} to {:.2f} s long\n", core::counted(report.num_decoded, media),
                report.min_seconds, report.max_seconds);
  else if (report.num_decoded > 0)
    core::print("  {} decoded, at even distances: {} to {} pixels wide, {} to {} high\n",
                core::counted(report.num_decoded, media), report.min_width, report.max_width, report.min_height,
                report.max_height);
  print_undecoded("  ", (media + "s").c_str(), report.num_pictures, report.num_decoded, report.bad.size());
  if (!report.bad.empty()) core::print("  {} that training refuses\n", core::counted(report.bad.size(), media));
  print_bad_pictures(report.bad, std::ssize(report.bad));
}

}  // namespace

int run_to_lmdb(std::span<const std::string> args) {
  ToLmdbFlags flags;
  OptionSet set = declare(flags);
  if (parse_or_help(set, args)) return 0;
  flags.source.spec = flags.input;
  if (flags.max_bad_samples && flags.on_bad_sample == "stop")
    throw UsageError("options: --max-bad-samples counts skipped samples, --on-bad-sample stop skips none",
                     "add --on-bad-sample skip");
  data::ToLmdbConfig job{.source = flags.source,
                         .output = flags.output,
                         .num_threads = data_threads(flags.num_workers),
                         .decodes = flags.decodes,
                         .skips_bad = flags.on_bad_sample == "skip"};
  if (flags.max_bad_samples) job.max_bad = *flags.max_bad_samples;
  job.on_progress = [](int64_t num_done) { core::show_progress(core::counted(num_done, "picture")); };
  const data::ToLmdbResult result = data::to_lmdb(job);
  core::end_progress();
  if (flags.as_json) {
    print_data_json({{"samples", result.num_pictures},
                     {"classes", result.num_classes},
                     {"resumed", result.num_resumed},
                     {"bytes", result.num_bytes},
                     {"was_there", result.was_there},
                     {"skipped", result.num_skipped},
                     {"errors", result.skipped},
                     {"lmdb", flags.output}});
    return 0;
  }
  core::print("{} {} of {}, {}, in {}{}\n", result.was_there ? "found" : "wrote",
              core::counted(result.num_pictures, "picture"), core::counted(result.num_classes, "class", "classes"),
              core::format_bytes(static_cast<double>(result.num_bytes)), flags.output,
              result.num_resumed > 0 && !result.was_there
                  ? fmt::format("; {} of them were there from an earlier call", result.num_resumed)
                  : "");
  if (!flags.decodes && !result.was_there)
    core::print("  the pictures were copied, not decoded: `lockstep data verify {}` does that\n", flags.output);
  if (result.num_skipped > 0) core::print("  {} left out as unusable:\n", core::counted(result.num_skipped, "picture"));
  print_bad_pictures(result.skipped, result.num_skipped);
  return 0;
}

bool are_labelled_sets(const std::vector<std::string>& names) {
  size_t count = 0;
  for (const std::string& name : names) count += data::is_labelled_set(name) ? 1 : 0;
  if (count != 0 && count != names.size())
    throw UsageError("data: LMDBs or folders, and shards, in one command", "give them to two commands");
  return count != 0;
}

int verify_labelled_sets(const std::vector<std::string>& names, int64_t num_threads, data::PictureDepth depth,
                         bool as_json) {
  Json list = Json::array();
  int exit_code = 0;
  for (const std::string& name : names) {
    const SetCheck check = check_set(name, num_threads, depth);
    if (check.num_bad > 0) exit_code = static_cast<int>(ExitCode::kData);
    if (as_json)
      list.push_back(to_json(check, name));
    else
      print_check(check, name, depth);
  }
  if (as_json) print_data_json({{"decoded", depth == data::PictureDepth::kDecoded}, {"results", list}});
  return exit_code;
}

int inspect_labelled_sets(const std::vector<std::string>& names, int64_t num_decoded, bool as_json) {
  Json list = Json::array();
  int exit_code = 0;
  for (const std::string& name : names) {
    const data::LabelledReport report = data::inspect_labelled_set(name, num_decoded);
    if (!report.bad.empty()) exit_code = static_cast<int>(ExitCode::kData);
    if (as_json) {
      list.push_back(report.to_json());
      list.back()["path"] = name;
    } else {
      print_report(report, name);
    }
  }
  if (as_json) print_data_json({{"results", list}});
  return exit_code;
}

int index_labelled_sets(const std::vector<std::string>& names, bool as_json) {
  if (as_json) {
    print_data_json({{"shards", 0}, {"need_no_index", names}});
    return 0;
  }
  for (const std::string& name : names)
    core::print("{} needs no index: {} names its pictures itself, and training reads them in any order\n", name,
                data::is_lmdb(name) ? "an LMDB" : "a folder of class folders");
  return 0;
}

void print_bad_pictures(const std::vector<std::string>& messages, int64_t count) {
  for (const std::string& message : messages) core::print("  {}\n", message);
  if (count > std::ssize(messages)) core::print("  and {} more\n", count - std::ssize(messages));
}

void print_undecoded(const char* indent, const char* what, int64_t num_seen, int64_t num_decoded, size_t num_bad) {
  const int64_t num_left = num_seen - num_decoded - static_cast<int64_t>(num_bad);
  if (num_left > 0)
    core::print("{}the other {} {} were not decoded: --pictures {} takes all of these\n", indent, num_left, what,
                num_seen);
}

void visit_lmdb_options(const OptionVisitor& visit) {
  ToLmdbFlags flags;
  visit(declare(flags));
}

}  // namespace lockstep::cli
