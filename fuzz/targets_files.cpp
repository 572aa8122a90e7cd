// Parsers of the files beside the data: lists of samples, vocabularies, configurations, rankings, accounts.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/ranking.h"
#include "config/pretrained_weights.h"
#include "core/error.h"
#include "core/json.h"
#include "data/shards/csv_table.h"
#include "data/text/bpe_model.h"
#include "doctor/meeting.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"
#include "record/meta.h"
#include "remote/account.h"

namespace lockstep::fuzz {
namespace {

void read_samples_csv(Bytes bytes) {
  for (const char separator : {',', '\t'}) {
    try {
      data::parse_csv(text_of(bytes), separator, {}, "samples.csv");
      data::parse_csv(text_of(bytes), separator, {"filepath", "title"}, "samples.csv");
    } catch (const DataError&) {
    }
  }
}

/// The first two bytes say how many of the others are vocab.json; the rest are merges.txt.
void read_bpe_files(Bytes bytes) {
  if (bytes.size() < 2) return;
  const size_t wanted = std::to_integer<size_t>(bytes[0]) * 256 + std::to_integer<size_t>(bytes[1]);
  bytes = bytes.subspan(2);
  const size_t vocab_size = std::min(wanted, bytes.size());
  static const MemoryFolder folder;
  data::read_bpe_files(folder.write("vocab.json", bytes.first(vocab_size)),
                       folder.write("merges.txt", bytes.subspan(vocab_size)), {});
}

void read_hub_config(Bytes bytes) {
  static const MemoryFolder folder;
  folder.write("open_clip_config.json", bytes);
  const std::string model = "local-dir:" + folder.path().string();
  config::preparation_of_weights(model, model);
  config::read_hub_config(model);
}

void read_ranking(Bytes bytes) {
  const checkpoint::Ranking ranking =
      checkpoint::ranking_from_json(core::parse_json(text_of(bytes), "best.json"), "best.json");
  std::vector<std::string> names;
  for (const auto& entry : ranking.entries) names.push_back(entry.name);
  ranking.best_of(names);
}

/// Whatever a rank of a doctor may say to rank 0, which passes over these two kinds of errors.
void read_doctor_report(Bytes bytes) {
  try {
    const auto report = doctor::rank_report_from_json(core::parse_json(text_of(bytes), "report"));
    doctor::rank_report_from_json(doctor::to_json(report));
  } catch (const core::Json::exception&) {
  }
}

void read_meta(Bytes bytes) {
  static const MemoryFolder folder;
  record::RunData run;
  record::apply_meta(run, {.file = folder.write("meta.toml", bytes)});
}

void read_aws_profiles(Bytes bytes) {
  static const MemoryFolder folder;
  const std::string config = folder.write("config", bytes).string();
  remote::find_account(
      [&](const char* name) {
        const std::string_view wanted = name;
        return wanted == "AWS_CONFIG_FILE" || wanted == "AWS_SHARED_CREDENTIALS_FILE" ? std::optional(config)
                                                                                      : std::nullopt;
      },
      folder.path());
}

}  // namespace

void add_targets_of_files(std::vector<Target>& list) {
  list.insert(list.end(), {{"samples_csv", {}, read_samples_csv},
                           {"bpe_files", {}, read_bpe_files},
                           {"hub_config", {}, read_hub_config},
                           {"ranking", {}, read_ranking},
                           {"doctor_report", {}, read_doctor_report},
                           {"meta", {}, read_meta},
                           {"aws_profiles", {}, read_aws_profiles}});
}

}  // namespace lockstep::fuzz
