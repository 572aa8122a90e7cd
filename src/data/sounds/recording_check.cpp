#include "data/sounds/recording_check.h"

#include <span>

#include "data/sounds/audio.h"
#include "data/sounds/audio_container.h"

namespace lockstep::data {

void check_recording(std::string_view encoded, std::string_view name, PictureDepth depth) {
  const auto bytes = std::as_bytes(std::span(encoded));
  if (depth == PictureDepth::kFirstBytes) {
    detect_audio_container(bytes, name);
    return;
  }
  AudioReader reader(bytes, name);
  read_all_mono(reader, [](std::span<const float>) {});
}

}  // namespace lockstep::data
