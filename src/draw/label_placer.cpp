#include "draw/label_placer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

namespace lockstep::draw {

bool Box::meets(const Box& other) const {
  return x < other.right() && other.x < right() && y < other.bottom() && other.y < bottom();
}

bool Box::holds(const Box& other) const {
  return other.x >= x && other.y >= y && other.right() <= right() && other.bottom() <= bottom();
}

namespace {
/// Whether a segment passes through a box (Liang-Barsky clipping).
bool crosses(const Box& box, Point from, Point to) {
  double enter = 0, leave = 1;
  const auto clip = [&](double start, double delta, double low, double high) {
    if (delta == 0) return start > low && start < high;
    const double a = (low - start) / delta, b = (high - start) / delta;
    enter = std::max(enter, std::min(a, b));
    leave = std::min(leave, std::max(a, b));
    return enter < leave;
  };
  return clip(from.x, to.x - from.x, box.x, box.right()) && clip(from.y, to.y - from.y, box.y, box.bottom());
}
}  // namespace

size_t LabelPlacer::num_crossed(const Box& box) const {
  return static_cast<size_t>(std::count_if(segments_.begin(), segments_.end(), [&](const Segment& segment) {
    return crosses(box, segment.from, segment.to);
  }));
}

bool LabelPlacer::is_free(const Box& box) const {
  return frame_.holds(box) &&
         std::none_of(boxes_.begin(), boxes_.end(), [&](const Box& taken) { return taken.meets(box); });
}

std::optional<Box> LabelPlacer::place(Point at, double width, double height) {
  // Above, below, right, left, the corners; then the same farther away.
  static constexpr std::array<Point, 8> kDirections = {
      {{0, -1}, {0, 1}, {1, 0}, {-1, 0}, {1, -1}, {-1, -1}, {1, 1}, {-1, 1}}};
  constexpr std::array<double, 4> kDistances = {7, 12, 18, 25};
  constexpr double kNear = 12;
  std::optional<Box> best;
  size_t fewest = SIZE_MAX;
  for (const double distance : kDistances)
    for (const Point direction : kDirections) {
      const bool is_corner = direction.x != 0 && direction.y != 0;
      const double gap = is_corner ? distance * 0.6 : distance;
      const Box box{at.x - width / 2 + direction.x * (width / 2 + gap),
                    at.y - height / 2 + direction.y * (height / 2 + gap), width, height};
      if (!is_free(box)) continue;
      const size_t crossed = num_crossed(box);
      if (crossed > 0 && distance > kNear) continue;  // far away behind a line nobody knows whose label it is
      if (crossed < fewest) fewest = crossed, best = box;
      if (crossed == 0) break;
    }
  if (best) boxes_.push_back(*best);
  return best;
}

std::vector<double> spread(std::span<const double> centres, std::span<const double> heights, double top, double bottom,
                           double gap) {
  std::vector<size_t> order(centres.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return centres[a] < centres[b]; });
  std::vector<double> placed(centres.begin(), centres.end());
  double total = order.empty() ? 0 : gap * static_cast<double>(order.size() - 1);
  for (const double height : heights) total += height;
  if (total > bottom - top)
    gap -= (total - (bottom - top)) / static_cast<double>(std::max<size_t>(1, order.size() - 1));
  double edge = top;
  for (const size_t index : order) {  // down: nobody above its predecessor
    placed[index] = std::max(placed[index], edge + heights[index] / 2);
    edge = placed[index] + heights[index] / 2 + gap;
  }
  edge = bottom;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {  // and back up: nobody below the end
    placed[*it] = std::min(placed[*it], edge - heights[*it] / 2);
    edge = placed[*it] - heights[*it] / 2 - gap;
  }
  return placed;
}

}  // namespace lockstep::draw
