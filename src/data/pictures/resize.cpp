#include "data/pictures/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "data/pictures/resize_kernels.h"

namespace lockstep::data {
namespace {

constexpr int kFractionBits = 22;

double bilinear(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

int32_t to_fixed(double weight) {
  const double scaled = weight * (1 << kFractionBits);
  return static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

bool goes_vertical_first(const ResizeSpec& spec) {
  if (spec.order == PassOrder::kHorizontalFirst) return false;
  return int64_t{spec.source.height} - spec.height >
         std::max<int64_t>(0, 2 * (int64_t{spec.source.width} - spec.width));
}

/// Source coordinates that outputs of one axis depend on, as first and number.
std::pair<int, int> source_range(const AxisWeights& weights, int window_first, int window_count) {
  if (weights.is_identity) return {window_first, window_count};
  // Windows move forward only, so the ends tell.
  const int first = weights.begin.front();
  return {first, weights.begin.back() + weights.count.back() - first};
}

}  // namespace

AxisWeights make_axis_weights(int in_size, int out_size, int first, int num_outputs, ResizeFilter filter,
                              const AxisBox& box) {
  LOCKSTEP_CHECK(in_size > 0 && out_size > 0 && first >= 0 && num_outputs > 0 && first + num_outputs <= out_size,
                 "in_size={}, out_size={}, first={}, num_outputs={}", in_size, out_size, first, num_outputs);
  AxisWeights axis;
  axis.is_identity = box.size == 0 && in_size == out_size;
  if (axis.is_identity) return axis;
  const double scale = (box.size > 0 ? box.size : static_cast<double>(in_size)) / out_size,
               reduction = std::max(scale, 1.0);
  const double support = (filter == ResizeFilter::kBilinear ? 1.0 : 2.0) * reduction;
  const auto evaluate = filter == ResizeFilter::kBilinear ? bilinear : bicubic;
  const size_t outputs = static_cast<size_t>(num_outputs);
  axis.num_taps = std::min(in_size, static_cast<int>(std::ceil(support)) * 2 + 1);
  axis.begin.resize(outputs);
  axis.count.resize(outputs);
  axis.weights.assign(outputs * static_cast<size_t>(axis.num_taps), 0);
  std::vector<double> taps(static_cast<size_t>(axis.num_taps));
  for (size_t i = 0; i < outputs; ++i) {
    const double centre = box.begin + (first + static_cast<double>(i) + 0.5) * scale;
    const int begin = std::max(0, static_cast<int>(centre - support + 0.5));
    const int count = std::min(in_size, static_cast<int>(centre + support + 0.5)) - begin;
    LOCKSTEP_CHECK(count > 0 && count <= axis.num_taps, "count={}, num_taps={}", count, axis.num_taps);
    double sum = 0.0;
    for (int t = 0; t < count; ++t) {
      taps[static_cast<size_t>(t)] = evaluate((t + begin - centre + 0.5) * (1.0 / reduction));
      sum += taps[static_cast<size_t>(t)];
    }
    int32_t* out = axis.weights.data() + i * static_cast<size_t>(axis.num_taps);
    for (int t = 0; t < count; ++t)
      out[t] = to_fixed(sum != 0.0 ? taps[static_cast<size_t>(t)] / sum : taps[static_cast<size_t>(t)]);
    axis.begin[i] = begin;
    axis.count[i] = count;
  }
  return axis;
}

Resizer::Resizer(const ResizeSpec& spec) : spec_(spec), is_vertical_first_(goes_vertical_first(spec)) {
  const Region& window = spec.window;
  horizontal_ = make_axis_weights(spec.source.width, spec.width, window.x, window.width, spec.filter, spec.box_x);
  vertical_ = make_axis_weights(spec.source.height, spec.height, window.y, window.height, spec.filter, spec.box_y);
  const auto [x, columns] = source_range(horizontal_, window.x, window.width);
  const auto [y, rows] = source_range(vertical_, window.y, window.height);
  needed_ = {spec.source.x + x, spec.source.y + y, columns, rows};
}

void Resizer::run(const Image& part, const Region& held, uint8_t* out, size_t out_stride_bytes,
                  ResizeScratch& scratch) const {
  LOCKSTEP_CHECK(held.x <= needed_.x && held.y <= needed_.y && held.x + held.width >= needed_.x + needed_.width &&
                     held.y + held.height >= needed_.y + needed_.height && part.width == held.width &&
                     part.height == held.height,
                 "held {}+{} x {}+{}, needed {}+{} x {}+{}", held.x, held.width, held.y, held.height, needed_.x,
                 needed_.width, needed_.y, needed_.height);
  const size_t in_stride = static_cast<size_t>(part.width) * 3;
  const uint8_t* in = part.rgb_YXC.data() + static_cast<size_t>(needed_.y - held.y) * in_stride +
                      static_cast<size_t>(needed_.x - held.x) * 3;
  const int first_column = needed_.x - spec_.source.x, first_row = needed_.y - spec_.source.y;
  const int columns = spec_.window.width, rows = spec_.window.height;
  const size_t out_row_bytes = static_cast<size_t>(columns) * 3;
  if (horizontal_.is_identity && vertical_.is_identity) {
    for (size_t y = 0; y < static_cast<size_t>(rows); ++y)
      std::memcpy(out + y * out_stride_bytes, in + y * in_stride, out_row_bytes);
  } else if (horizontal_.is_identity) {
    resize_rows(in, in_stride, first_row, out_row_bytes, vertical_, out, out_stride_bytes);
  } else if (vertical_.is_identity) {
    resize_columns(in, in_stride, rows, first_column, needed_.width, horizontal_, out, out_stride_bytes, scratch.tile);
  } else if (is_vertical_first_) {
    const size_t stride = static_cast<size_t>(needed_.width) * 3;
    scratch.between.resize(stride * static_cast<size_t>(rows));
    resize_rows(in, in_stride, first_row, stride, vertical_, scratch.between.data(), stride);
    resize_columns(scratch.between.data(), stride, rows, first_column, needed_.width, horizontal_, out,
                   out_stride_bytes, scratch.tile);
  } else {
    scratch.between.resize(out_row_bytes * static_cast<size_t>(needed_.height));
    resize_columns(in, in_stride, needed_.height, first_column, needed_.width, horizontal_, scratch.between.data(),
                   out_row_bytes, scratch.tile);
    resize_rows(scratch.between.data(), out_row_bytes, first_row, out_row_bytes, vertical_, out, out_stride_bytes);
  }
}

}  // namespace lockstep::data
