#include <algorithm>
#include <csetjmp>
#include <cstdio>  // jpeglib.h uses FILE
#include <cstdlib>

#include <jpeglib.h>

#include "data/pictures/image_codecs.h"

namespace lockstep::data {
namespace {

struct Encoder {
  jpeg_compress_struct encoder;
  jpeg_error_mgr errors;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  unsigned char* buffer = nullptr;
  unsigned long num_bytes = 0;

  ~Encoder() {
    jpeg_destroy_compress(&encoder);
    std::free(buffer);
  }

  [[noreturn]] static void leave(j_common_ptr common) {
    auto& self = *static_cast<Encoder*>(common->client_data);
    (*common->err->format_message)(common, self.message);
    std::longjmp(self.jump, 1);
  }

  bool run(const uint8_t* rgb, int width, int height, int quality) {
    encoder.err = jpeg_std_error(&errors);
    errors.error_exit = leave;
    errors.output_message = [](j_common_ptr) {};
    encoder.client_data = this;
    if (setjmp(jump)) return false;
    jpeg_create_compress(&encoder);
    encoder.client_data = this;
    jpeg_mem_dest(&encoder, &buffer, &num_bytes);
    encoder.image_width = static_cast<JDIMENSION>(width);
    encoder.image_height = static_cast<JDIMENSION>(height);
    encoder.input_components = 3;
    encoder.in_color_space = JCS_RGB;
    jpeg_set_defaults(&encoder);
    jpeg_set_quality(&encoder, quality, TRUE);
    jpeg_start_compress(&encoder, TRUE);
    while (encoder.next_scanline < encoder.image_height) {
      JSAMPROW row =
          const_cast<uint8_t*>(rgb) + static_cast<size_t>(encoder.next_scanline) * static_cast<size_t>(width) * 3;
      jpeg_write_scanlines(&encoder, &row, 1);
    }
    jpeg_finish_compress(&encoder);
    return true;
  }
};

}  // namespace

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  LOCKSTEP_CHECK(quality >= 1 && quality <= 100, "quality={}", quality);
  LOCKSTEP_CHECK(image.rgb_YXC.size() == static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3,
                 "{} bytes for {} x {}", image.rgb_YXC.size(), image.width, image.height);
  const auto encoder = std::make_unique<Encoder>();
  if (!encoder->run(image.rgb_YXC.data(), image.width, image.height, quality)) {
    throw DataError(fmt::format("data: a picture of {} x {} cannot be written as JPEG: {}", image.width, image.height,
                                encoder->message),
                    "JPEG takes 1 to 65500 pixels on each side");
  }
  const auto* begin = reinterpret_cast<const std::byte*>(encoder->buffer);
  return {begin, begin + encoder->num_bytes};
}

}  // namespace lockstep::data
