#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/pictures/image_types.h"
#include "data/pictures/resize_kernels.h"

namespace lockstep::data {

enum class ResizeFilter {
  kBilinear,  ///< Triangle, support 1 source pixel (times the reduction).
  kBicubic,   ///< Keys' cubic with a = -0.5, support 2.
};

/// Which of the two passes comes first; their results are rounded to bytes in between, so it changes pixels.
enum class PassOrder {
  kPillow13,  ///< Pillow 13.0: vertical first if h - H > max(0, 2 * (w - W)) for w x h -> W x H, else horizontal.
  kHorizontalFirst,  ///< Pillow up to 12.
};

/// A part of an axis between pixels: coordinates from `begin` on; size 0: all of it.
struct AxisBox {
  double begin = 0, size = 0;
};

/// `source` of a picture is resized to width x height, and of that only `window` is computed.
struct ResizeSpec {
  Region source;
  int width = 0, height = 0;
  Region window;
  ResizeFilter filter = ResizeFilter::kBicubic;
  PassOrder order = PassOrder::kPillow13;
  AxisBox box_x = {}, box_y = {};  ///< Of source, what the result shows.
};

/// Weights of output coordinates first .. first + num_outputs - 1 of an axis that goes from in_size, or its part `box`,
/// to out_size.
AxisWeights make_axis_weights(int in_size, int out_size, int first, int num_outputs, ResizeFilter filter,
                              const AxisBox& box = {});

/// Memory kept between calls of one thread.
struct ResizeScratch {
  std::vector<uint8_t> between;  // result of the first pass
  std::vector<uint8_t> tile;     // 16 rows, transposed
};

/// Pillow's 8-bit antialiased resampling, bit for bit: double weights normalised to sum 1 and rounded half away from
/// zero to 22 bits, 32-bit sums, clipped to bytes after each pass, a pass without change of size left out.
class Resizer {
 public:
  explicit Resizer(const ResizeSpec& spec);

  /// The pixels of the whole picture that the window depends on.
  const Region& needed() const { return needed_; }

  /// `part` holds the pixels `held` of the picture, which must cover needed(). Writes window.height rows of
  /// window.width pixels, rows out_stride_bytes apart.
  void run(const Image& part, const Region& held, uint8_t* out, size_t out_stride_bytes, ResizeScratch& scratch) const;

 private:
  ResizeSpec spec_;
  AxisWeights horizontal_, vertical_;
  Region needed_;
  bool is_vertical_first_ = false;
};

}  // namespace lockstep::data
