#include "remote/sync_state.h"

#include <utility>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/is_there.h"
#include "core/log.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
using core::Json;
namespace {

constexpr std::string_view kCheckpointFolders = "checkpoints/";

}  // namespace

SyncState::SyncState(const fs::path& run_folder, const std::string& address)
    : path_(run_folder / kSyncStateName), address_(address) {
  try {
    if (core::is_there(path_)) read(core::read_json_file(path_));
  } catch (const Error& error) {
    core::log_warning("remote: '{}' cannot be used, everything is sent again: {}", path_.string(), error.what());
  }
}

void SyncState::read(const Json& state) {
  const bool fits = core::text_at(state, "address") == address_ && state.contains("files") && state.contains("uploads");
  if (!fits) return;
  files_ = notes_from_json(state["files"]);
  uploads_ = notes_from_json(state["uploads"]);
}

/// What is no note is left out: its file is sent again.
SyncState::Notes SyncState::notes_from_json(const Json& noted) {
  Notes notes;
  if (!noted.is_object()) return notes;
  for (const auto& [name, note] : noted.items()) {
    const auto bytes = core::integer_at(note, "bytes"), mtime_ns = core::integer_at(note, "mtime_ns");
    if (!bytes || !mtime_ns) continue;
    const auto parts = note.find("parts");
    notes[name] = {.bytes = *bytes,
                   .mtime_ns = *mtime_ns,
                   .parts = parts != note.end() && parts->is_object() ? *parts : Json::object()};
  }
  return notes;
}

Json SyncState::to_json(const Notes& notes, bool has_parts) {
  Json::object_t object;
  for (const auto& [name, note] : notes) {
    Json noted = {{"bytes", note.bytes}, {"mtime_ns", note.mtime_ns}};
    if (has_parts) noted["parts"] = note.parts;
    object.push_back({name, std::move(noted)});  // [name] would look at all keys before
  }
  return Json(std::move(object));
}

bool SyncState::has_arrived(const RunFile& file) const {
  const auto found = files_.find(file.name);
  return found != files_.end() && found->second.fits(file);
}

void SyncState::note_arrived(const RunFile& file) {
  uploads_.erase(file.name);
  files_[file.name] = {.bytes = file.bytes, .mtime_ns = file.mtime_ns};
}

void SyncState::keep_only(const std::set<std::pair<std::string, int64_t>>& there) {
  std::erase_if(files_, [&](const auto& file) { return !there.contains({file.first, file.second.bytes}); });
}

Json SyncState::unfinished(const RunFile& file) const {
  const auto found = uploads_.find(file.name);
  return found != uploads_.end() && found->second.fits(file) ? found->second.parts : Json::object();
}

void SyncState::note_unfinished(const RunFile& file, const Json& parts) {
  uploads_[file.name] = {.bytes = file.bytes, .mtime_ns = file.mtime_ns, .parts = parts};
}

std::set<std::string> SyncState::begun_checkpoints() const {
  std::set<std::string> folders;
  for (const Notes* notes : {&files_, &uploads_})
    for (const auto& [name, note] : *notes)
      if (const size_t slash = name.rfind('/');
          core::starts_with(name, kCheckpointFolders) && slash >= kCheckpointFolders.size())
        folders.insert(name.substr(0, slash + 1));
  std::erase_if(folders,
                [&](const std::string& folder) { return files_.contains(folder + checkpoint::kManifestName); });
  return folders;
}

void SyncState::forget(const std::string& folder) {
  for (Notes* notes : {&files_, &uploads_})
    std::erase_if(*notes, [&](const auto& note) { return core::starts_with(note.first, folder); });
}

/// A name that is no UTF-8 is not found again by the next process, which sends that file once more.
void SyncState::save() const {
  const Json state = {{"address", address_},
                      {"files", to_json(files_, /*has_parts=*/false)},
                      {"uploads", to_json(uploads_, /*has_parts=*/true)}};
  core::write_file_atomic(path_, state.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace lockstep::remote
