#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plan {

enum class Axis { kPipeline, kData, kTensor };
inline constexpr int kNumAxes = 3;

std::string_view axis_name(Axis axis);  ///< "pp", "dp", "tp"

/// Coordinate of a rank, or size of a mesh, by axis.
struct MeshPoint {
  int pp = 0;
  int dp = 0;
  int tp = 0;
  int at(Axis axis) const { return axis == Axis::kPipeline ? pp : axis == Axis::kData ? dp : tp; }
  friend bool operator==(const MeshPoint&, const MeshPoint&) = default;
};

/// Order of the axes from the slowest varying to the fastest. The default keeps a tensor group on neighbouring ranks
/// (one node) and spreads pipeline stages farthest, as Megatron-LM does; the other is its --use-tp-pp-dp-mapping.
enum class MeshOrder { kPpDpTp, kDpPpTp };

/// Ranks as a grid of (pp, dp, tp).
class MeshLayout {
 public:
  /// `world_size` must be pp x dp x tp; a misfit throws UsageError that names sizes that would fit.
  MeshLayout(int world_size, MeshPoint sizes, MeshOrder order = MeshOrder::kPpDpTp);
  /// dp is what the others leave.
  static MeshLayout with_data_axis_filled(int world_size, int pp, int tp, MeshOrder order = MeshOrder::kPpDpTp);

  int world_size() const { return sizes_.pp * sizes_.dp * sizes_.tp; }
  int size(Axis axis) const { return sizes_.at(axis); }
  MeshOrder order() const { return order_; }

  MeshPoint point_of(int rank) const;

  /// The ranks that differ from `rank` along `axis` only, by their coordinate on it; `rank` is one of them.
  std::vector<int> group_of(int rank, Axis axis) const;

 private:
  int stride(Axis axis) const;

  MeshPoint sizes_;
  MeshOrder order_;
};

}  // namespace lockstep::plan
