#include "bench/latency_subject.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "bench/sample_timer.h"
#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"
#include "data/bad_sample_hint.h"
#include "data/parallel_for.h"
#include "data/pictures/image_codecs.h"
#include "data/pictures/picture_check.h"
#include "infer/file_list.h"

namespace lockstep::bench {
namespace {

constexpr int kMadeWidth = 500, kMadeHeight = 375;  // the mean size of ImageNet's pictures
constexpr int kMadeQuality = 90;
constexpr int kBlock = 25;  // pixels of one brightness

/// Blocks with a ramp and some noise: its JPEG takes about as many bytes per pixel as that of a photograph.
std::string made_picture(uint64_t seed) {
  data::Image image;
  data::allocate_image(kMadeWidth, kMadeHeight, image);
  core::CounterRng rng(core::stream_key({seed, 0x6c6174}));
  std::vector<uint8_t> levels(3 * (kMadeWidth / kBlock + 1) * (kMadeHeight / kBlock + 1));
  for (uint8_t& level : levels) level = static_cast<uint8_t>(rng.below(200));
  for (int y = 0; y < kMadeHeight; ++y)
    for (int x = 0; x < kMadeWidth; ++x)
      for (int c = 0; c < 3; ++c) {
        const int block = (y / kBlock * (kMadeWidth / kBlock + 1) + x / kBlock) * 3 + c,
                  at = (y * kMadeWidth + x) * 3 + c;
        image.rgb_YXC.at(at) = static_cast<uint8_t>(levels.at(block) + x % kBlock + static_cast<int>(rng.below(12)));
      }
  const auto bytes = data::encode_jpeg(image, kMadeQuality);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Its bytes; a damaged one is told before anything is timed.
std::string whole_picture(const std::filesystem::path& file) {
  std::string bytes = core::read_file(file);
  try {
    data::check_picture(bytes, fmt::format("'{}'", file.string()), data::PictureDepth::kDecoded);
  } catch (const DataError& error) {
    throw DataError(error.what(), data::hint_of_whole_data(error.hint()));
  }
  return bytes;
}

}  // namespace

void StageClock::mark(const char* stage) {
  synchronize(device_);
  stages_.emplace_back(stage, core::ms_since(last_));
  last_ = core::Clock::now();
}

std::string precision_name(const std::string& type) {
  return type == "bf16" ? "pure_bf16" : type == "fp16" ? "fp16_master" : type;
}

int64_t count_apart(const at::Tensor& got, const at::Tensor& expected, double tolerance) {
  return got.sub(expected).abs().le(tolerance).logical_not().sum().item<int64_t>();  // sync: a check
}

double feature_tolerance(const std::string& precision) { return precision == "fp32" ? 1e-5 : 1e-2; }

std::vector<std::string> encoded_pictures(const commands::BenchOptions& options, int64_t count) {
  constexpr int64_t kMostDifferent = 64;
  std::vector<std::string> different;
  if (options.images.empty()) {
    for (int64_t i = 0; i < std::min(count, kMostDifferent); ++i)
      different.push_back(made_picture(static_cast<uint64_t>(options.train.seed + i)));
  } else {
    const auto files = infer::list_files(options.images, /*is_audio=*/false);
    for (size_t i = 0; i < files.size() && std::ssize(different) < std::min(count, kMostDifferent); ++i)
      different.push_back(whole_picture(files[i]));
  }
  std::vector<std::string> pictures;
  for (int64_t i = 0; i < count; ++i) pictures.push_back(different[static_cast<size_t>(i) % different.size()]);
  return pictures;
}

void read_pictures(std::span<const std::string> files, const data::TransformConfig& transform, data::HostBatch& host,
                   PictureScratch& scratch, StageClock* clock) {
  const auto count = static_cast<size_t>(host.num_samples), pixels = static_cast<size_t>(transform.image_pixels),
             bytes = pixels * pixels * 3;
  const int64_t threads = std::min<int64_t>(host.num_samples, at::get_num_threads());
  scratch.images.resize(count);
  scratch.resize.resize(count);
  data::for_each_parallel(count, threads, [&](size_t i, size_t) {
    data::decode_image_into(std::as_bytes(std::span(files[i])), "picture", transform.limits, scratch.images[i]);
  });
  if (clock != nullptr) clock->mark("decode");
  host.image_pixels = transform.image_pixels;
  host.image_BYXC.resize(count * bytes);
  data::for_each_parallel(count, threads, [&](size_t i, size_t) {
    data::apply(scratch.images[i], transform, /*rng_key=*/0, std::span(host.image_BYXC).subspan(i * bytes, bytes),
                scratch.resize[i]);
  });
  if (clock != nullptr) clock->mark("resize");
}

}  // namespace lockstep::bench
