#include <gtest/gtest.h>

#include "comm/store_progress.h"
#include "comm/world.h"
#include "core/error.h"
#include "core/rng.h"
#include "hw/signs_of_life.h"

namespace lockstep::comm {
namespace {

RankReport report_at(int64_t beat, int64_t sequence) {
  RankReport report;
  report.beat = beat;
  report.host = "node7";
  report.pid = 40;
  if (sequence > 0)
    report.places.push_back({.axis = "dp", .kind = "all_reduce", .sequence = sequence, .is_finished = true});
  return report;
}

const CallMark kMark{.axis = "dp", .kind = "all_reduce", .sequence = 5, .bytes = 1024};

Blame blame(const RankReport& earlier, const RankReport& later) {
  return name_missing_ranks(kMark, 0, {0, 3}, {report_at(1, 5), earlier}, {report_at(2, 5), later});
}
std::string named(const RankReport& earlier, const RankReport& later) { return blame(earlier, later).text; }

TEST(RankReport, SurvivesItsJson) {
  RankReport report = report_at(7, 5);
  report.state = "failed";
  report.failure = "data: \"quoted\" \n text";
  report.gave_up_in = "barrier on axis 'tp'";
  report.work = "step-00000010.a1";
  const RankReport copy = RankReport::from_json(report.to_json());
  EXPECT_EQ(copy.to_json(), report.to_json());
  EXPECT_EQ(copy.failure, report.failure);
  EXPECT_EQ(copy.work, report.work);
  EXPECT_EQ(copy.places.at(0).sequence, 5);
  report.failure = "not \xff UTF-8";  // an error may quote foreign bytes
  EXPECT_NO_THROW(RankReport::from_json(report.to_json()));
}

TEST(RankReport, DamagedTextIsAnErrorNeverACrash) {
  const std::string good = report_at(7, 5).to_json();
  core::CounterRng rng(core::stream_key({9, 9}));
  int num_refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = good.substr(0, rng.below(3) == 0 ? rng.below(good.size()) : good.size());
    for (uint64_t i = rng.below(4); i > 0 && !text.empty(); --i)
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    try {
      RankReport::from_json(text);
    } catch (const Error&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 1000);
}

TEST(MissingRanks, NamesASilentRankAndItsLastCall) {
  EXPECT_EQ(named(report_at(4, 4), report_at(4, 4)),
            "rank 3 (pid 40 on node7) does not answer any more (its last call on this axis: all_reduce #4, finished)");
}

TEST(MissingRanks, NamesARankThatIsBehind) {
  EXPECT_EQ(named(report_at(4, 4), report_at(5, 4)),
            "rank 3 (pid 40 on node7) did not come (its last call on this axis: all_reduce #4, finished)");
  EXPECT_EQ(named(report_at(4, 0), report_at(5, 0)),
            "rank 3 (pid 40 on node7) did not come (not heard of it since before its first call on this axis)");
}

TEST(MissingRanks, NamesARankThatFailedBeforeThoseThatGaveUp) {
  RankReport failed = report_at(5, 4);
  failed.state = "failed";
  failed.failure = "data: shard 7 is short";
  RankReport gave_up = report_at(5, 5);
  gave_up.gave_up_in = "all_reduce on axis 'dp'";
  const auto found =
      name_missing_ranks(kMark, 0, {0, 1, 3}, {report_at(1, 5), gave_up, failed}, {report_at(2, 5), gave_up, failed});
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.text, "rank 3 (pid 40 on node7) failed: data: shard 7 is short");
  EXPECT_EQ(named(gave_up, gave_up), "rank 3 (pid 40 on node7) gave up in all_reduce on axis 'dp'");
}

/// Who was first of several is not to be seen in their reports; nor has a rank failed that lives, or left in peace.
TEST(MissingRanks, OneThatFailedOrIsSilentWasFirst) {
  EXPECT_EQ(blame(report_at(4, 4), report_at(4, 4)).rank, 3);
  EXPECT_EQ(blame(report_at(4, 4), report_at(5, 4)).rank, std::nullopt);
  RankReport left = report_at(5, 4), failed = left;
  left.state = "left", failed.state = "failed";
  EXPECT_EQ(blame(left, left).rank, std::nullopt);
  EXPECT_EQ(blame(failed, failed).rank, 3);
  const RankReport silent = report_at(4, 4);
  EXPECT_EQ(
      name_missing_ranks(kMark, 0, {0, 1, 3}, {report_at(1, 5), silent, failed}, {report_at(2, 5), silent, failed})
          .rank,
      std::nullopt);
}

TEST(MissingRanks, BlameSurvivesItsJson) {
  for (const auto& rank : {std::optional(3), std::optional<int>()}) {
    const Blame copy = Blame::from_json(Blame{.text = "data: \"quoted\" \n text", .rank = rank}.to_json());
    EXPECT_EQ(copy.text, "data: \"quoted\" \n text");
    EXPECT_EQ(copy.rank, rank);
  }
  for (const char* damaged : {"", "rank 3", "{}", R"({"text": 1, "rank": 3})", R"({"text": "", "rank": "x"})"})
    EXPECT_THROW(Blame::from_json(damaged), Error) << damaged;
}

TEST(MissingRanks, BlamesNobodyWhereAllHaveCome) {
  EXPECT_EQ(named(report_at(4, 5), report_at(5, 5)), "");
  EXPECT_EQ(named(report_at(4, 6), report_at(5, 6)), "");
}

/// `launch` leaves ranks the time by these numbers that they need by their own.
TEST(MissingRanks, ReportsComeAsOftenAsLaunchBelieves) {
  EXPECT_EQ(WorldOptions().report_interval, hw::kReportInterval);
  EXPECT_EQ(StoreProgress::Config().interval, hw::kReportInterval);
}

TEST(MissingRanks, ManyAreCutShort) {
  std::vector<int> ranks;
  std::vector<RankReport> reports;
  for (int rank = 0; rank < 100; ++rank) {
    ranks.push_back(rank);
    reports.push_back(report_at(1, 4));
  }
  const auto text = name_missing_ranks(kMark, 0, ranks, reports, reports).text;
  EXPECT_NE(text.find("rank 8 (pid"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 9 (pid"), std::string::npos) << text;
  EXPECT_NE(text.find("; and 91 more"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::comm
