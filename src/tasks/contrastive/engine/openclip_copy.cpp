#include "tasks/contrastive/engine/openclip_copy.h"

#include <fmt/format.h>

#include <system_error>

#include "checkpoint/openclip_files.h"
#include "core/log.h"
#include "models/openclip_order.h"
#include "models/weights.h"
#include "models/weights_pt.h"
#include "train/checkpointer.h"
#include "train/openclip_checkpoint.h"
#include "train/weight_file.h"

namespace lockstep::tasks {
namespace fs = std::filesystem;
namespace {
fs::path copy_of_epoch(const fs::path& checkpoints, int64_t epoch) {
  return checkpoints / fmt::format("epoch_{}.pt", epoch);
}

/// The same file under another name, replaced as a whole; a copy where the file system has no hard links.
void link_as(const fs::path& file, const fs::path& name) {
  const fs::path next = fs::path(name) += ".next";
  std::error_code failure;
  fs::remove(next);
  fs::create_hard_link(file, next, failure);
  if (failure) fs::copy_file(file, next);
  fs::rename(next, name);
}
}  // namespace

void save_openclip_copy(const ContrastiveOptions& options, const fs::path& folder,
                        const checkpoint::CheckpointManifest& manifest) {
  if (!train::ends_epoch(manifest)) return;
  const fs::path file = copy_of_epoch(folder.parent_path(), manifest.epoch);
  if (!checkpoint::claim_openclip_file(folder.parent_path().parent_path(), file.filename().string())) {
    core::log_warning("'{}' was not written by this run and stays: this epoch gets no file of OpenCLIP's; {}",
                      file.string(), "`lockstep ckpt export --with-optimizer` writes one elsewhere");
    return;
  }
  checkpoint::CheckpointManifest ignored;
  models::NamedValues weights =
      models::in_openclip_order(models::names_of_file(models::read_weights(train::weight_file(folder, ignored))));
  auto optimizer = train::openclip_optimizer(folder, weights,
                                             {.parameters = {},
                                              .lr = *options.lr,
                                              .beta1 = *options.beta1,
                                              .beta2 = *options.beta2,
                                              .epsilon = *options.eps,
                                              .weight_decay = options.wd});
  for (auto& [name, tensor] : weights) name = "module." + name;
  models::write_weights_pt(file, weights,
                           models::CheckpointHead{.epoch = manifest.epoch,
                                                  .name = folder.parent_path().parent_path().filename().string(),
                                                  .optimizer = std::move(optimizer),
                                                  .scaler = train::openclip_scaler(manifest)});
  if (options.save_most_recent) link_as(file, folder.parent_path() / "epoch_latest.pt");
  core::log_info("saved {}", file.filename().string());
}

void remove_openclip_copy(const fs::path& folder, const checkpoint::CheckpointManifest& manifest) {
  if (!train::ends_epoch(manifest)) return;
  for (const auto& entry : checkpoint::list_checkpoints(folder.parent_path()))
    if (entry.step == manifest.step && entry.attempt > manifest.attempt && entry.problem.empty()) return;
  const fs::path file = copy_of_epoch(folder.parent_path(), manifest.epoch);
  if (checkpoint::is_own_openclip_file(folder.parent_path().parent_path(), file.filename().string())) fs::remove(file);
}

}  // namespace lockstep::tasks
