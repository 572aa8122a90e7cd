#pragma once
#include <map>
#include <string>
#include <vector>

#include "doctor/finding.h"
#include "doctor/question.h"

namespace lockstep::doctor {

/// What a rank says of itself.
struct RankReport {
  int rank = 0, world_size = 1, local_rank = 0, local_world_size = 1, node_rank = -1;
  std::string host{};
  std::string address{};  ///< By which other nodes reach it.
  uint16_t port = 0;      ///< On which it answers other nodes.
  ProgramIdentity program{};
  std::string command{};
  core::Json options{};
  std::map<std::string, int64_t> data_bytes{};  ///< Size of each file of the data; -1: cannot be read.
  std::vector<Finding> findings{};
};

core::Json to_json(const RankReport& report);
/// Throws DataError, or what core::Json throws, for text that no doctor has written.
RankReport rank_report_from_json(const core::Json& json);

/// How one node reached another.
struct PairResult {
  int from_rank = 0, to_rank = 0;
  bool is_open = false;
  std::string target{}, reason{};
  double ms = 0;
  double gbytes_per_s = 0;  ///< Of a transfer over TCP, where one was made.
};

/// The wall clock of a rank beside that of rank 0.
struct ClockOffset {
  double ahead_s = 0;        ///< Positive: ahead of rank 0.
  double uncertainty_s = 0;  ///< Half the way there and back.
};

/// What rank 0 knows when all have come, or the time is over.
struct Meeting {
  std::map<int, RankReport> ranks{};  ///< Those that came, rank 0 among them.
  std::map<int, std::string> lost{};  ///< Ranks that came and then ended or did not answer: why.
  std::map<int, ClockOffset> clocks{};
  std::vector<PairResult> pairs{};
  std::vector<PairResult> rates{};     ///< Transfers from each node to the next.
  std::vector<std::string> refused{};  ///< Connections that were no rank of this job.
  double seconds = 0;                  ///< Until all had come.
};

/// The port on which the ranks of a doctor meet: the job's own, or the next where torchrun's launcher holds that one.
uint16_t meeting_port(const hw::RankInfo& place);

/// Rank 0 gathers what all ranks say, compares clocks, lets a rank of each node connect to each other node, and
/// measures the way from each to the next. Every wait ends by `question.timeout`. EnvironmentError where the port
/// cannot be opened.
Meeting host_meeting(const Question& question, const hw::RankInfo& place, RankReport own);

/// Another rank's part. CommError when rank 0 cannot be reached, or ends before the meeting does.
void attend_meeting(const Question& question, const hw::RankInfo& place, RankReport own);

}  // namespace lockstep::doctor
