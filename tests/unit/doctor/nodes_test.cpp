#include "doctor/nodes.h"

#include <poll.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/error.h"
#include "doctor/answerer.h"
#include "doctor/channel.h"
#include "doctor/checks.h"
#include "doctor/print.h"
#include "doctor/sockets.h"

namespace lockstep::doctor {
namespace {

using std::chrono::milliseconds;

std::string text_of(const std::vector<Finding>& findings, Severity severity, const std::string& check) {
  std::string text;
  for (const Finding& finding : findings)
    if (finding.severity == severity && finding.check == check) text += finding.where + ": " + finding.evidence + "\n";
  return text;
}

RankReport report_of(int rank, int world_size) {
  return {.rank = rank,
          .world_size = world_size,
          .local_world_size = 1,
          .node_rank = rank,
          .host = fmt::format("node{}", rank),
          .program = {.version = "0.1.0", .commit = "abc", .file_hash = "11"}};
}

Meeting meeting_of(int world_size) {
  Meeting meeting;
  for (int rank = 0; rank < world_size; ++rank) meeting.ranks.emplace(rank, report_of(rank, world_size));
  return meeting;
}

/// A free port that rank 0 of these tests listens on.
hw::RankInfo place_of(int world_size) {
  return {.world_size = world_size, .master_port = listen_on(0, Interfaces::kAll).port, .source = "flags"};
}

TEST(Judge, NothingIsWrong) {
  Meeting meeting = meeting_of(3);
  meeting.clocks[1] = {.ahead_s = 0.2, .uncertainty_s = 0.001};
  meeting.pairs.push_back({.from_rank = 0, .to_rank = 1, .is_open = true, .target = "node1:1", .ms = 0.5});
  const auto findings = judge(meeting, 3, 30);
  EXPECT_EQ(exit_code_of(findings, true), ExitCode::kOk) << report_text(findings, "");
  EXPECT_EQ(text_of(findings, Severity::kOk, "clocks"), ": wall clocks differ by at most 201 ms\n");
}

TEST(Judge, WhatRanksSayAlikeIsToldOnce) {
  Meeting meeting = meeting_of(5);
  for (const int rank : {1, 2, 4})
    meeting.ranks.at(rank).findings.push_back(
        {Severity::kWarning, "limits", "", "ulimit -n is 256", "ulimit -n 65536"});
  meeting.ranks.at(3).findings.push_back({Severity::kOk, "limits", "", "-n 65536", ""});
  const auto findings = judge(meeting, 5, 30);
  EXPECT_EQ(text_of(findings, Severity::kWarning, "limits"), "ranks 1-2,4 on node1, node2, node4: ulimit -n is 256\n");
  EXPECT_EQ(text_of(findings, Severity::kOk, "limits"), "") << "what is fine is told by rank 0";
  EXPECT_EQ(exit_code_of(findings, false), ExitCode::kOk);
  EXPECT_EQ(exit_code_of(findings, true), ExitCode::kEnvironment);
}

TEST(Judge, DifferencesNameTheRankAndBothValues) {
  Meeting meeting = meeting_of(4);
  meeting.ranks.at(1).program.commit = "def";
  meeting.ranks.at(2).command = "train clip";
  meeting.clocks[3] = {.ahead_s = -75, .uncertainty_s = 0.01};
  meeting.pairs.push_back({.from_rank = 2, .to_rank = 3, .target = "10.0.0.3:4000", .reason = "no answer within 3 s"});
  const auto findings = judge(meeting, 4, 30);
  EXPECT_EQ(text_of(findings, Severity::kError, "version"),
            "rank 1 on node1: runs lockstep 0.1.0 def, rank 0 runs lockstep 0.1.0 abc\n");
  EXPECT_EQ(text_of(findings, Severity::kError, "options"), "rank 2 on node2: looks at `train clip`, rank 0 at ``\n");
  EXPECT_EQ(text_of(findings, Severity::kError, "clocks"),
            "rank 3 on node3: its clock is 75.0 s behind rank 0's (to 10 ms)\n");
  EXPECT_EQ(text_of(findings, Severity::kError, "pairs"),
            "rank 2 on node2: does not reach rank 3 on node3 at 10.0.0.3:4000: no answer within 3 s\n");
  EXPECT_EQ(exit_code_of(findings, false), ExitCode::kEnvironment);
}

TEST(Judge, SlowWaysAreComparedWithTheSystemAndWithEachOther) {
  Meeting meeting = meeting_of(4);
  const auto judged = [&](std::vector<double> rates, const ExpectedRates& expected) {
    meeting.rates.clear();
    for (int rank = 0; rank < static_cast<int>(rates.size()); ++rank)
      meeting.rates.push_back({.from_rank = rank,
                               .to_rank = (rank + 1) % static_cast<int>(rates.size()),
                               .is_open = true,
                               .target = "10.0.0.1:1",
                               .gbytes_per_s = rates[static_cast<size_t>(rank)]});
    return judge(meeting, 4, 30, expected);
  };
  const ExpectedRates ethernet{.source = "site.toml", .node_gbytes_per_s = 1.25};
  const auto fine = judged({1.1, 1.0}, ethernet);
  EXPECT_EQ(text_of(fine, Severity::kOk, "network-rate"),
            ": each node sends to the next 1 to 1.1 GB/s (10 MiB over TCP); site.toml says 1.25 GB/s of a node\n");
  EXPECT_EQ(exit_code_of(fine, true), ExitCode::kOk);
  const auto slow = judged({1.1, 0.117}, ethernet);
  EXPECT_EQ(text_of(slow, Severity::kWarning, "network-rate"),
            "rank 1 on node1: sends 0.117 GB/s to rank 0 on node0 at 10.0.0.1:1 (10 MiB over TCP); site.toml says 1.25 "
            "GB/s of a node: expected 0.5 or more\n");
  EXPECT_EQ(text_of(slow, Severity::kOk, "network-rate"), "");
  EXPECT_EQ(exit_code_of(slow, true), ExitCode::kCommunication);
  const ExpectedRates infiniband{.source = "site.toml", .node_gbytes_per_s = 100};
  EXPECT_EQ(exit_code_of(judged({0.6, 0.7}, infiniband), true), ExitCode::kOk) << "TCP does not reach 100 GB/s";
  EXPECT_EQ(exit_code_of(judged({0.01, 0.011}, {}), true), ExitCode::kOk) << "nothing to compare with";
  EXPECT_NE(
      text_of(judged({1.1, 1.2, 0.2, 1.1}, {}), Severity::kWarning, "network-rate").find("rank 2 on node2: sends"),
      std::string::npos);
  EXPECT_NE(
      text_of(judged({1.1, 0}, {}), Severity::kWarning, "network-rate").find("rank 1 on node1: could not measure"),
      std::string::npos);
}

/// Comes as rank 1 and says `then` after its greeting.
void come(const hw::RankInfo& place, const RankReport& report, const std::function<void(Channel&)>& then,
          const std::string& secret = "") {
  Connection way;
  for (int round = 0; round < 200 && way.reach != Reach::kOpen; ++round) {
    way = connect_to("127.0.0.1", static_cast<uint16_t>(place.master_port), milliseconds(1000));
    if (way.reach != Reach::kOpen) std::this_thread::sleep_for(milliseconds(20));
  }
  ASSERT_EQ(way.reach, Reach::kOpen);
  Channel channel(std::move(way.socket), Channel::Side::kGuest, secret, milliseconds(5000));
  channel.send(to_json(report).dump(), milliseconds(5000));
  then(channel);
}

TEST(Meeting, ARankThatDiesWhileItIsAskedIsNamed) {
  const hw::RankInfo place = place_of(2);
  const Question question{.timeout = milliseconds(5000)};
  std::thread guest([&] { come(place, report_of(1, 2), [](Channel&) {}); });
  const Meeting meeting = host_meeting(question, place, report_of(0, 2));
  guest.join();
  const auto findings = judge(meeting, 2, 5);
  EXPECT_NE(
      text_of(findings, Severity::kError, "meeting").find("rank 1 on node1: came, and was lost: doctor: the other"),
      std::string::npos)
      << report_text(findings, "");
}

TEST(Meeting, AnotherWorldSizeAndATakenRankAreRefused) {
  const hw::RankInfo place = place_of(3);
  const Question question{.timeout = milliseconds(3000)};
  std::thread guests([&] {
    come(place, report_of(1, 2), [](Channel&) {});
    come(place, report_of(0, 3), [](Channel&) {});
  });
  const Meeting meeting = host_meeting(question, place, report_of(0, 3));
  guests.join();
  const auto findings = judge(meeting, 3, 3);
  const std::string errors = text_of(findings, Severity::kError, "meeting");
  EXPECT_NE(errors.find("rank 1 on node1 was told of 2 ranks, rank 0 of 3"), std::string::npos) << errors;
  EXPECT_NE(errors.find("two processes say that they are rank 0; one is on node0"), std::string::npos) << errors;
  EXPECT_NE(errors.find("ranks 1-2 of 3 did not come within 3 s"), std::string::npos) << errors;
}

TEST(Meeting, ANodeThatCannotBeReachedByOthersIsNamed) {
  const hw::RankInfo place = place_of(2);
  const Question question{.timeout = milliseconds(5000)};
  std::thread guest([&] {
    RankReport report = report_of(1, 2);
    report.address = "127.0.0.1", report.port = listen_on(0, Interfaces::kAll).port;  // closed again
    come(place, report, [](Channel& channel) {
      while (true) {
        const auto message = core::parse_json(channel.receive(milliseconds(10000)), "host");
        if (message.contains("done")) return;
        core::Json answer{{"wall_s", 1e9}, {"pairs", core::Json::array()}};
        channel.send(answer.dump(), milliseconds(5000));
      }
    });
  });
  const Meeting meeting = host_meeting(question, place, report_of(0, 2));
  guest.join();
  const auto findings = judge(meeting, 2, 5);
  const std::string pairs = text_of(findings, Severity::kError, "pairs");
  EXPECT_NE(pairs.find("rank 0 on node0: does not reach rank 1 on node1 at 127.0.0.1:"), std::string::npos) << pairs;
  EXPECT_NE(pairs.find("Connection refused"), std::string::npos) << pairs;
  EXPECT_NE(text_of(findings, Severity::kError, "clocks").find("behind rank 0's"), std::string::npos);
}

/// A way to a port of this machine on which 2 MB pass in a second, and answers at once.
class ThrottledWay {
 public:
  explicit ThrottledWay(uint16_t to)
      : listener_(listen_on(0, Interfaces::kLoopback)), to_(to), thread_([this] { run(); }) {}
  ~ThrottledWay() {
    is_over_ = true;
    thread_.join();
  }
  ThrottledWay(const ThrottledWay&) = delete;
  ThrottledWay& operator=(const ThrottledWay&) = delete;
  uint16_t port() const { return listener_.port; }

 private:
  void run() {
    while (!is_over_) {
      const core::Fd client = accept_within(listener_.socket, milliseconds(20));
      if (client.valid()) pass(client, connect_to("127.0.0.1", to_, milliseconds(1000)).socket);
    }
  }
  void pass(const core::Fd& client, const core::Fd& server) const {
    std::vector<char> piece(32 << 10);
    for (bool is_sending = true; !is_over_;) {
      pollfd ends[2] = {{server.get(), POLLIN, 0}, {is_sending ? client.get() : -1, POLLIN, 0}};
      if (::poll(ends, 2, 20) <= 0) continue;
      if (ends[0].revents != 0) {
        const ssize_t got = ::recv(server.get(), piece.data(), piece.size(), 0);
        if (got <= 0) return;
        ::send(client.get(), piece.data(), static_cast<size_t>(got), MSG_NOSIGNAL);
      }
      if (ends[1].revents == 0) continue;
      const ssize_t got = ::recv(client.get(), piece.data(), piece.size(), 0);
      is_sending = got > 0;
      if (!is_sending) ::shutdown(server.get(), SHUT_WR);
      if (is_sending) ::send(server.get(), piece.data(), static_cast<size_t>(got), MSG_NOSIGNAL);
      std::this_thread::sleep_for(milliseconds(got / 2000));
    }
  }
  Listener listener_;
  uint16_t to_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

/// What rank 0 measures of the way to rank 1, which answers on `port`.
Meeting meeting_over(uint16_t port, const Question& question) {
  const hw::RankInfo place = place_of(2);
  std::thread guest([&] {
    RankReport report = report_of(1, 2);
    report.address = "127.0.0.1", report.port = port;
    come(place, report, [](Channel& channel) {
      while (!core::parse_json(channel.receive(milliseconds(30000)), "host").contains("done"))
        channel.send(core::Json{{"wall_s", 1e9}, {"pairs", core::Json::array()}}.dump(), milliseconds(5000));
    });
  });
  Meeting meeting = host_meeting(question, place, report_of(0, 2));
  guest.join();
  return meeting;
}

TEST(Meeting, ASlowWayBetweenNodesIsFound) {
  Question question{.timeout = milliseconds(5000)};
  question.expected = {.source = "site.toml", .node_gbytes_per_s = 10};
  const Answerer rank_one(Interfaces::kLoopback);
  const ThrottledWay way(rank_one.port());
  const Meeting slow = meeting_over(way.port(), question), direct = meeting_over(rank_one.port(), question);
  ASSERT_EQ(slow.rates.size(), 1u);
  EXPECT_LT(slow.rates[0].gbytes_per_s, 0.004) << "2 MB a second";
  const std::string found = text_of(judge(slow, 2, 5, question.expected), Severity::kWarning, "network-rate");
  EXPECT_NE(found.find("rank 0 on node0: sends 0.00"), std::string::npos) << found;
  EXPECT_NE(found.find("to rank 1 on node1 at 127.0.0.1:"), std::string::npos) << found;
  EXPECT_NE(found.find("site.toml says 10 GB/s of a node: expected 0.5 or more"), std::string::npos) << found;
  ASSERT_EQ(direct.rates.size(), 1u);
  EXPECT_GT(direct.rates[0].gbytes_per_s, 4 * slow.rates[0].gbytes_per_s);
  EXPECT_TRUE(direct.lost.empty() && slow.lost.empty());
}

TEST(Meeting, ANodeThatGreetsAndTakesNothingIsNamed) {
  const Listener listener = listen_on(0, Interfaces::kLoopback);
  std::atomic<bool> is_over = false;
  std::thread deaf([&] {
    while (!is_over)
      if (const core::Fd guest = accept_within(listener.socket, milliseconds(20)); guest.valid())
        send_message(guest, kGreeting, milliseconds(1000));  // and closes
  });
  const Meeting meeting = meeting_over(listener.port, {.timeout = milliseconds(5000)});
  is_over = true;
  deaf.join();
  const std::string found = text_of(judge(meeting, 2, 5), Severity::kWarning, "network-rate");
  EXPECT_NE(found.find("rank 0 on node0: could not measure the way to rank 1 on node1"), std::string::npos) << found;
}

Question question_with(const std::string& secret, milliseconds timeout) {
  Question question{.timeout = timeout};
  question.env = [secret](const std::string& name) {
    return name == "LOCKSTEP_STORE_SECRET" ? std::optional<std::string>(secret) : std::nullopt;
  };
  return question;
}

TEST(Meeting, GuestsThatSayNothingHoldUpNobodyAndTheSecretDecidesWhoIsARank) {
  const hw::RankInfo place = place_of(2);
  const Question question = question_with("swordfish", milliseconds(20000));
  std::vector<Connection> silent(5);
  std::thread guests([&] {
    for (Connection& way : silent)
      for (int round = 0; round < 200 && way.reach != Reach::kOpen; ++round) {
        way = connect_to("127.0.0.1", static_cast<uint16_t>(place.master_port), milliseconds(1000));
        if (way.reach != Reach::kOpen) std::this_thread::sleep_for(milliseconds(20));
      }
    for (const char* wrong : {"", "sword"})
      come(
          place, report_of(1, 2), [](Channel&) {}, wrong);
    come(
        place, report_of(1, 2), [](Channel&) {}, "swordfish");
  });
  const Meeting meeting = host_meeting(question, place, report_of(0, 2));
  guests.join();
  EXPECT_TRUE(meeting.ranks.contains(1));
  EXPECT_LT(meeting.seconds, 4.5) << "each of the silent ones may take 5 s to say something";
  for (const std::string& refusal : meeting.refused)
    EXPECT_NE(refusal.find("does not know the job's secret"), std::string::npos) << refusal;
}

TEST(Meeting, RanksWithTheSecretMeetOnTheLoopbackAddressOfOneNode) {
  hw::RankInfo place = place_of(2);
  place.local_world_size = 2;
  place.master_addr = "no-such-host.invalid";  // never asked for
  const Question question = question_with("swordfish", milliseconds(10000));
  std::thread guest([&] {
    hw::RankInfo other = place;
    other.rank = other.local_rank = 1;
    RankReport report = report_of(1, 2);
    report.node_rank = 0;
    attend_meeting(question, other, report);
  });
  bool is_open_elsewhere = false;
  std::thread stranger([&] {
    for (int round = 0; round < 20; ++round) {
      const auto way = connect_to("127.0.0.2", static_cast<uint16_t>(place.master_port), milliseconds(100));
      is_open_elsewhere = is_open_elsewhere || way.reach == Reach::kOpen;
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  const Meeting meeting = host_meeting(question, place, report_of(0, 2));
  guest.join();
  stranger.join();
  EXPECT_TRUE(meeting.ranks.contains(1));
  EXPECT_TRUE(meeting.clocks.contains(1));
  EXPECT_TRUE(meeting.lost.empty() && meeting.refused.empty());
  EXPECT_FALSE(is_open_elsewhere);
}

TEST(Channel, AMessageWithAnotherCodeIsRefused) {
  const Listener listener = listen_on(0, Interfaces::kLoopback);
  Connection way = connect_to("127.0.0.1", listener.port, milliseconds(1000));
  core::Fd host = accept_within(listener.socket, milliseconds(1000));
  const core::Fd tap(::dup(way.socket.get()));
  constexpr milliseconds kLimit{5000};
  std::thread guest([&] {
    Channel channel(std::move(way.socket), Channel::Side::kGuest, "swordfish", kLimit);
    channel.send("one", kLimit);
    send_message(tap, "one" + std::string(32, 'x'), kLimit);
  });
  Channel channel(std::move(host), Channel::Side::kHost, "swordfish", kLimit);
  EXPECT_EQ(channel.receive(kLimit), "one");
  EXPECT_THROW(channel.receive(kLimit), CommError);
  guest.join();
}

TEST(Messages, NumbersOfAReportThatAreNoneAreRefused) {
  const core::Json good = to_json(report_of(1, 2));
  EXPECT_EQ(rank_report_from_json(good).rank, 1);
  for (const char* key : {"rank", "world_size", "local_rank", "local_world_size", "node_rank", "port"})
    for (const core::Json& value : {core::Json(1e300), core::Json(int64_t{1} << 40), core::Json(-2), core::Json("1")}) {
      core::Json json = good;
      json[key] = value;
      EXPECT_THROW(rank_report_from_json(json), DataError) << key << " " << value;
    }
}

TEST(Messages, StrangersAreRefused) {
  const Listener listener = listen_on(0, Interfaces::kAll);
  const Connection way = connect_to("127.0.0.1", listener.port, milliseconds(1000));
  const core::Fd guest = accept_within(listener.socket, milliseconds(1000));
  ASSERT_TRUE(guest.valid());
  ASSERT_EQ(::write(way.socket.get(), "GET / HTTP/1.1\r\n\r\n", 18), 18);
  EXPECT_THROW(receive_message(guest, milliseconds(1000)), CommError);
  EXPECT_THROW(receive_message(way.socket, milliseconds(50)), CommError) << "nothing was sent: it must not wait longer";
}

TEST(Report, LinesHaveAtMostEightyColumns) {
  std::vector<Finding> findings{{Severity::kError, "data", "ranks 0-3", std::string(300, 'x') + " is not there",
                                 "stage it " + std::string(90, 'y')}};
  for (const CheckInfo& check : checks()) findings.push_back({Severity::kOk, check.name, "", std::string(90, 'x'), ""});
  const std::string text = report_text(findings, "lockstep doctor");
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin))
    EXPECT_LE(end - begin, 80u) << text.substr(begin, end - begin);
  EXPECT_NE(text.find(fmt::format("1 error, 0 warnings, {} fine", checks().size())), std::string::npos) << text;
  EXPECT_EQ(finding_from_json(to_json(findings[0])), findings[0]);
}

}  // namespace
}  // namespace lockstep::doctor
