#include <webp/decode.h>

#include "data/bad_sample_hint.h"
#include "data/pictures/image_codecs.h"

namespace lockstep::data {
namespace {

std::string_view reason(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends too early";
    case VP8_STATUS_BITSTREAM_ERROR: return "the coded data are wrong";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "it uses a feature that libwebp does not know";
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    default: return "libwebp refuses it";
  }
}

}  // namespace

void decode_webp(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits, Image& out) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPDecoderConfig config;
  LOCKSTEP_CHECK(WebPInitDecoderConfig(&config) != 0, "libwebp has another ABI than its header");
  const VP8StatusCode header = WebPGetFeatures(data, bytes.size(), &config.input);
  if (header != VP8_STATUS_OK) throw damaged_image(name, "WebP", reason(header), bytes.size());
  if (config.input.has_animation != 0) {
    throw DataError(fmt::format("data: picture in {} is an animated WebP, expected a still picture", name),
                    or_leave_out("extract one frame beforehand"));
  }
  check_image_size(config.input.width, config.input.height, name, limits);
  allocate_image(config.input.width, config.input.height, out);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out.rgb_YXC.data();
  config.output.u.RGBA.stride = out.width * 3;
  config.output.u.RGBA.size = out.rgb_YXC.size();
  const VP8StatusCode status = WebPDecode(data, bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) throw damaged_image(name, "WebP", reason(status), bytes.size());
}

}  // namespace lockstep::data
