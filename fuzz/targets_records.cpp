// Parsers of what runs leave behind: records, logs of other programs, checkpoints and the formats that they are in.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "checkpoint/ranking.h"
#include "core/error.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/zip_records.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"
#include "logs/formats.h"
#include "logs/logs.h"
#include "record/meta.h"
#include "record/run_data.h"

namespace lockstep::fuzz {
namespace {

void read_safetensors(Bytes bytes) {
  static const MemoryFolder folder;
  const core::SafetensorsFile file(folder.write("model.safetensors", bytes));
  for (const auto& entry : file.entries()) file.at(entry.name);
}

/// As `ckpt verify` does of a .pt file.
void read_zip(Bytes bytes) {
  static const MemoryFolder folder;
  core::check_zip_records(folder.write("model.pt", bytes));
}

void read_json(Bytes bytes) { core::parse_json(text_of(bytes), "fuzz.json"); }

void read_manifest(Bytes bytes) {
  const auto manifest = checkpoint::parse_manifest(text_of(bytes), "manifest.json");
  static const MemoryFolder folder;
  checkpoint::verify_files(folder.path(), manifest, checkpoint::VerifyDepth::kHashes);
}

void read_ranking(Bytes bytes) {
  const checkpoint::Ranking ranking =
      checkpoint::ranking_from_json(core::parse_json(text_of(bytes), "best.json"), "best.json");
  std::vector<std::string> names;
  for (const auto& entry : ranking.entries) names.push_back(entry.name);
  ranking.best_of(names);
}

void read_meta(Bytes bytes) {
  static const MemoryFolder folder;
  record::RunData run;
  record::apply_meta(run, {.file = folder.write("meta.toml", bytes)});
}

/// Who claimed a run's checkpoints, and which were usable then: it voids others.
void read_claim(Bytes bytes) {
  static const MemoryFolder folder;
  static const bool is_made = [] {
    const fs::path of_step = folder.path() / "checkpoints/step-00000010.a1";
    folder.write("checkpoints/step-00000010.a1/model.safetensors", std::as_bytes(std::span("weights")));
    checkpoint::write_manifest(
        of_step, {.step = 10, .attempt = 1, .files = {checkpoint::describe_file(of_step, "model.safetensors")}});
    return true;
  }();
  folder.write("checkpoints/owner.2", bytes);
  const auto entries = checkpoint::list_checkpoints(folder.path());
  LOCKSTEP_CHECK(is_made && entries.size() == 1, "{} checkpoints", entries.size());
  const bool is_free = entries[0].state == checkpoint::CheckpointState::kUsable;
  LOCKSTEP_CHECK(is_free || entries[0].state == checkpoint::CheckpointState::kSuperseded, "{}", entries[0].problem);
  checkpoint::who_claimed(folder.path(), 2);
}

constexpr std::array<const char*, 8> kRecordFiles = {"run.json",    "status.json",   "steps.jsonl",  "comm.jsonl",
                                                     "ranks.jsonl", "results.jsonl", "system.jsonl", "startup.jsonl"};

/// Without run.json a folder is a record where it has steps.
struct RecordFolder : MemoryFolder {
  RecordFolder() { write("steps.jsonl", {}); }
};

/// The file of a record that the first line names; without such a line all of them, which takes eight times as long: a
/// line of each is one JSON object, as run.json and status.json are.
void read_run(Bytes bytes) {
  static const RecordFolder of_all;
  static const std::array<RecordFolder, kRecordFiles.size()> of_one;
  const std::string_view text = text_of(bytes), line = text.substr(0, text.find('\n'));
  const auto named = std::find(kRecordFiles.begin(), kRecordFiles.end(), line);
  const bool is_one = named != kRecordFiles.end();
  const MemoryFolder& folder = is_one ? of_one.at(static_cast<size_t>(named - kRecordFiles.begin())) : of_all;
  if (is_one)
    folder.write(*named, bytes.subspan(std::min(line.size() + 1, bytes.size())));
  else
    for (const char* name : kRecordFiles) folder.write(name, bytes);
  record::load_run(folder.path());
}

}  // namespace

std::vector<Target> targets_of_records() {
  std::vector<Target> list = {{"safetensors", {"/loss/"}, read_safetensors},
                              {"zip", {".pt"}, read_zip, kLongInput},
                              {"json", {}, read_json, 1 << 10},
                              {"manifest", {}, read_manifest},
                              {"ranking", {}, read_ranking},
                              {"meta", {}, read_meta},
                              {"claim", {}, read_claim},
                              {"run", {}, read_run}};
  for (const logs::LogFormatInfo& info : logs::kLogFormats) {
    if (info.reader == nullptr) continue;
    const bool is_csv = info.format == logs::LogFormat::kCsv;
    list.push_back({fmt::format("log_{}", info.name),
                    {"/golden/logs/"},
                    [format = info.format, is_csv](Bytes bytes) {
                      static const MemoryFolder folder;
                      logs::read_log(folder.write(is_csv ? "steps.csv" : "out.log", bytes), format);
                    },
                    info.format == logs::LogFormat::kMlperf ? size_t{4} << 10 : size_t{2} << 10});  // of long lines
  }
  return list;
}

}  // namespace lockstep::fuzz
