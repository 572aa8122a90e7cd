#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include <png.h>

#include "data/pictures/image_codecs.h"

namespace lockstep::data {
namespace {

enum class PngKind { kRgb, kGrey8, kGrey16, kPalette };

/// libpng leaves by longjmp: members between setjmp and the library are trivially destructible.
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> bytes;
  size_t position = 0;
  char message[256] = "out of memory";
  PngKind kind = PngKind::kRgb;
  std::array<uint8_t, 768> palette;

  PngReader() = default;
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self.message, text, sizeof self.message - 1);
    png_longjmp(png, 1);
  }

  static void on_read(png_structp png, png_bytep out, size_t count) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self.bytes.size() - self.position) png_error(png, "the file ends too early");
    std::memcpy(out, self.bytes.data() + self.position, count);
    self.position += count;
  }

  bool open() {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    if (png == nullptr || (info = png_create_info_struct(png)) == nullptr) return false;
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_read_fn(png, this, on_read);
    // our own limit, with both numbers in its message, comes next
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Colour profiles, gamma and texts change no pixel here; unread they cannot hurt either.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
    return true;
  }

  bool start() {
    if (setjmp(png_jmpbuf(png))) return false;
    const int colour = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    if (colour == PNG_COLOR_TYPE_PALETTE) {
      kind = PngKind::kPalette;
      png_set_packing(png);
      read_palette();
    } else if (colour == PNG_COLOR_TYPE_GRAY && depth == 16) {
      kind = PngKind::kGrey16;
    } else {
      kind = (colour & PNG_COLOR_MASK_COLOR) != 0 ? PngKind::kRgb : PngKind::kGrey8;
      if (depth < 8) png_set_expand_gray_1_2_4_to_8(png);
      if (depth == 16) png_set_strip_16(png);
      if ((colour & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(png);
    }
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return true;
  }

  /// Indices beyond the palette are black, as in Pillow.
  void read_palette() {
    palette.fill(0);
    png_colorp colours = nullptr;
    int count = 0;
    if (png_get_PLTE(png, info, &colours, &count) == 0) png_error(png, "no palette");
    for (int i = 0; i < count; ++i) {
      const size_t at = static_cast<size_t>(i) * 3;
      palette[at] = colours[i].red;
      palette[at + 1] = colours[i].green;
      palette[at + 2] = colours[i].blue;
    }
  }

  bool read(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_read_image(png, rows);
    png_read_end(png, nullptr);
    return true;
  }

  void to_rgb(const uint8_t* row, int width, uint8_t* rgb) const {
    for (int x = 0; x < width; ++x) {
      const uint8_t* colour = row + x;
      if (kind == PngKind::kPalette) {
        std::memcpy(rgb + x * 3, palette.data() + size_t{*colour} * 3, 3);
        continue;
      }
      if (kind == PngKind::kGrey16) {
        const uint8_t high = row[x * 2], low = row[x * 2 + 1];
        std::memset(rgb + x * 3, high != 0 ? 255 : low, 3);
        continue;
      }
      std::memset(rgb + x * 3, *colour, 3);
    }
  }
};

}  // namespace

void decode_png(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits, Image& out) {
  PngReader reader;
  reader.bytes = bytes;
  if (!reader.open()) throw damaged_image(name, "PNG", reader.message, bytes.size());
  const int64_t width = png_get_image_width(reader.png, reader.info),
                height = png_get_image_height(reader.png, reader.info);
  check_image_size(width, height, name, limits);
  if (!reader.start()) throw damaged_image(name, "PNG", reader.message, bytes.size());
  const size_t row_bytes = png_get_rowbytes(reader.png, reader.info), num_rows = static_cast<size_t>(height);
  allocate_image(static_cast<int>(width), static_cast<int>(height), out);
  const size_t out_row_bytes = static_cast<size_t>(width) * 3;
  std::vector<uint8_t> raw(reader.kind == PngKind::kRgb ? 0 : row_bytes * num_rows);
  LOCKSTEP_CHECK(!raw.empty() || row_bytes == out_row_bytes, "row_bytes={}, width={}", row_bytes, width);
  std::vector<png_bytep> rows(num_rows);
  for (size_t y = 0; y < num_rows; ++y)
    rows[y] = raw.empty() ? out.rgb_YXC.data() + y * out_row_bytes : raw.data() + y * row_bytes;
  if (!reader.read(rows.data())) throw damaged_image(name, "PNG", reader.message, bytes.size());
  if (raw.empty()) return;
  for (size_t y = 0; y < num_rows; ++y) reader.to_rgb(rows[y], out.width, out.rgb_YXC.data() + y * out_row_bytes);
}

}  // namespace lockstep::data
