#include "data/shards/source_stripes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/pictures/image_codecs.h"

namespace lockstep::data {
namespace {

struct StripeColour {
  const char* name;
  std::array<uint8_t, 3> rgb;
};
constexpr std::array<StripeColour, 3> kStripeColours{
    {{"red", {255, 0, 0}}, {"green", {0, 255, 0}}, {"blue", {0, 0, 255}}}};

std::string striped_jpeg(int pixels, const std::array<uint8_t, 3>& rgb) {
  constexpr int kStripePixels = 4, kQuality = 95;
  Image image{.width = pixels, .height = pixels, .rgb_YXC = {}};
  for (int y = 0; y < pixels; ++y)
    for (int x = 0; x < pixels; ++x)
      for (const uint8_t value : rgb) image.rgb_YXC.push_back(y / kStripePixels % 2 == 0 ? value : 0);
  const std::vector<std::byte> encoded = encode_jpeg(image, kQuality);
  return {reinterpret_cast<const char*>(encoded.data()), encoded.size()};
}

}  // namespace

RowTable open_stripes(const SourceConfig& config) {
  std::vector<std::string> jpegs;
  for (const StripeColour& colour : kStripeColours)
    jpegs.push_back(striped_jpeg(static_cast<int>(config.synthetic_pixels), colour.rgb));
  RowTable table;
  table.num_rows = std::max(config.num_samples, config.global_batch);
  table.fingerprint = fmt::format("stripes-{}-{}", config.synthetic_pixels, table.num_rows);
  table.row = [jpegs = std::move(jpegs)](int64_t row) {
    const size_t colour = static_cast<size_t>(row) % kStripeColours.size();
    RawSample sample;
    sample.key = std::to_string(row);
    sample.shard = "stripes";
    sample.members = {{"jpg", jpegs[colour]}, {"txt", fmt::format("{} stripes", kStripeColours[colour].name)}};
    return sample;
  };
  return table;
}

}  // namespace lockstep::data
