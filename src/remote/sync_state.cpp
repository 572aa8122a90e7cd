#include "remote/sync_state.h"

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
using core::Json;
namespace {

constexpr std::string_view kCheckpointFolders = "checkpoints/";

Json empty_state(const std::string& address) {
  return {{"address", address}, {"files", Json::object()}, {"uploads", Json::object()}};
}

Json read_state(const fs::path& path, const std::string& address) {
  try {
    if (!fs::exists(path)) return empty_state(address);
    Json state = core::read_json_file(path);
    const bool fits = core::text_at(state, "address") == address && state.contains("files") &&
                      state["files"].is_object() && state.contains("uploads") && state["uploads"].is_object();
    return fits ? state : empty_state(address);
  } catch (const Error& error) {
    core::log_warning("remote: '{}' cannot be used, everything is sent again: {}", path.string(), error.what());
    return empty_state(address);
  }
}

bool is_number(const Json& noted, const char* key, int64_t value) { return core::integer_at(noted, key) == value; }

bool is_same(const Json& noted, const RunFile& file) {
  return noted.is_object() && is_number(noted, "bytes", file.bytes) && is_number(noted, "mtime_ns", file.mtime_ns);
}

Json note_of(const RunFile& file) { return {{"bytes", file.bytes}, {"mtime_ns", file.mtime_ns}}; }

}  // namespace

SyncState::SyncState(const fs::path& run_folder, const std::string& address)
    : path_(run_folder / kSyncStateName), state_(read_state(path_, address)) {}

bool SyncState::has_arrived(const RunFile& file) const {
  const auto found = state_["files"].find(file.name);
  return found != state_["files"].end() && is_same(*found, file);
}

void SyncState::note_arrived(const RunFile& file) {
  state_["uploads"].erase(file.name);
  state_["files"][file.name] = note_of(file);
}

void SyncState::keep_only(const std::set<std::pair<std::string, int64_t>>& there) {
  Json kept = Json::object();
  for (const auto& [name, noted] : state_["files"].items())
    if (const auto bytes = core::integer_at(noted, "bytes"); bytes && there.contains({name, *bytes}))
      kept[name] = noted;
  state_["files"] = std::move(kept);
}

Json SyncState::unfinished(const RunFile& file) const {
  const auto found = state_["uploads"].find(file.name);
  const bool is_usable = found != state_["uploads"].end() && is_same(*found, file) && found->contains("parts") &&
                         found->at("parts").is_object();
  return is_usable ? found->at("parts") : Json::object();
}

void SyncState::note_unfinished(const RunFile& file, const Json& parts) {
  state_["uploads"][file.name] = note_of(file);
  state_["uploads"][file.name]["parts"] = parts;
}

std::set<std::string> SyncState::begun_checkpoints() const {
  std::set<std::string> folders;
  for (const char* kind : {"files", "uploads"})
    for (const auto& [name, noted] : state_[kind].items())
      if (const size_t slash = name.rfind('/');
          core::starts_with(name, kCheckpointFolders) && slash >= kCheckpointFolders.size())
        folders.insert(name.substr(0, slash + 1));
  std::erase_if(
      folders, [&](const std::string& folder) { return state_["files"].contains(folder + checkpoint::kManifestName); });
  return folders;
}

void SyncState::forget(const std::string& folder) {
  for (const char* kind : {"files", "uploads"}) {
    Json kept = Json::object();
    for (const auto& [name, noted] : state_[kind].items())
      if (!core::starts_with(name, folder)) kept[name] = noted;
    state_[kind] = std::move(kept);
  }
}

/// A name that is no UTF-8 is not found again by the next process, which sends that file once more.
void SyncState::save() const {
  core::write_file_atomic(path_, state_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace lockstep::remote
