#include "data/sounds/audio_resample.h"

#include <soxr.h>

#include "core/error.h"

namespace lockstep::data {

int64_t resampled_length(int64_t count, int64_t from_rate, int64_t to_rate) {
  return (count * to_rate + from_rate - 1) / from_rate;
}

void resample_audio(std::span<const float> in, int64_t from_rate, int64_t to_rate, std::vector<float>& out) {
  const auto wanted = static_cast<size_t>(resampled_length(static_cast<int64_t>(in.size()), from_rate, to_rate));
  out.assign(wanted, 0.0f);  // soxr rounds the length to the nearest: the last value may be missing
  const soxr_io_spec_t format = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);  // one thread: the loader's workers are the parallelism
  size_t num_read = 0, num_written = 0;
  const soxr_error_t error =
      soxr_oneshot(static_cast<double>(from_rate), static_cast<double>(to_rate), 1, in.data(), in.size(), &num_read,
                   out.data(), out.size(), &num_written, &format, &quality, &runtime);
  LOCKSTEP_CHECK(error == nullptr && num_written + 1 >= wanted, "soxr: {} values={} expected={}",
                 error == nullptr ? "" : error, num_written, wanted);
}

}  // namespace lockstep::data
