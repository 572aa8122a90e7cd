#include "train/run_remote.h"

#include "checkpoint/manifest.h"
#include "core/log.h"
#include "remote/fetch_run.h"

namespace lockstep::train {
namespace {

remote::FetchedRun fetch_newest(remote::ObjectStore& copy, const std::filesystem::path& run_folder,
                                bool takes_openclip) {
  const auto fetched = remote::fetch_latest(copy, run_folder, takes_openclip);
  if (fetched.has_record) core::log_info("remote: fetched the record of the run from {}", copy.text());
  if (fetched.checkpoint)
    core::log_info("remote: fetched {} from {}", fetched.checkpoint->filename().string(), copy.text());
  if (fetched.openclip)
    core::log_info("remote: fetched {} of OpenCLIP from {}", fetched.openclip->filename().string(), copy.text());
  return fetched;
}

/// Of a start, which waits: what is tried again is told.
remote::ClientConfig client_at_start() {
  remote::ClientConfig config;
  config.on_retry = [](const remote::RemoteError& error) { core::log_warning("{}; trying again", error.what()); };
  return config;
}

remote::Address address_of_copy(const config::RunOptions& options, const LocalRun& run) {
  return remote::parse_address(options.remote_sync).child(run.name);
}

}  // namespace

int bring_run_here(const config::RunOptions& options, const LocalRun& run) {
  if (options.remote_sync.empty()) return 0;
  const auto copy = remote::open_store(address_of_copy(options, run), client_at_start());
  remote::test_writing(*copy);
  if (!run.is_resume && remote::holds_run(*copy))
    throw UsageError(
        fmt::format("train: run '{}' already exists at {}", run.name, copy->text()),
        fmt::format("continue it with {}, or choose another {}", config::flags_to_resume(options, run.name),
                    options.save.empty() ? "--name" : "--save"));
  return run.is_resume ? fetch_newest(*copy, run.folder, options.takes_openclip_checkpoints).highest_attempt : 0;
}

std::filesystem::path bring_checkpoint_here(const std::string& address, const std::filesystem::path& run_folder) {
  const remote::Address from = remote::parse_address(address);
  const auto fetched = remote::fetch_checkpoint(from, run_folder, client_at_start());
  core::log_info("remote: fetched {} from {}", fetched.filename().string(), from.text());
  return fetched;
}

std::unique_ptr<remote::RunSync> start_sync(const config::RunOptions& options, const LocalRun& run, int attempt,
                                            checkpoint::HeldCheckpoint& held) {
  if (options.remote_sync.empty()) return nullptr;
  remote::SyncConfig config{.run_folder = run.folder,
                            .address = address_of_copy(options, run),
                            .frequency_s = options.remote_sync_frequency_s,
                            .attempt = attempt,
                            .held = &held,
                            .flags_to_resume = config::flags_to_resume(options, run.name)};
  if (attempt > 0)
    config.reason_to_stop = [folder = run.folder, attempt] {
      return checkpoint::is_superseded(folder, attempt)
                 ? fmt::format("attempt {} does not own the run in '{}' any more", attempt, folder.string())
                 : std::string();
    };
  return std::make_unique<remote::RunSync>(std::move(config));
}

}  // namespace lockstep::train
