#include "remote/fetch_run.h"

#include <algorithm>
#include <limits>
#include <map>

#include "checkpoint/is_there.h"
#include "checkpoint/manifest.h"
#include "checkpoint/openclip_files.h"
#include "core/log.h"
#include "core/strings.h"
#include "core/units.h"
#include "remote/run_files.h"
#include "remote/sync_state.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
namespace {

constexpr const char *kCheckpoints = "checkpoints/", *kClaimPrefix = "checkpoints/owner.";

/// Downloads lie in a folder of their own until they are whole and verified.
class Staging {
 public:
  explicit Staging(const fs::path& run_folder) : folder_(run_folder / "fetching.part") {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);  // of a process that was killed
    fs::create_directories(folder_ / "checkpoints");
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

using Listing = std::map<std::string, int64_t>;  // bytes by name

/// But for what a copy that was cut off left in a folder.
Listing list_all(ObjectStore& store) {
  Listing listing;
  for (const StoredFile& file : store.list(""))
    if (!is_unfinished(file.name)) listing[file.name] = file.bytes;
  return listing;
}

/// "" where every file that the manifest names is listed with its size.
std::string lacking_file(const Listing& listing, const std::string& folder,
                         const checkpoint::CheckpointManifest& manifest) {
  for (const auto& file : manifest.files) {
    const auto found = listing.find(folder + file.name);
    if (found == listing.end()) return fmt::format("'{}' is missing", file.name);
    if (found->second != file.bytes)
      return fmt::format("'{}' has the wrong size: bytes={}, expected={}", file.name, found->second, file.bytes);
  }
  return "";
}

/// Brings the files of a checkpoint beside the manifest that lies in `to` already, and compares hashes. What is wrong,
/// or "".
std::string download_files(ObjectStore& store, const std::string& from, const fs::path& to,
                           const checkpoint::CheckpointManifest& manifest) {
  for (const auto& file : manifest.files) {
    core::show_progress(fmt::format("fetching {} ({}) from {}", file.name,
                                    core::format_bytes(static_cast<double>(file.bytes)), store.text()));
    store.download(from + file.name, to / file.name);
  }
  core::end_progress();
  return core::join(checkpoint::verify_files(to, manifest, checkpoint::VerifyDepth::kHashes).problems, "; ");
}

fs::path move_into_place(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  fs::create_directories(to.parent_path());
  fs::remove_all(to, ignored);  // what an interrupted save left
  fs::rename(from, to);
  core::fsync_directory(to.parent_path());
  return to;
}

int highest_claim(const Listing& listing) {
  int64_t highest = 0;
  for (const auto& [name, bytes] : listing)
    if (core::starts_with(name, kClaimPrefix))
      if (const auto attempt = core::parse_int(name.substr(std::string_view(kClaimPrefix).size())))
        highest = std::max(highest, *attempt);
  return static_cast<int>(std::min<int64_t>(highest, std::numeric_limits<int>::max() - 1));
}

void fetch_claims(ObjectStore& store, const Listing& listing, const fs::path& run_folder) {
  for (const auto& [name, bytes] : listing)
    if (core::starts_with(name, kClaimPrefix) && !fs::exists(run_folder / name))
      store.download(name, run_folder / name);
}

void fetch_record(ObjectStore& store, const Listing& listing, const fs::path& run_folder) {
  for (const auto& [name, bytes] : listing)
    if (!core::starts_with(name, kCheckpoints) && !core::starts_with(name, ".") && name != kSyncStateName)
      store.download(name, run_folder / name);
}

/// Checkpoints of the copy as its claims and manifests tell, newest first; their files are not here yet.
std::vector<checkpoint::CheckpointEntry> list_remote_checkpoints(ObjectStore& store, const Listing& listing,
                                                                 const fs::path& staging) {
  for (const auto& [name, bytes] : listing)
    if (core::starts_with(name, kCheckpoints) &&
        (core::starts_with(name, kClaimPrefix) || core::ends_with(name, fmt::format("/{}", checkpoint::kManifestName))))
      store.download(name, staging / name);
  return checkpoint::list_checkpoints(staging);
}

std::pair<int, int64_t> newest_here(const fs::path& run_folder) {
  const auto choice = checkpoint::choose_latest(run_folder);
  return choice.chosen ? std::pair(choice.chosen->attempt, choice.chosen->step) : std::pair(-1, int64_t{-1});
}

}  // namespace

bool holds_run(ObjectStore& run_copy) {
  return !run_copy.list("run.json").empty() || !run_copy.list("checkpoints/").empty();
}

namespace {

/// Name of OpenCLIP's newest file in a copy; "" where there is none.
std::string newest_openclip_name(const Listing& listing) {
  std::string newest;
  int64_t highest = -1;
  for (const auto& [name, bytes] : listing) {
    if (!core::starts_with(name, kCheckpoints)) continue;
    const std::string file = name.substr(std::string_view(kCheckpoints).size());
    if (file == checkpoint::kLatestOpenClipFile) return name;
    if (const auto epoch = checkpoint::openclip_epoch(file); epoch && *epoch > highest) highest = *epoch, newest = name;
  }
  return newest;
}

/// Brings OpenCLIP's newest file to where OpenCLIP would have left it, unless one as new is here.
std::optional<fs::path> fetch_openclip(ObjectStore& store, const Listing& listing, const fs::path& run_folder,
                                       bool takes_openclip) {
  const std::string name = newest_openclip_name(listing);
  if (name.empty()) return std::nullopt;
  if (!takes_openclip)
    throw CheckpointError(
        fmt::format("remote: {} holds '{}', from which this command cannot go on", store.text(), name),
        "begin the run under another --name");
  const std::string there = fs::path(name).filename().string();
  const std::string here = checkpoint::newest_openclip_file(run_folder).filename().string();
  if (here == there || here == checkpoint::kLatestOpenClipFile) return std::nullopt;
  if (!here.empty() && checkpoint::openclip_epoch(here) >= checkpoint::openclip_epoch(there) &&
      there != checkpoint::kLatestOpenClipFile)
    return std::nullopt;
  core::show_progress(fmt::format("fetching {} ({}) from {}", name,
                                  core::format_bytes(static_cast<double>(listing.at(name))), store.text()));
  store.download(name, run_folder / name);
  core::end_progress();
  return run_folder / name;
}

/// What lies here as it lies there need not be sent again.
void note_fetched(const ObjectStore& run_copy, const Listing& listing, const fs::path& run_folder,
                  const FetchedRun& fetched) {
  SyncState state(run_folder, run_copy.text());
  const std::string checkpoint = fetched.checkpoint ? kCheckpoints + fetched.checkpoint->filename().string() + "/" : "";
  for (const auto& [name, bytes] : listing) {
    const bool is_of_record = fetched.has_record && !core::starts_with(name, kCheckpoints);
    const bool is_openclip = fetched.openclip && run_folder / name == *fetched.openclip;
    if (!is_of_record && !is_openclip && !core::starts_with(name, kClaimPrefix) &&
        (checkpoint.empty() || !core::starts_with(name, checkpoint)))
      continue;
    std::error_code ignored;  // it is sent again
    if (const auto file = describe_run_file(run_folder, name, ignored); file && file->bytes == bytes)
      state.note_arrived(*file);
  }
  state.save();
}

/// Whether the run's own checkpoint is the one whose manifest lies in `staged`. CheckpointError where it is another one
/// of that name, or cannot be read: it must not be replaced. False where there is none, or none that was completed.
bool is_same_here(const fs::path& own, const fs::path& staged, const Address& address) {
  if (!checkpoint::is_there(own / checkpoint::kManifestName)) return false;
  std::string why = "is another one";
  try {
    if (core::read_file(own / checkpoint::kManifestName) == core::read_file(staged / checkpoint::kManifestName))
      return true;
  } catch (const EnvironmentError& error) {
    why = fmt::format("cannot be read: {}", error.what());
  }
  throw CheckpointError(
      fmt::format("remote: {} is not fetched: the run's own '{}' has that name and {}", address.text(), own.string(),
                  why),
      "it stays as it is: go on from the fetched one under another --name, or from the own one with --resume latest");
}

}  // namespace

FetchedRun fetch_latest(ObjectStore& run_copy, const fs::path& run_folder, bool takes_openclip) {
  FetchedRun fetched;
  const Listing listing = list_all(run_copy);
  const Staging staging(run_folder);
  const auto here = newest_here(run_folder);
  bool is_ahead = false;
  std::vector<std::string> problems;
  for (const auto& entry : list_remote_checkpoints(run_copy, listing, staging.folder())) {
    if (std::pair(entry.attempt, entry.step) <= here) break;
    const std::string folder = kCheckpoints + entry.folder.filename().string() + "/";
    std::string problem = entry.problem;
    if (problem.empty()) problem = lacking_file(listing, folder, *entry.manifest);
    if (problem.empty()) problem = download_files(run_copy, folder, entry.folder, *entry.manifest);
    if (problem.empty()) {
      fetch_claims(run_copy, listing, run_folder);
      fetched.checkpoint = move_into_place(entry.folder, run_folder / kCheckpoints / entry.folder.filename());
      is_ahead = true;
      break;
    }
    problems.push_back(fmt::format("{}: {}", entry.folder.filename().string(), problem));
    core::log_warning("remote: checkpoint {} at {} is passed over: {}", entry.folder.filename().string(),
                      run_copy.text(), problem);
  }
  if (!problems.empty() && !fetched.checkpoint && here.first < 0)
    throw CheckpointError(
        fmt::format("remote: no checkpoint at {} is whole: {}", run_copy.text(), core::join(problems, "; ")),
        "begin the run again under another --name");
  if (!fetched.checkpoint && here.first < 0)
    fetched.openclip = fetch_openclip(run_copy, listing, run_folder, takes_openclip);
  fetched.highest_attempt = highest_claim(listing);
  if ((is_ahead || !fs::exists(run_folder / "run.json")) && !listing.empty()) {
    fetch_claims(run_copy, listing, run_folder);
    fetch_record(run_copy, listing, run_folder);
    fetched.has_record = true;
  }
  if (fetched.has_record || fetched.checkpoint || fetched.openclip)
    note_fetched(run_copy, listing, run_folder, fetched);
  return fetched;
}

fs::path fetch_checkpoint(const Address& address, const fs::path& run_folder, const ClientConfig& config) {
  const size_t slash = address.path.find_last_of('/');
  Address parent = address;
  parent.path = slash == std::string::npos ? "" : address.path.substr(0, slash);
  const std::string name = slash == std::string::npos ? address.path : address.path.substr(slash + 1);
  const auto store = open_store(parent, config);
  if (core::ends_with(name, ".pt")) {  // OpenCLIP's: one file
    const fs::path target = run_folder / kFetchedFolder / name;
    fs::create_directories(target.parent_path());
    store->download(name, target);
    return target;
  }
  Listing listing;
  for (const StoredFile& file : store->list(name + "/")) listing[file.name] = file.bytes;
  if (!listing.contains(fmt::format("{}/{}", name, checkpoint::kManifestName)))
    throw CheckpointError(
        fmt::format("remote: {} is no whole checkpoint: it has no {}", address.text(), checkpoint::kManifestName),
        listing.empty() ? "there is nothing: check the address"
                        : "name a folder such as s3://BUCKET/RUN/checkpoints/step-00000100.a1");
  const Staging staging(run_folder);
  const fs::path staged = staging.folder() / "checkpoints" / name;
  store->download(fmt::format("{}/{}", name, checkpoint::kManifestName), staged / checkpoint::kManifestName);
  const auto manifest = checkpoint::read_manifest(staged);
  const fs::path target = run_folder / "checkpoints" / checkpoint::checkpoint_name(manifest.step, manifest.attempt);
  if (is_same_here(target, staged, address) &&
      checkpoint::verify_files(target, manifest, checkpoint::VerifyDepth::kHashes).problems.empty())
    return target;
  const bool has_own = !checkpoint::list_checkpoints(run_folder).empty();
  std::string problem = lacking_file(listing, name + "/", manifest);
  if (problem.empty()) problem = download_files(*store, name + "/", staged, manifest);
  if (!problem.empty())
    throw CheckpointError(fmt::format("remote: checkpoint {} is damaged: {}", address.text(), problem),
                          "name an older one, or --resume latest with --remote-sync, which passes over damaged ones");
  // Claims say which of their own run's checkpoints count: beside others they would void those.
  for (const StoredFile& claim : has_own ? std::vector<StoredFile>() : store->list("owner."))
    if (!fs::exists(run_folder / "checkpoints" / claim.name))
      store->download(claim.name, run_folder / "checkpoints" / claim.name);
  return move_into_place(staged, target);
}

}  // namespace lockstep::remote
