#include "comm/join_notice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/log.h"

namespace lockstep::comm {
namespace {

using core::Clock;

constexpr size_t kMostRunsNamed = 8;

/// First and last rank of each run of neighbours.
std::vector<std::pair<int, int>> neighbours(const std::vector<int>& ranks) {
  std::vector<std::pair<int, int>> runs;
  for (const int rank : ranks) {
    if (!runs.empty() && runs.back().second + 1 == rank)
      runs.back().second = rank;
    else
      runs.emplace_back(rank, rank);
  }
  return runs;
}

std::string joined(const std::vector<std::pair<int, int>>& runs) {
  std::string text;
  for (size_t i = 0; i < std::min(runs.size(), kMostRunsNamed); ++i)
    text +=
        (i > 0 ? "," : "") + (runs[i].first == runs[i].second ? fmt::format("{}", runs[i].first)
                                                              : fmt::format("{}-{}", runs[i].first, runs[i].second));
  return text;
}

/// The nodes that lack all their ranks, where every missing rank is of such a node; else none.
std::vector<int> whole_nodes(const std::vector<int>& ranks, int ranks_per_node) {
  std::vector<int> nodes;
  if (ranks_per_node < 1 || ranks.size() % static_cast<size_t>(ranks_per_node) != 0) return {};
  const auto step = static_cast<size_t>(ranks_per_node);
  for (size_t i = 0; i < ranks.size(); i += step) {
    if (ranks[i] % ranks_per_node != 0 || ranks[i + step - 1] != ranks[i] + ranks_per_node - 1) return {};
    nodes.push_back(ranks[i] / ranks_per_node);
  }
  return nodes;
}

}  // namespace

std::chrono::milliseconds NoticeClock::left() const {
  return std::max(std::chrono::milliseconds(1), std::chrono::ceil<std::chrono::milliseconds>(next_ - Clock::now()));
}

NoticeThread::NoticeThread(const NoticeTimes& times, std::string text)
    : thread_([this, times, text = std::move(text)] {
        std::unique_lock lock(mutex_);
        NoticeClock clock(times);
        while (!is_over_.wait_for(lock, clock.left(), [&] { return is_ending_; })) {
          if (!clock.is_due()) continue;
          core::log_warning("{}", text);
          clock.told();
        }
      }) {}

NoticeThread::~NoticeThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  is_over_.notify_one();
  thread_.join();
}

std::string ranks_text(const std::vector<int>& ranks, int ranks_per_node) {
  const auto runs = neighbours(ranks);
  std::string text = (ranks.size() == 1 ? "rank " : "ranks ") + joined(runs);
  size_t num_named = 0;
  for (size_t i = 0; i < std::min(runs.size(), kMostRunsNamed); ++i)
    num_named += static_cast<size_t>(runs[i].second - runs[i].first + 1);
  if (num_named < ranks.size()) text += fmt::format(" and {} more", ranks.size() - num_named);
  const std::vector<int> nodes = whole_nodes(ranks, ranks_per_node);
  if (nodes.empty()) return text;
  const auto node_runs = neighbours(nodes);
  if (node_runs.size() > kMostRunsNamed) return text;
  return text + (nodes.size() == 1 ? " (node " : " (nodes ") + joined(node_runs) + ")";
}

}  // namespace lockstep::comm
