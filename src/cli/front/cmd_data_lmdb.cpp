#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/front/data_lmdb.h"
#include "cli/front/data_text.h"
#include "core/error.h"
#include "core/log.h"
#include "core/options.h"
#include "core/print.h"
#include "core/units.h"
#include "data/shards/lmdb_reader.h"
#include "data/to_lmdb.h"

namespace lockstep::cli {
namespace {
using core::Json;
using core::OptionSet;

struct ToLmdbFlags {
  std::string input, output;
  data::SourceConfig source;
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
  declare_data_workers(set, flags.num_workers, "Threads that read; the output does not depend on it.");
  set.add("json", &flags.as_json, {.help = "Machine-readable output."});
  return set;
}

Json to_json(const data::LmdbCheck& check, const std::string& path) {
  return {{"lmdb", path},
          {"samples", check.num_pictures},
          {"bytes", check.num_bytes},
          {"has_hashes", check.has_hashes},
          {"bad", check.num_bad},
          {"errors", check.bad}};
}

void print_check(const data::LmdbCheck& check, const std::string& path) {
  core::print("{}: {} pictures, {} bad, {}{}\n", path, check.num_pictures, check.num_bad,
              core::format_bytes(static_cast<double>(check.num_bytes)),
              check.has_hashes ? "" : "; it has no hashes: only that each value can be read was checked");
  for (const std::string& message : check.bad) core::print("  {}\n", message);
}

}  // namespace

int run_to_lmdb(std::span<const std::string> args) {
  ToLmdbFlags flags;
  OptionSet set = declare(flags);
  if (parse_or_help(set, args)) return 0;
  flags.source.spec = flags.input;
  const data::ToLmdbResult result = data::to_lmdb(
      {.source = flags.source,
       .output = flags.output,
       .num_threads = data_threads(flags.num_workers),
       .on_progress = [](int64_t num_done) { core::show_progress(fmt::format("{} pictures", num_done)); }});
  core::end_progress();
  if (flags.as_json) {
    print_data_json({{"samples", result.num_pictures},
                     {"classes", result.num_classes},
                     {"resumed", result.num_resumed},
                     {"bytes", result.num_bytes},
                     {"was_there", result.was_there},
                     {"lmdb", flags.output}});
    return 0;
  }
  core::print("{} {} pictures of {} classes, {}, in {}{}\n", result.was_there ? "found" : "wrote", result.num_pictures,
              result.num_classes, core::format_bytes(static_cast<double>(result.num_bytes)), flags.output,
              result.num_resumed > 0 && !result.was_there
                  ? fmt::format("; {} of them were there from an earlier call", result.num_resumed)
                  : "");
  return 0;
}

bool are_lmdbs(const std::vector<std::string>& names) {
  size_t count = 0;
  for (const std::string& name : names) count += data::is_lmdb(name) ? 1 : 0;
  if (count != 0 && count != names.size())
    throw UsageError("data: LMDBs and shards in one command", "give them to two commands");
  return count != 0;
}

int verify_lmdbs(const std::vector<std::string>& names, int64_t num_threads, bool as_json) {
  Json list = Json::array();
  int exit_code = 0;
  for (const std::string& name : names) {
    data::LmdbCheck check;
    try {
      check = data::verify_lmdb(name, num_threads);
    } catch (const DataError& error) {
      check = {.num_bad = 1, .bad = {error.what()}};
    }
    if (check.num_bad > 0) exit_code = static_cast<int>(ExitCode::kData);
    if (as_json)
      list.push_back(to_json(check, name));
    else
      print_check(check, name);
  }
  if (as_json) print_data_json({{"results", list}});
  return exit_code;
}

void visit_lmdb_options(const OptionVisitor& visit) {
  ToLmdbFlags flags;
  visit(declare(flags));
}

}  // namespace lockstep::cli
