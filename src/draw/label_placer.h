#pragma once
#include <optional>
#include <span>
#include <vector>

namespace lockstep::draw {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;  ///< Upper left corner; y grows downwards.
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  bool meets(const Box& other) const;
  bool holds(const Box& other) const;
};

/// Finds room for labels beside points: never over another label or a marker, inside the frame, and off the lines where
/// that is possible.
class LabelPlacer {
 public:
  explicit LabelPlacer(Box frame) : frame_(frame) {}

  void add_box(const Box& box) { boxes_.push_back(box); }
  /// Inside the frame and off all boxes.
  bool is_free(const Box& box) const;
  void add_segment(Point from, Point to) { segments_.push_back({from, to}); }
  /// A place for a box of this size beside `at`, which it then occupies; nothing when every candidate is taken.
  std::optional<Box> place(Point at, double width, double height);

 private:
  struct Segment {
    Point from, to;
  };
  size_t num_crossed(const Box& box) const;

  Box frame_;
  std::vector<Box> boxes_{};
  std::vector<Segment> segments_{};
};

/// Shifts boxes of the given heights, wished at `centres`, as little as needed so that they lie between `top` and
/// `bottom` with `gap` between them. Returns the new centres; when they do not fit, they are
/// spread over the whole height.
std::vector<double> spread(std::span<const double> centres, std::span<const double> heights, double top, double bottom,
                           double gap);

}  // namespace lockstep::draw
