#include "doctor/nodes.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "core/clock.h"
#include "core/error.h"
#include "core/host_name.h"
#include "core/strings.h"
#include "doctor/checks.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;
using core::Json;

/// "rank 3", "ranks 0-1,4", long lists cut.
std::string ranks_words(const std::vector<int>& ranks) {
  constexpr size_t kMostRuns = 8;
  std::vector<std::string> runs;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    runs.push_back(last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  const bool is_cut = runs.size() > kMostRuns;
  if (is_cut) runs.resize(kMostRuns);
  return (ranks.size() == 1 ? "rank " : "ranks ") + core::join(runs, ",") + (is_cut ? " and more" : "");
}

/// "ranks 2-3 on node2"; hosts are named as long as they are few.
std::string whom(const Meeting& meeting, const std::vector<int>& ranks) {
  constexpr size_t kMostHosts = 3;
  std::set<std::string> hosts;
  for (const int rank : ranks)
    if (const auto found = meeting.ranks.find(rank); found != meeting.ranks.end()) hosts.insert(found->second.host);
  if (hosts.empty() || hosts.size() > kMostHosts) return ranks_words(ranks);
  const std::vector<std::string> names(hosts.begin(), hosts.end());
  return ranks_words(ranks) + " on " + core::join(names, ", ");
}

class Judge {
 public:
  Judge(const Meeting& meeting, int world_size, double timeout_s, const ExpectedRates& expected)
      : meeting_(meeting), first_(meeting.ranks.at(0)), world_size_(world_size), timeout_s_(timeout_s),
        expected_(expected) {}

  std::vector<Finding> run() {
    merge_local();
    judge_presence();
    judge_versions();
    judge_options();
    judge_clocks();
    judge_pairs();
    judge_rates();
    judge_data();
    return std::move(findings_);
  }

 private:
  void add(Severity severity, const char* check, std::string where, std::string evidence, std::string advice) {
    findings_.push_back({severity, check, std::move(where), std::move(evidence), std::move(advice)});
  }

  /// What is fine is told by rank 0 for all; what is not, once for all ranks that say the same.
  void merge_local() {
    using Key = std::tuple<std::string, std::string, std::string>;
    std::map<Key, std::vector<int>> ranks_of;
    for (const auto& [rank, report] : meeting_.ranks)
      for (const Finding& finding : report.findings)
        ranks_of[{finding.check, finding.evidence, finding.advice}].push_back(rank);
    std::set<Key> told;
    for (const auto& [rank, report] : meeting_.ranks)
      for (Finding finding : report.findings) {
        const bool is_wrong = finding.severity >= Severity::kWarning;
        const Key key{finding.check, finding.evidence, finding.advice};
        if ((!is_wrong && rank != 0) || !told.insert(key).second) continue;
        if (is_wrong) finding.where = whom(meeting_, ranks_of.at(key));
        findings_.push_back(std::move(finding));
      }
  }

  void judge_presence() {
    std::set<std::string> hosts;
    std::vector<int> missing;
    for (int rank = 0; rank < world_size_; ++rank)
      if (!meeting_.ranks.contains(rank)) missing.push_back(rank);
    for (const auto& [rank, report] : meeting_.ranks) hosts.insert(report.host);
    for (const std::string& stranger : meeting_.refused)
      add(Severity::kError, "meeting", "", stranger,
          "start all ranks with one world size, each with a rank of its own; is the port another job's, too?");
    if (!missing.empty())
      add(Severity::kError, "meeting", "",
          fmt::format("{} of {} did not come within {:.0f} s", ranks_words(missing), world_size_, timeout_s_),
          "look at their output: were they started, and with this MASTER_ADDR and port? `scontrol show job` lists the "
          "nodes of a job");
    for (const auto& [rank, why] : meeting_.lost)
      add(Severity::kError, "meeting", whom(meeting_, {rank}), fmt::format("came, and was lost: {}", why),
          "look at its output, and at the memory and the kernel's messages of its node");
    if (missing.empty() && meeting_.lost.empty() && meeting_.refused.empty())
      add(Severity::kOk, "meeting", "",
          fmt::format("all {} ranks on {} hosts met within {:.1f} s", world_size_, hosts.size(), meeting_.seconds), "");
  }

  static std::string program_text(const ProgramIdentity& program) {
    return fmt::format("lockstep {} {}", program.version, program.commit);
  }

  void judge_versions() {
    size_t num_others = 0;
    for (const auto& [rank, report] : meeting_.ranks) {
      const bool is_other = program_text(report.program) != program_text(first_.program);
      if (!is_other && report.program.file_hash == first_.program.file_hash) continue;
      ++num_others;
      if (is_other)
        add(Severity::kError, "version", whom(meeting_, {rank}),
            fmt::format("runs {}, rank 0 runs {}", program_text(report.program), program_text(first_.program)),
            "install the same build on every node, best on a shared file system");
      else
        add(Severity::kWarning, "version", whom(meeting_, {rank}),
            fmt::format("runs another build of {}: its files have the hash {}, rank 0's {}",
                        program_text(first_.program), report.program.file_hash.substr(0, 12),
                        first_.program.file_hash.substr(0, 12)),
            "install the same build on every node: builds may round differently");
    }
    if (num_others == 0) add(Severity::kOk, "version", "", "every rank runs " + program_text(first_.program), "");
  }

  /// "--lr is 0.001, on rank 0 0.002"
  static std::string difference(const RankReport& report, const RankReport& first) {
    if (report.command != first.command)
      return fmt::format("looks at `{}`, rank 0 at `{}`", report.command, first.command);
    if (!report.options.is_object() || !first.options.is_object()) return "";
    for (const auto& [name, value] : first.options.items()) {
      const std::string here = core::text_at(report.options, name.c_str()), there = value.get<std::string>();
      if (here != there) return fmt::format("--{} is {}, on rank 0 {}", name, here, there);
    }
    return "";
  }

  void judge_options() {
    if (first_.command.empty() && std::all_of(meeting_.ranks.begin(), meeting_.ranks.end(),
                                              [](const auto& each) { return each.second.command.empty(); }))
      return add(Severity::kNote, "options", "", "no command named",
                 "name it behind --, as in: lockstep doctor --nodes -- train clip ...");
    size_t num_others = 0;
    for (const auto& [rank, report] : meeting_.ranks) {
      const std::string other = difference(report, first_);
      if (other.empty()) continue;
      ++num_others;
      add(Severity::kError, "options", whom(meeting_, {rank}), other, "start every rank with the same command line");
    }
    if (num_others == 0)
      add(Severity::kOk, "options", "", fmt::format("every rank has the same options of `{}`", first_.command), "");
  }

  void judge_clocks() {
    constexpr double kNoticed_s = 1, kHarmful_s = 60;
    double largest = 0, surest = 0;
    std::string worst;
    for (const auto& [rank, clock] : meeting_.clocks) {
      const double apart = std::abs(clock.ahead_s) - clock.uncertainty_s;
      if (std::abs(clock.ahead_s) > largest) largest = std::abs(clock.ahead_s), surest = clock.uncertainty_s;
      if (apart < kNoticed_s) continue;
      add(apart < kHarmful_s ? Severity::kWarning : Severity::kError, "clocks", whom(meeting_, {rank}),
          fmt::format("its clock is {:.1f} s {} rank 0's (to {:.0f} ms)", std::abs(clock.ahead_s),
                      clock.ahead_s > 0 ? "ahead of" : "behind", 1000 * clock.uncertainty_s),
          "run chronyd or ntpd on every node: times in logs do not compare, and S3 refuses requests 15 minutes off");
    }
    if (!meeting_.clocks.empty() && largest - surest < kNoticed_s)
      add(Severity::kOk, "clocks", "",
          fmt::format("wall clocks differ by at most {:.0f} ms", 1000 * (largest + surest)), "");
  }

  void judge_pairs() {
    if (meeting_.pairs.empty()) return;
    double slowest_ms = 0;
    size_t num_failed = 0;
    for (const PairResult& pair : meeting_.pairs) {
      slowest_ms = std::max(slowest_ms, pair.ms);
      if (pair.is_open) continue;
      ++num_failed;
      add(Severity::kError, "pairs", whom(meeting_, {pair.from_rank}),
          fmt::format("does not reach {} at {}: {}", whom(meeting_, {pair.to_rank}), pair.target, pair.reason),
          "open all ports between the nodes: ranks connect to each other on ports that the system chooses; where that "
          "network is the wrong one, name the right interface in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME");
    }
    if (num_failed == 0)
      add(Severity::kOk, "pairs", "",
          fmt::format("all {} pairs of nodes reach each other, in {:.1f} ms at most", meeting_.pairs.size(),
                      slowest_ms),
          "");
  }

  /// The least that a connection must reach: half of the node's rate, but no more than TCP reaches on any network; with
  /// others beside it, a quarter of their median.
  double least_rate(std::vector<double> rates) const {
    constexpr double kShare = 0.5, kMostOfTcp = 1, kShareOfMedian = 0.25;
    const double least = kShare * std::min(expected_.node_gbytes_per_s, kMostOfTcp);
    if (rates.size() < 3) return least;
    std::sort(rates.begin(), rates.end());
    return std::max(least, kShareOfMedian * rates[rates.size() / 2]);
  }

  void judge_rates() {
    if (meeting_.rates.empty()) return;
    std::vector<double> rates;
    for (const PairResult& pair : meeting_.rates)
      if (pair.gbytes_per_s > 0) rates.push_back(pair.gbytes_per_s);
    const double least = least_rate(rates);
    const std::string told =
        expected_.node_gbytes_per_s > 0
            ? fmt::format("; {} says {:.4g} GB/s of a node", expected_.source, expected_.node_gbytes_per_s)
            : "";
    size_t num_slow = 0;
    for (const PairResult& pair : meeting_.rates) {
      if (pair.gbytes_per_s > 0 && pair.gbytes_per_s >= least) continue;
      ++num_slow;
      const std::string way = fmt::format("to {} at {}", whom(meeting_, {pair.to_rank}), pair.target);
      const std::string seen = pair.gbytes_per_s > 0
                                   ? fmt::format("sends {:.3g} GB/s {} (10 MiB over TCP){}: expected {:.3g} or more",
                                                 pair.gbytes_per_s, way, told, least)
                                   : fmt::format("could not measure the way {}: {}", way, pair.reason);
      add(Severity::kWarning, "network-rate", whom(meeting_, {pair.from_rank}), seen,
          "is it the right network? Name the fast interface in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME; look at the "
          "speed of the link (ethtool) and its errors (ip -s link), and at what else uses it");
    }
    if (num_slow > 0) return;
    const auto [slowest, fastest] = std::minmax_element(rates.begin(), rates.end());
    add(Severity::kOk, "network-rate", "",
        fmt::format("each node sends to the next {:.3g} to {:.3g} GB/s (10 MiB over TCP){}", *slowest, *fastest, told),
        "");
  }

  void judge_data() {
    size_t num_compared = 0, num_different = 0;
    for (const auto& [rank, report] : meeting_.ranks)
      for (const auto& [path, bytes] : report.data_bytes) {
        const auto there = first_.data_bytes.find(path);
        if (bytes < 0 || there == first_.data_bytes.end() || there->second < 0) continue;
        ++num_compared;
        if (bytes == there->second) continue;
        if (num_different++ > 0) continue;
        add(Severity::kError, "same-data", whom(meeting_, {rank}),
            fmt::format("'{}' has {} bytes, on rank 0 {}", path, bytes, there->second),
            "copy it again: nodes must read the same data");
      }
    if (num_compared > meeting_.ranks.size() - 1 && num_different == 0)
      add(Severity::kOk, "same-data", "", "the files of data have the same sizes on every rank", "");
  }

  const Meeting& meeting_;
  const RankReport& first_;
  int world_size_;
  double timeout_s_;
  const ExpectedRates& expected_;
  std::vector<Finding> findings_;
};

std::map<std::string, int64_t> sizes_of(const std::vector<std::string>& paths) {
  std::map<std::string, int64_t> sizes;
  for (const std::string& path : paths) {
    std::error_code failure;
    if (fs::is_directory(path, failure)) continue;
    const auto bytes = fs::file_size(path, failure);
    sizes[path] = failure ? -1 : static_cast<int64_t>(bytes);
  }
  return sizes;
}

RankReport report_of(const Question& question, const hw::RankInfo& place) {
  return {.rank = place.rank,
          .world_size = place.world_size,
          .local_rank = place.local_rank,
          .local_world_size = place.local_world_size,
          .node_rank = place.node_rank,
          .host = core::host_name(),
          .program = question.program,
          .command = question.command,
          .options = question.options,
          .data_bytes = sizes_of(question.data),
          .findings = run_checks(question)};
}

}  // namespace

std::vector<Finding> judge(const Meeting& meeting, int world_size, double timeout_s, const ExpectedRates& expected) {
  return Judge(meeting, world_size, timeout_s, expected).run();
}

std::vector<Finding> run_checks_of_all_ranks(Question question) {
  hw::RankInfo place;
  try {
    place = hw::discover_ranks({}, question.env);
  } catch (const Error&) {
    return run_checks(question);  // which says why
  }
  if (place.world_size == 1) {
    auto findings = run_checks(question);
    Report("meeting", findings)
        .note("one rank meets nobody",
              "start one doctor for each rank: lockstep launch ... -- doctor --nodes, or srun "
              "lockstep doctor --nodes");
    return findings;
  }
  question.measures = place.local_rank == 0;
  question.copies = place.rank == 0;
  if (const hw::SystemSpec* system = system_here(question);
      system != nullptr && question.expected.node_gbytes_per_s <= 0)
    question.expected = {.source = fmt::format("table of systems, {}", system->name),
                         .node_gbytes_per_s = system->injection_gbytes_per_s};
  RankReport own = report_of(question, place);
  std::vector<Finding> findings = own.findings;
  try {
    if (place.rank == 0)
      return judge(host_meeting(question, place, std::move(own)), place.world_size,
                   static_cast<double>(question.timeout.count()) / 1000, question.expected);
    attend_meeting(question, place, std::move(own));
    return {};
  } catch (const Error& error) {
    Report("meeting", findings).error(error.what(), error.hint());
    return findings;
  }
}

}  // namespace lockstep::doctor
