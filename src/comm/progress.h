#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

/// A call that a group has begun, for messages about ranks that did not come.
struct CallMark {
  std::string axis;
  std::string kind;
  int64_t sequence = 0;  ///< Counts the collectives of the group from 1; transfers between two ranks do not count.
  int64_t bytes = 0;
};

/// Keeps note of what this process communicates, and finds out about the others when something fails.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void begin(const CallMark& mark) = 0;
  virtual void end(const CallMark& mark) = 0;
  /// "rank 3 failed: ..." as soon as any rank of the job is known to have failed, else "". Cheap.
  virtual std::string failure_elsewhere() const = 0;
  /// Which of `global_ranks` are behind `mark`, silent or gone, in words ("" when nothing is known). May take a few
  /// seconds, never for ever. The answer is published as the reason why this rank gives up.
  virtual std::string diagnose(const CallMark& mark, const std::vector<int>& global_ranks) = 0;
};

}  // namespace lockstep::comm
