#include "plan/pipe_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::plan {
namespace {

using Kind = ScheduleKind;

std::string name_of(const PipeShape& s) {
  return fmt::format("{} stages={} chunks={} micro={} group={}", schedule_name(s.kind), s.num_stages, s.num_chunks,
                     s.num_micro_batches, s.group);
}

bool is_legal(const PipeShape& shape) {
  try {
    check_pipe_shape(shape);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

/// Calls visit with every legal schedule of 1 to 8 stages, 1 to 4 chunks, 1 to 24 micro-batches; returns how many.
size_t visit_all(const std::function<void(const PipeSchedule&)>& visit) {
  size_t count = 0;
  for (int stages = 1; stages <= 8; ++stages)
    for (int64_t micro = 1; micro <= 24; ++micro)
      for (int chunks = 1; chunks <= 4; ++chunks)
        for (const Kind kind : {Kind::kGpipe, Kind::kOneForwardOneBackward, Kind::kInterleaved})
          for (const int64_t group : {int64_t{0}, int64_t{stages + 1}, micro}) {
            if (kind != Kind::kInterleaved && (chunks > 1 || group != 0)) continue;
            const PipeShape shape{kind, stages, chunks, micro, group};
            if (!is_legal(shape)) continue;
            SCOPED_TRACE(name_of(shape));
            visit(make_pipe_schedule(shape));
            if (testing::Test::HasFailure()) return 0;
            ++count;
          }
  return count;
}

std::string text_of(const std::vector<PipePass>& passes, bool has_chunks) {
  std::vector<std::string> words;
  for (const PipePass& pass : passes)
    words.push_back(fmt::format("{}{}{}", pass.is_forward ? "F" : "B", pass.micro,
                                has_chunks ? fmt::format(".{}", pass.chunk) : ""));
  return core::join(words, " ");
}

TEST(PipeSchedule, OrdersArePublished) {
  const PipeSchedule plain = make_pipe_schedule({Kind::kOneForwardOneBackward, 4, 1, 4, 0});
  EXPECT_EQ(text_of(plain.passes_of(0), false), "F0 F1 F2 F3 B0 B1 B2 B3");
  EXPECT_EQ(text_of(plain.passes_of(1), false), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text_of(plain.passes_of(2), false), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text_of(plain.passes_of(3), false), "F0 B0 F1 B1 F2 B2 F3 B3");
  const PipeSchedule chunks = make_pipe_schedule({Kind::kInterleaved, 2, 2, 4, 2});
  EXPECT_EQ(text_of(chunks.passes_of(0), true),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text_of(chunks.passes_of(1), true),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

TEST(PipeSchedule, EachPassOnceAndForwardBeforeBackward) {
  const size_t count = visit_all([](const PipeSchedule& schedule) {
    const PipeShape& shape = schedule.shape;
    for (int stage = 0; stage < shape.num_stages; ++stage) {
      std::set<std::pair<int64_t, int>> forward, backward;
      for (const PipePass& pass : schedule.passes_of(stage)) {
        const auto key = std::pair(pass.micro, pass.chunk);
        ASSERT_TRUE(pass.micro >= 0 && pass.micro < shape.num_micro_batches && pass.chunk >= 0 &&
                    pass.chunk < shape.num_chunks);
        ASSERT_TRUE((pass.is_forward ? forward : backward).insert(key).second) << "twice";
        ASSERT_TRUE(pass.is_forward || forward.contains(key)) << "backward first";
      }
      ASSERT_EQ(forward.size(), static_cast<size_t>(shape.num_micro_batches * shape.num_chunks));
      ASSERT_EQ(backward.size(), forward.size());
    }
  });
  EXPECT_GT(count, 1000u);
}

TEST(PipeSchedule, PeakInFlightIsTheKnownBound) {
  const size_t count = visit_all([](const PipeSchedule& schedule) {
    for (int stage = 0; stage < schedule.shape.num_stages; ++stage) {
      int64_t kept = 0, peak = 0;
      for (const PipePass& pass : schedule.passes_of(stage)) {
        kept += pass.is_forward ? 1 : -1;
        peak = std::max(peak, kept);
      }
      ASSERT_EQ(peak, peak_in_flight(schedule.shape, stage)) << "stage " << stage;
    }
  });
  EXPECT_GT(count, 1000u);
}

TEST(PipeSchedule, BubbleIsTheFormula) {
  const size_t count = visit_all([](const PipeSchedule& schedule) {
    const PipeShape& shape = schedule.shape;
    for (const double backward : {1.0, 2.0}) {
      const double ideal = static_cast<double>(shape.num_micro_batches * shape.num_chunks) * (1.0 + backward);
      ASSERT_NEAR(time_passes(schedule, 1.0, backward).total / ideal - 1, bubble_over_ideal(shape), 1e-12)
          << "backward takes " << backward;
    }
    const std::vector<double> equal(static_cast<size_t>(shape.num_stages * shape.num_chunks), 0.7);
    ASSERT_NEAR(idle_over_work(schedule, equal), bubble_over_ideal(shape), 1e-9);
  });
  EXPECT_GT(count, 1000u);
}

// The last stage, with twice the work of the first, never waits: a step is its work, and one pass of the other before
// and behind it.
TEST(PipeSchedule, AStageWithMoreWorkHoldsUpTheOthers) {
  for (const int64_t m : {1, 2, 5, 16}) {
    const auto schedule = make_pipe_schedule({Kind::kOneForwardOneBackward, 2, 1, m, 0});
    const double micro = static_cast<double>(m);
    EXPECT_NEAR(idle_over_work(schedule, {1, 2}), (1 + 6 * micro + 2) / (4.5 * micro) - 1, 1e-12) << m;
  }
  const auto interleaved = make_pipe_schedule({Kind::kInterleaved, 4, 2, 8, 4});
  EXPECT_GT(idle_over_work(interleaved, {1, 1, 1, 1, 1, 1, 1, 2}), bubble_over_ideal(interleaved.shape) + 0.2)
      << "the fullest stage has 3 of 9 parts, a third more than the mean";
}

TEST(PipeSchedule, TimesAndPeaksOfTheTable) {
  struct Row {
    PipeShape shape;
    double total;
    std::vector<int64_t> peaks;
  };
  const auto k1f1b = Kind::kOneForwardOneBackward, kInter = Kind::kInterleaved;
  for (const Row& row : std::vector<Row>{{{k1f1b, 4, 1, 8, 0}, 33, {4, 3, 2, 1}},
                                         {{Kind::kGpipe, 4, 1, 8, 0}, 33, {8, 8, 8, 8}},
                                         {{k1f1b, 4, 1, 2, 0}, 15, {2, 2, 2, 1}},
                                         {{k1f1b, 8, 1, 16, 0}, 69, {8, 7, 6, 5, 4, 3, 2, 1}},
                                         {{kInter, 4, 2, 8, 4}, 28.5, {11, 9, 7, 5}},
                                         {{kInter, 4, 2, 4, 4}, 16.5, {8, 8, 7, 5}},
                                         {{kInter, 4, 4, 8, 4}, 26.25, {19, 17, 15, 13}},
                                         {{kInter, 8, 12, 16, 8}, 49.75, {103, 101, 99, 97, 95, 93, 91, 89}},
                                         {{kInter, 4, 2, 8, 8}, 28.5, {15, 13, 11, 9}},
                                         {{kInter, 4, 2, 9, 5}, 31.5, {12, 10, 8, 6}}}) {
    SCOPED_TRACE(name_of(row.shape));
    const double chunk = 1.0 / row.shape.num_chunks;  // a stage's forward takes 1, its backward 2
    EXPECT_NEAR(time_passes(make_pipe_schedule(row.shape), chunk, 2 * chunk).total, row.total, 1e-9);
    for (size_t stage = 0; stage < row.peaks.size(); ++stage)
      EXPECT_EQ(peak_in_flight(row.shape, static_cast<int>(stage)), row.peaks[stage]);
  }
}

/// Runs the actions with blocking exchanges: one ends when every message in it has met its other side, in order for
/// each pair of stages. Passes check that their inputs have come. Returns "" or who waits for what.
class Rendezvous {
 public:
  explicit Rendezvous(const PipeSchedule& schedule)
      : schedule_(schedule), at_(schedule.stages.size(), 0), is_posted_(schedule.stages.size(), false) {}

  std::string run() {
    bool has_moved = true;
    while (has_moved) {
      has_moved = false;
      for (size_t stage = 0; stage < at_.size(); ++stage)
        while (advance(stage)) has_moved = true;
      if (!error_.empty()) return error_;
    }
    for (size_t stage = 0; stage < at_.size(); ++stage)
      if (at_[stage] < schedule_.stages[stage].size())
        return fmt::format("stage {} waits at action {}", stage, at_[stage]);
    for (const auto& [pair, queue] : open_)
      if (!queue.empty())
        return fmt::format("a message between {} and {} is left over", std::get<0>(pair), std::get<1>(pair));
    return "";
  }

 private:
  struct Posted {
    bool is_send;
    PipeTransfer transfer;
    size_t stage;
  };

  bool advance(size_t stage) {
    if (at_[stage] >= schedule_.stages[stage].size() || !error_.empty()) return false;
    const PipeAction& action = schedule_.stages[stage][at_[stage]];
    if (!action.is_exchange) {
      run_pass(stage, action.pass);
      ++at_[stage];
      return true;
    }
    if (!is_posted_[stage]) {
      is_posted_[stage] = true;
      num_open_[stage] = static_cast<int>(action.transfers.size());
      for (const PipeTransfer& transfer : action.transfers) post(stage, transfer);
    }
    if (num_open_[stage] > 0) return false;
    is_posted_[stage] = false;
    ++at_[stage];
    return true;
  }

  void post(size_t stage, const PipeTransfer& transfer) {
    const size_t peer = static_cast<size_t>(transfer.peer);
    auto& queue = open_[transfer.is_send ? std::pair(stage, peer) : std::pair(peer, stage)];
    if (queue.empty() || queue.front().is_send == transfer.is_send) {
      queue.push_back({transfer.is_send, transfer, stage});
      return;
    }
    const Posted other = queue.front();
    queue.pop_front();
    const PipeTransfer& sent = transfer.is_send ? transfer : other.transfer;
    const PipeTransfer& received = transfer.is_send ? other.transfer : transfer;
    const size_t sender = transfer.is_send ? stage : other.stage, receiver = transfer.is_send ? other.stage : stage;
    const int step = sent.is_activation ? 1 : -1;
    const int64_t from = sent.chunk * schedule_.shape.num_stages + static_cast<int64_t>(sender);
    const int64_t to = received.chunk * schedule_.shape.num_stages + static_cast<int64_t>(receiver);
    if (sent.is_activation != received.is_activation || sent.micro != received.micro || to != from + step)
      error_ = fmt::format("stage {} gets micro-batch {} where it expects {}", receiver, sent.micro, received.micro);
    if (!made_.contains({from, sent.is_activation, sent.micro}))
      error_ = fmt::format("stage {} sends what it has not computed", sender);
    has_.insert({to, received.is_activation, received.micro});
    --num_open_[stage];
    --num_open_[other.stage];
  }

  void run_pass(size_t stage, const PipePass& pass) {
    const int64_t parts = int64_t{schedule_.shape.num_stages} * schedule_.shape.num_chunks;
    const int64_t part = int64_t{pass.chunk} * schedule_.shape.num_stages + static_cast<int64_t>(stage);
    const bool is_end = pass.is_forward ? part == 0 : part == parts - 1;
    const int64_t source = pass.is_forward ? part - 1 : part + 1;
    const bool is_local = schedule_.shape.num_stages == 1;
    const bool has_input = is_end || (is_local ? made_.contains({source, pass.is_forward, pass.micro})
                                               : has_.contains({part, pass.is_forward, pass.micro}));
    if (!has_input)
      error_ = fmt::format("stage {} runs {} of micro-batch {} without its input", stage,
                           pass.is_forward ? "forward" : "backward", pass.micro);
    made_.insert({part, pass.is_forward, pass.micro});
  }

  using Key = std::tuple<int64_t, bool, int64_t>;
  const PipeSchedule& schedule_;
  std::vector<size_t> at_;
  std::vector<bool> is_posted_;
  std::map<size_t, int> num_open_;
  std::map<std::pair<size_t, size_t>, std::deque<Posted>> open_;
  std::set<Key> made_, has_;
  std::string error_;
};

TEST(PipeSchedule, EndsUnderBlockingExchanges) {
  const size_t count = visit_all([](const PipeSchedule& schedule) { ASSERT_EQ(Rendezvous(schedule).run(), ""); });
  EXPECT_GT(count, 1000u);
}

/// As the runner starts them: the activations of an exchange as one group, behind them its gradients as another.
PipeSchedule in_groups_of_one_direction(PipeSchedule schedule) {
  for (auto& actions : schedule.stages) {
    std::vector<PipeAction> groups;
    for (const PipeAction& action : actions) {
      if (!action.is_exchange) {
        groups.push_back(action);
        continue;
      }
      for (const bool is_activation : {true, false}) {
        PipeAction group{.is_exchange = true};
        for (const PipeTransfer& transfer : action.transfers)
          if (transfer.is_activation == is_activation) group.transfers.push_back(transfer);
        if (!group.transfers.empty()) groups.push_back(std::move(group));
      }
    }
    actions = std::move(groups);
  }
  return schedule;
}

TEST(PipeSchedule, EndsUnderBlockingGroupsOfOneDirection) {
  const size_t count = visit_all([](const PipeSchedule& schedule) {
    const PipeSchedule groups = in_groups_of_one_direction(schedule);
    ASSERT_EQ(Rendezvous(groups).run(), "");
  });
  EXPECT_GT(count, 1000u);
}

TEST(PipeSchedule, TheDeadlockTestSeesDeadlocks) {
  PipeSchedule schedule = make_pipe_schedule({Kind::kOneForwardOneBackward, 2, 1, 4, 0});
  for (auto& actions : schedule.stages) {  // every message in an exchange of its own, receives last
    std::vector<PipeAction> single;
    for (const PipeAction& action : actions) {
      if (!action.is_exchange) {
        single.push_back(action);
        continue;
      }
      for (const bool is_send : {true, false})
        for (const PipeTransfer& transfer : action.transfers)
          if (transfer.is_send == is_send) single.push_back({.is_exchange = true, .transfers = {transfer}});
    }
    actions = single;
  }
  EXPECT_TRUE(core::starts_with(Rendezvous(schedule).run(), "stage 0 waits")) << "both ends send first";
  schedule = make_pipe_schedule({Kind::kOneForwardOneBackward, 2, 1, 2, 0});
  std::swap(schedule.stages[1][0], schedule.stages[1][1]);
  EXPECT_NE(Rendezvous(schedule).run(), "") << "a pass before its input";
}

/// Length of a step whose exchanges run in order on a stream of their own: one begins when the pass before it and the
/// exchange before it have ended on both sides of each of its messages; a pass waits for the exchange that holds its
/// input.
double total_on_streams(const PipeSchedule& schedule, double forward_time, double backward_time) {
  struct Stage {
    size_t at = 0;
    double passes_end = 0, exchanges_end = 0;
    bool is_posted = false;
  };
  using Place = std::tuple<int, bool, int64_t, int>;  // stage, is_activation, micro-batch, chunk of the receiver
  std::vector<Stage> stages(schedule.stages.size());
  std::map<Place, double> arrived, posted_by_receiver, posted_by_sender;
  const auto key_of = [&](int stage, const PipeTransfer& t) {
    if (!t.is_send) return Place{stage, t.is_activation, t.micro, t.chunk};
    const int part = t.chunk * schedule.shape.num_stages + stage + (t.is_activation ? 1 : -1);
    return Place{t.peer, t.is_activation, t.micro, part / schedule.shape.num_stages};
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (int s = 0; s < schedule.shape.num_stages; ++s) {
      Stage& stage = stages[static_cast<size_t>(s)];
      if (stage.at == schedule.stages[static_cast<size_t>(s)].size()) continue;
      const PipeAction& action = schedule.stages[static_cast<size_t>(s)][stage.at];
      if (!action.is_exchange) {
        const auto input = arrived.find({s, action.pass.is_forward, action.pass.micro, action.pass.chunk});
        const double ready = input == arrived.end() ? 0 : input->second;
        stage.passes_end = std::max(ready, stage.passes_end) + (action.pass.is_forward ? forward_time : backward_time);
      } else {
        const double begin = std::max(stage.passes_end, stage.exchanges_end);
        for (const PipeTransfer& t : action.transfers)
          (t.is_send ? posted_by_sender : posted_by_receiver)[key_of(s, t)] = begin;
        double end = begin;
        bool is_met = true;
        for (const PipeTransfer& t : action.transfers) {
          const Place key = key_of(s, t);
          is_met = is_met && posted_by_sender.contains(key) && posted_by_receiver.contains(key);
          if (is_met) end = std::max({end, posted_by_sender[key], posted_by_receiver[key]});
        }
        if (!is_met) continue;
        for (const PipeTransfer& t : action.transfers)
          if (!t.is_send) arrived[key_of(s, t)] = end;
        stage.exchanges_end = end;
      }
      ++stage.at;
      has_moved = true;
    }
  }
  double total = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    EXPECT_EQ(stages[s].at, schedule.stages[s].size());
    total = std::max(total, stages[s].passes_end);
  }
  return total;
}

TEST(PipeSchedule, OrderedExchangesCostLittle) {
  const size_t count = visit_all([](const PipeSchedule& schedule) {
    const PipeShape& shape = schedule.shape;
    const double free_messages =
        static_cast<double>(shape.num_micro_batches * shape.num_chunks) * 3 * (1 + bubble_over_ideal(shape));
    const double bound = shape.kind != Kind::kInterleaved ? 1 : shape.group_size() == shape.num_stages ? 1.045 : 1.07;
    const double ratio = total_on_streams(schedule, 1, 2) / free_messages;
    ASSERT_GE(ratio, 1 - 1e-9);
    ASSERT_LE(ratio, bound + 1e-9)
        << "backward takes twice as long as forward, so the two sides of some messages come at different times";
  });
  EXPECT_GT(count, 1000u);
}

TEST(PipeSchedule, MessagesAreCounted) {
  const PipeSchedule schedule = make_pipe_schedule({Kind::kInterleaved, 4, 3, 8, 0});
  std::map<int, int64_t> sent;
  for (int stage = 0; stage < 4; ++stage)
    for (const PipeAction& action : schedule.stages[static_cast<size_t>(stage)])
      for (const PipeTransfer& transfer : action.transfers) sent[stage] += transfer.is_send;
  // Each stage sends 3 chunks forward and 3 back for 8 micro-batches, but for the two ends of the model.
  EXPECT_EQ(sent, (std::map<int, int64_t>{{0, 40}, {1, 48}, {2, 48}, {3, 40}}));
}

TEST(PipeSchedule, MicroBatchesThatDoNotFitAreRefused) {
  const auto message = [](const PipeShape& shape) -> std::string {
    try {
      check_pipe_shape(shape);
    } catch (const UsageError& error) {
      return error.text();
    }
    return "legal";
  };
  EXPECT_NE(message({Kind::kInterleaved, 4, 2, 6, 4}).find("which is 4 or 8 micro-batches"), std::string::npos)
      << message({Kind::kInterleaved, 4, 2, 6, 4});
  EXPECT_NE(message({Kind::kInterleaved, 4, 2, 3, 0}).find("which is 4 micro-batches"), std::string::npos);
  EXPECT_NE(message({Kind::kInterleaved, 4, 2, 8, 3}).find("--microbatch-group-size-per-virtual-pipeline-stage 4"),
            std::string::npos);
  EXPECT_EQ(message({Kind::kInterleaved, 4, 2, 9, 5}), "legal");
  EXPECT_NE(message({Kind::kOneForwardOneBackward, 8, 1, int64_t{1} << 40, 0}).find("--global-batch-size"),
            std::string::npos);
}

TEST(PipeSchedule, DrawingFitsTheWidth) {
  EXPECT_EQ(draw_schedule(make_pipe_schedule({Kind::kOneForwardOneBackward, 2, 1, 3, 0})),
            "stage: f0 is micro-batch 0 forward, B0 backward\n"
            "   0 |f0 f1 .  B0 f2 B1 .  B2\n"
            "   1 |.  f0 B0 f1 B1 f2 B2 .\n");
  for (const PipeShape& shape :
       {PipeShape{Kind::kInterleaved, 8, 12, 16, 0}, PipeShape{Kind::kOneForwardOneBackward, 16, 1, 192, 0},
        PipeShape{Kind::kOneForwardOneBackward, 40, 1, 4, 0}, PipeShape{Kind::kGpipe, 1, 1, 1, 0}})
    for (const std::string& line : core::split(draw_schedule(make_pipe_schedule(shape)), "\n"))
      EXPECT_LE(line.size(), 80u) << line;
  const std::string large = draw_schedule(make_pipe_schedule({Kind::kInterleaved, 8, 12, 16, 0}));
  EXPECT_NE(large.find("slots later"), std::string::npos);
  EXPECT_NE(large.find("g8  F0  g9  F1"), std::string::npos)
      << large << "in the middle forward and backward take turns; twelve chunks are a to l";
}

}  // namespace
}  // namespace lockstep::plan
