#include "checkpoint/epochs.h"

namespace lockstep::checkpoint {

std::optional<int64_t> epochs_done(const CheckpointManifest& manifest) {
  const auto facts = manifest.extra.find("caller");  // what a resumed run must share; the length of an epoch, if any
  if (facts == manifest.extra.end() || !facts->contains("steps_per_epoch")) return std::nullopt;
  return manifest.epoch;
}

}  // namespace lockstep::checkpoint
