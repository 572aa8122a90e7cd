#include "cli/front/commands.h"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <vector>

#include "checkpoint/epochs.h"
#include "checkpoint/manifest.h"
#include "config/ckpt_options.h"
#include "core/error.h"
#include "core/json.h"
#include "core/local_time.h"
#include "core/print.h"
#include "core/units.h"
#include "core/zip_records.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointEntry;
using checkpoint::CheckpointState;
using core::Json;

/// One checkpoint and what is wrong with it: list looks at the sizes of its files, verify at their hashes.
struct Checked {
  CheckpointEntry entry;
  std::vector<std::string> problems{};  // that make it unusable

  bool is_usable() const { return entry.state == CheckpointState::kUsable; }
  bool is_damaged() const { return entry.state == CheckpointState::kDamaged; }
  /// Nobody knows that it is whole, or that it never was.
  bool needs_care() const { return is_damaged() || entry.state == CheckpointState::kUnreadable; }
};

const char* name_of(CheckpointState state) {
  switch (state) {
    case CheckpointState::kUsable: return "usable";
    case CheckpointState::kIncomplete: return "incomplete";
    case CheckpointState::kSuperseded: return "superseded";
    case CheckpointState::kDamaged: return "damaged";
    case CheckpointState::kUnreadable: return "unreadable";
  }
  return "";
}

/// A checkpoint's own folder: as its run lists it, so that a superseded one is shown as such; else by itself.
CheckpointEntry single_checkpoint(const fs::path& folder) {
  const fs::path absolute = fs::canonical(folder), above = absolute.parent_path();
  try {  // of a run, or of a copy of its folder checkpoints/
    const fs::path listed = above.filename() == "checkpoints" ? above.parent_path() : above;
    for (const CheckpointEntry& entry : checkpoint::list_checkpoints(listed)) {
      std::error_code failure;
      if (fs::equivalent(entry.folder, absolute, failure)) return entry;
    }
  } catch (const CheckpointError&) {  // a folder above may be closed to us, which says nothing about this one
  }
  CheckpointEntry entry{.folder = folder};
  entry.manifest = checkpoint::read_manifest(folder);
  entry.step = entry.manifest->step;
  entry.attempt = entry.manifest->attempt;
  return entry;
}

bool is_checkpoint(const fs::path& path) {
  return checkpoint::parse_checkpoint_name(path.filename().string()).has_value() ||
         fs::exists(path / checkpoint::kManifestName);
}

/// The checkpoints under a run folder, a folder of checkpoints, or a checkpoint.
std::vector<CheckpointEntry> find_checkpoints(const std::string& text) {
  fs::path path = fs::path(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // a slash at the end
  if (!fs::is_directory(path))
    throw CheckpointError(fmt::format("ckpt: '{}' {}", text, fs::exists(path) ? "is no folder" : "does not exist"),
                          "give the folder of a run (<logs>/<name>), its folder checkpoints/, or one checkpoint; `ckpt "
                          "verify` checks a .pt file, too");
  if (is_checkpoint(path)) return {single_checkpoint(path)};
  auto entries = checkpoint::list_checkpoints(path);
  std::error_code ignored;
  const bool has_folder = fs::symlink_status(path / "checkpoints", ignored).type() != fs::file_type::not_found;
  if (entries.empty() && !has_folder && fs::canonical(path).filename() != "checkpoints")
    throw CheckpointError(fmt::format("ckpt: '{}' holds neither a folder checkpoints/ nor checkpoints", text),
                          "give the folder of a run (<logs>/<name>)");
  return entries;
}

int64_t total_bytes(const CheckpointEntry& entry) {
  int64_t bytes = 0;
  if (entry.manifest) {
    for (const checkpoint::CheckpointFile& file : entry.manifest->files) bytes += file.bytes;
  }
  return bytes;
}

std::string time_text(double unix_s) {
  const std::string text = core::local_time_text(static_cast<std::time_t>(unix_s), "%Y-%m-%d %H:%M");
  return text.empty() ? "-" : text;
}

Json to_json(const Checked& checked, bool is_verified) {
  const CheckpointEntry& entry = checked.entry;
  Json json{{"path", entry.folder.string()}, {"step", entry.step},
            {"attempt", entry.attempt},      {"state", name_of(entry.state)},
            {"usable", checked.is_usable()}, {"damaged", checked.is_damaged()}};
  if (is_verified) json["verified"] = checked.is_usable();
  if (entry.manifest) {
    const auto epochs = checkpoint::epochs_done(*entry.manifest);
    json["epoch"] = epochs ? Json(*epochs) : Json(nullptr);
    json["samples_seen"] = entry.manifest->samples_seen;
    json["world_size"] = entry.manifest->world_size;
    json["created_s"] = entry.manifest->created_s;
    json["num_files"] = entry.manifest->files.size();
    json["bytes"] = total_bytes(entry);
  }
  json["problems"] = checked.problems;
  return json;
}

void print_json(const std::vector<Checked>& all, bool is_verified) {
  Json list = Json::array();
  for (const Checked& checked : all) list.push_back(to_json(checked, is_verified));
  core::print("{}\n", Json{{"checkpoints", std::move(list)}}.dump(1, ' ', false, Json::error_handler_t::replace));
}

std::string epoch_text(const checkpoint::CheckpointManifest& manifest) {
  const auto epochs = checkpoint::epochs_done(manifest);
  return epochs ? std::to_string(*epochs) : "-";
}

void print_table(const std::vector<Checked>& all, bool is_verified) {
  core::print("{:<17} {:>5} {:>14} {:>10}  {:<16}  {}\n", "checkpoint", "epoch", "samples", "size", "saved", "state");
  for (const Checked& checked : all) {
    const CheckpointEntry& entry = checked.entry;
    const char* state = checked.is_damaged()   ? "DAMAGED"
                        : checked.needs_care() ? "UNREADABLE"
                        : !checked.is_usable() ? "NOT USABLE"
                        : is_verified          ? "verified"
                                               : "complete";
    const std::string name = core::printable_line(entry.folder.filename().string());
    if (entry.manifest)
      core::print("{:<17} {:>5} {:>14} {:>10}  {:<16}  {}\n", name, epoch_text(*entry.manifest),
                  entry.manifest->samples_seen, core::format_bytes(static_cast<double>(total_bytes(entry))),
                  time_text(entry.manifest->created_s), state);
    else
      core::print("{:<17} {:>5} {:>14} {:>10}  {:<16}  {}\n", name, "-", "-", "-", "-", state);
    for (const std::string& problem : checked.problems) core::print("    {}\n", core::printable_line(problem));
  }
}

bool is_pt_file(const std::string& text) {
  std::error_code failure;
  const std::string ending = fs::path(text).extension().string();
  return fs::is_regular_file(text, failure) && (ending == ".pt" || ending == ".pth" || ending == ".bin");
}

/// A file as torch.save writes it: a zip archive whose directory has a checksum of each record.
int verify_pt_file(const config::CkptOptions& options) {
  core::ZipCheck check;
  try {
    check = core::check_zip_records(options.path);
  } catch (const DataError& error) {
    check.problems.emplace_back(error.what());
  }
  const bool is_damaged = !check.problems.empty();
  const bool is_verified = !is_damaged && check.num_checked > 0;
  if (!is_damaged && !is_verified) check.problems.emplace_back("it was written without checksums");
  const char* state = is_damaged ? "damaged" : is_verified ? "usable" : "unreadable";
  if (options.json) {
    const Json one{{"path", options.path},      {"state", state},          {"usable", is_verified},
                   {"damaged", is_damaged},     {"verified", is_verified}, {"num_records", check.num_checked},
                   {"problems", check.problems}};
    core::print("{}\n", Json{{"checkpoints", Json::array({one})}}.dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    core::print("{}: {}\n", core::printable_line(options.path),
                is_verified  ? fmt::format("verified, {} records", check.num_checked)
                : is_damaged ? "DAMAGED"
                             : "NOT KNOWN");
    for (const std::string& problem : check.problems) core::print("    {}\n", core::printable_line(problem));
  }
  return is_verified ? 0 : static_cast<int>(ExitCode::kCheckpoint);
}

}  // namespace

int cmd_ckpt(const commands::ParsedCommand& command) {
  if (command.wants_help) {
    core::print("{}", command.set->help_text());
    return 0;
  }
  const config::CkptOptions& options = *command.ckpt;
  const bool is_verify = options.job == config::CkptJob::kVerify;
  if (is_verify && is_pt_file(options.path)) return verify_pt_file(options);
  std::vector<Checked> all;
  bool is_any_usable = false, is_any_in_need = false;
  const auto depth = is_verify ? checkpoint::VerifyDepth::kHashes : checkpoint::VerifyDepth::kSizes;
  for (CheckpointEntry& entry : find_checkpoints(options.path)) {
    Checked checked{.entry = std::move(entry)};
    if (!checked.entry.problem.empty()) {
      checked.problems.push_back(checked.entry.problem);
    } else {
      checkpoint::FileCheck check = checkpoint::verify_files(checked.entry.folder, *checked.entry.manifest, depth);
      checked.problems = std::move(check.problems);
      if (!checked.problems.empty())
        checked.entry.state = check.is_unreadable ? CheckpointState::kUnreadable : CheckpointState::kDamaged;
    }
    is_any_usable = is_any_usable || checked.is_usable();
    is_any_in_need = is_any_in_need || checked.needs_care();
    all.push_back(std::move(checked));
  }
  if (is_verify && all.empty())
    throw CheckpointError(fmt::format("ckpt: '{}' holds no checkpoint to verify", options.path));
  if (options.json)
    print_json(all, is_verify);
  else if (all.empty())
    core::print("no checkpoints in '{}'\n", options.path);
  else
    print_table(all, is_verify);
  return is_verify && (is_any_in_need || !is_any_usable) ? static_cast<int>(ExitCode::kCheckpoint) : 0;
}

}  // namespace lockstep::cli
