#include <algorithm>
#include <csetjmp>
#include <cstdio>  // jpeglib.h uses FILE
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

#include "data/pictures/image_codecs.h"

namespace lockstep::data {
namespace {

constexpr int kMaxScans = 200;  // a real progressive file has about 10; thousands of empty scans are an attack on time
constexpr int kMarginX = 16;  // chroma upsampling looks one chroma sample to each side, and crops snap to whole blocks
constexpr int kMarginY = 2;   // ... and one chroma row up

}  // namespace

/// libjpeg reports through callbacks and leaves by longjmp: functions between setjmp and the library hold trivially
/// destructible data only.
struct JpegReader::State {
  jpeg_decompress_struct decoder;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  std::span<const std::byte> bytes;
  std::string name;
  JDIMENSION result_width = 0, result_height = 0;

  static State& of(j_common_ptr common) { return *static_cast<State*>(common->client_data); }

  [[noreturn]] static void leave(j_common_ptr common) {
    State& state = of(common);
    (*common->err->format_message)(common, state.message);
    std::longjmp(state.jump, 1);
  }
  /// Of warnings (level -1) only a file that ends too early counts: Pillow, too, reads over all others.
  static void on_message(j_common_ptr common, int level) {
    if (level < 0 && common->err->msg_code == JWRN_JPEG_EOF) leave(common);
  }
  static void on_progress(j_common_ptr common) {
    State& state = of(common);
    if (state.decoder.input_scan_number <= kMaxScans) return;
    std::snprintf(state.message, sizeof state.message, "more than %d scans", kMaxScans);
    std::longjmp(state.jump, 1);
  }

  bool open();
  bool reduce(unsigned divisor);
  bool start();
  bool crop(JDIMENSION& x, JDIMENSION& width);
  bool read_rows(int first_row, int num_rows, uint8_t* out, size_t stride_bytes);
  bool finish();
  DataError damage() const { return damaged_image(name, "JPEG", message, bytes.size()); }
};

bool JpegReader::State::open() {
  decoder.err = jpeg_std_error(&errors);
  errors.error_exit = leave;
  errors.emit_message = on_message;
  errors.output_message = [](j_common_ptr) {};
  decoder.client_data = this;
  if (setjmp(jump)) return false;
  jpeg_create_decompress(&decoder);
  decoder.client_data = this;
  progress.progress_monitor = on_progress;
  decoder.progress = &progress;
  jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&decoder, TRUE);
  return true;
}

bool JpegReader::State::reduce(unsigned divisor) {
  if (setjmp(jump)) return false;
  decoder.scale_num = 1;
  decoder.scale_denom = divisor;
  jpeg_calc_output_dimensions(&decoder);
  return true;
}

bool JpegReader::State::start() {
  if (setjmp(jump)) return false;
  decoder.out_color_space = decoder.num_components == 4 ? JCS_CMYK : JCS_RGB;  // libjpeg itself widens grey
  jpeg_start_decompress(&decoder);
  return true;
}

bool JpegReader::State::crop(JDIMENSION& x, JDIMENSION& width) {
  if (setjmp(jump)) return false;
  jpeg_crop_scanline(&decoder, &x, &width);
  return true;
}

bool JpegReader::State::read_rows(int first_row, int num_rows, uint8_t* out, size_t stride_bytes) {
  if (setjmp(jump)) return false;
  if (first_row > 0) jpeg_skip_scanlines(&decoder, static_cast<JDIMENSION>(first_row));
  const JDIMENSION end = static_cast<JDIMENSION>(first_row + num_rows);
  while (decoder.output_scanline < end) {
    JSAMPROW rows[4];
    const JDIMENSION here = decoder.output_scanline, wanted = std::min<JDIMENSION>(4, end - here);
    for (JDIMENSION i = 0; i < wanted; ++i)
      rows[i] = out + (here - static_cast<JDIMENSION>(first_row) + i) * stride_bytes;
    jpeg_read_scanlines(&decoder, rows, wanted);
  }
  return true;
}

bool JpegReader::State::finish() {
  if (setjmp(jump)) return false;
  jpeg_finish_decompress(&decoder);
  return true;
}

JpegReader::JpegReader(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits)
    : state_(std::make_unique<State>()) {
  state_->bytes = bytes;
  state_->name = name;
  if (!state_->open()) {
    const DataError error = state_->damage();
    jpeg_destroy_decompress(&state_->decoder);
    throw error;
  }
  try {
    state_->result_width = state_->decoder.image_width;
    state_->result_height = state_->decoder.image_height;
    check_image_size(state_->decoder.image_width, state_->decoder.image_height, name, limits);
    const int channels = state_->decoder.num_components;
    if (channels != 1 && channels != 3 && channels != 4) {
      throw damaged_image(name, "JPEG", fmt::format("{} colour components, expected 1, 3 or 4", channels),
                          bytes.size());
    }
  } catch (...) {
    jpeg_destroy_decompress(&state_->decoder);
    throw;
  }
}

JpegReader::~JpegReader() { jpeg_destroy_decompress(&state_->decoder); }

int JpegReader::width() const { return static_cast<int>(state_->result_width); }
int JpegReader::height() const { return static_cast<int>(state_->result_height); }

void JpegReader::reduce(int divisor) {
  if (!state_->reduce(static_cast<unsigned>(divisor))) throw state_->damage();
  state_->result_width = state_->decoder.output_width;
  state_->result_height = state_->decoder.output_height;
}

bool JpegReader::can_read_region() const {
  const jpeg_decompress_struct& d = state_->decoder;
  const auto bytes = state_->bytes;
  if (d.progressive_mode || d.arith_code || bytes.size() < 2) return false;
  // Reading stops early, so a file cut short must be recognised by its end.
  if (bytes[bytes.size() - 2] != std::byte{0xff} || bytes[bytes.size() - 1] != std::byte{JPEG_EOI}) return false;
  if (d.num_components == 1) return true;
  if (d.num_components != 3) return false;
  const jpeg_component_info* c = d.comp_info;
  const bool is_chroma_plain =
      c[1].h_samp_factor == 1 && c[1].v_samp_factor == 1 && c[2].h_samp_factor == 1 && c[2].v_samp_factor == 1;
  const bool is_luma_known = c[0].v_samp_factor <= c[0].h_samp_factor && c[0].h_samp_factor <= 2;
  return is_chroma_plain && is_luma_known;
}

namespace {

/// Adobe's inverted CMYK to RGB as Pillow computes it: each channel is the product of its ink and black, rounded.
void cmyk_to_rgb(const uint8_t* cmyk, int width, uint8_t* rgb) {
  const auto multiply = [](unsigned a, unsigned b) {
    const unsigned product = a * b + 128;
    return (product + (product >> 8)) >> 8;
  };
  for (int x = 0; x < width; ++x) {
    const unsigned light = cmyk[x * 4 + 3];  // 255 - black
    for (int c = 0; c < 3; ++c) {
      const int value = static_cast<int>(light) - static_cast<int>(multiply(255u - cmyk[x * 4 + c], light));
      rgb[x * 3 + c] = static_cast<uint8_t>(std::clamp(value, 0, 255));
    }
  }
}

}  // namespace

void JpegReader::read_all(Image& out) {
  State& state = *state_;
  if (!state.start()) throw state.damage();
  allocate_image(width(), height(), out);
  const size_t row_bytes = static_cast<size_t>(width()) * 3;
  if (state.decoder.num_components != 4) {
    if (!state.read_rows(0, height(), out.rgb_YXC.data(), row_bytes)) throw state.damage();
  } else {
    std::vector<uint8_t> cmyk(static_cast<size_t>(width()) * 4 * static_cast<size_t>(height()));
    const size_t cmyk_row_bytes = static_cast<size_t>(width()) * 4;
    if (!state.read_rows(0, height(), cmyk.data(), cmyk_row_bytes)) throw state.damage();
    for (size_t y = 0; y < static_cast<size_t>(height()); ++y) {
      cmyk_to_rgb(cmyk.data() + y * cmyk_row_bytes, width(), out.rgb_YXC.data() + y * row_bytes);
    }
  }
  if (!state.finish()) throw state.damage();
}

Region JpegReader::read_region(const Region& wanted, Image& out) {
  LOCKSTEP_CHECK(can_read_region() && wanted.x >= 0 && wanted.y >= 0 && wanted.width > 0 && wanted.height > 0 &&
                     wanted.x + wanted.width <= width() && wanted.y + wanted.height <= height(),
                 "region {}+{} x {}+{} of {} x {}", wanted.x, wanted.width, wanted.y, wanted.height, width(), height());
  State& state = *state_;
  if (!state.start()) throw state.damage();
  JDIMENSION x = static_cast<JDIMENSION>(std::max(0, wanted.x - kMarginX));
  JDIMENSION columns = static_cast<JDIMENSION>(std::min(width(), wanted.x + wanted.width + kMarginX)) - x;
  if (columns < static_cast<JDIMENSION>(width()) && !state.crop(x, columns)) throw state.damage();
  const int first_row = std::max(0, wanted.y - kMarginY);
  const Region held{static_cast<int>(x), first_row, static_cast<int>(columns), wanted.y + wanted.height - first_row};
  allocate_image(held.width, held.height, out);
  if (!state.read_rows(first_row, held.height, out.rgb_YXC.data(), static_cast<size_t>(held.width) * 3))
    throw state.damage();
  return held;
}

}  // namespace lockstep::data
