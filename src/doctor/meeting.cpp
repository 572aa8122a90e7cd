#include "doctor/meeting.h"

#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "core/strings.h"
#include "doctor/sockets.h"

namespace lockstep::doctor {
namespace {

using core::Clock;
using core::Json;
using std::chrono::milliseconds;

constexpr milliseconds kGreetingTimeout{5000}, kPairTimeout{3000}, kRetryPause{200}, kPingTimeout{5000};
constexpr int kPings = 5;
constexpr size_t kMostFailedPairs = 5;  // of one node: the others would fail alike, and each takes its time
const std::string kGreeting = "lockstep doctor 1";

/// With microseconds, unlike core::unix_seconds.
double wall_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

/// Answers other nodes until it is destroyed.
class Answerer {
 public:
  Answerer() : listener_(listen_on(0)), thread_([this] { run(); }) {}
  ~Answerer() {
    is_over_ = true;
    thread_.join();
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;
  uint16_t port() const { return listener_.port; }

 private:
  void run() {
    constexpr milliseconds kLook{50};
    while (!is_over_ && listener_.socket.valid()) {
      const core::Fd guest = accept_within(listener_.socket, kLook);
      if (!guest.valid()) continue;
      try {
        send_message(guest, kGreeting, kLook);
      } catch (const CommError&) {
        // The other node tells that it was not answered.
      }
    }
  }
  Listener listener_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

PairResult try_pair(int from_rank, int to_rank, const std::string& address, uint16_t port) {
  PairResult result{.from_rank = from_rank, .to_rank = to_rank, .target = fmt::format("{}:{}", address, port)};
  const Connection way = connect_to(address, port, kPairTimeout);
  result.ms = way.connect_ms;
  if (way.reach != Reach::kOpen) {
    result.reason =
        way.reach == Reach::kNoAnswer ? fmt::format("no answer within {} s", kPairTimeout.count() / 1000) : way.reason;
    return result;
  }
  try {
    result.is_open = receive_message(way.socket, kPairTimeout) == kGreeting;
    if (!result.is_open) result.reason = "another program answers there";
  } catch (const CommError& error) {
    result.reason = error.what();
  }
  return result;
}

/// Connects to each target: {"rank", "address", "port"}.
std::vector<PairResult> try_pairs(int own_rank, const Json& targets) {
  std::vector<PairResult> results;
  size_t num_failed = 0;
  for (const Json& target : targets) {
    if (num_failed >= kMostFailedPairs) break;
    results.push_back(try_pair(own_rank, target.at("rank"), target.at("address"), target.at("port")));
    num_failed += results.back().is_open ? 0 : 1;
  }
  return results;
}

Json to_json(const PairResult& pair) {
  return {{"from", pair.from_rank}, {"to", pair.to_rank},    {"is_open", pair.is_open},
          {"target", pair.target},  {"reason", pair.reason}, {"ms", pair.ms}};
}

PairResult pair_from_json(const Json& json) {
  return {.from_rank = json.at("from"),
          .to_rank = json.at("to"),
          .is_open = json.at("is_open"),
          .target = json.at("target"),
          .reason = json.at("reason"),
          .ms = json.at("ms")};
}

/// Ranks of one node have the same text.
std::string node_of(const RankReport& report) {
  return report.node_rank >= 0 ? fmt::format("{}", report.node_rank) : report.host;
}

/// Rank 0's side: one connection to each other rank.
class Host {
 public:
  Host(const Question& question, const hw::RankInfo& place, RankReport own)
      : question_(question), place_(place), listener_(listen_on(meeting_port(place))) {
    if (!listener_.socket.valid())
      throw EnvironmentError(
          fmt::format("doctor: rank 0 cannot listen on port {}: {}", meeting_port(place), listener_.reason),
          "choose another with MASTER_PORT or --master-port");
    own.address = place.master_addr;
    own.port = answerer_.port();
    meeting_.ranks.emplace(0, std::move(own));
  }

  Meeting run() {
    gather();
    compare_clocks();
    connect_pairs();
    for (const auto& [rank, socket] : guests_) tell(rank, {{"done", true}});
    return std::move(meeting_);
  }

 private:
  void gather() {
    const auto begin = Clock::now(), deadline = begin + question_.timeout;
    const auto world = static_cast<size_t>(place_.world_size);
    while (meeting_.ranks.size() < world && Clock::now() < deadline) {
      core::Fd guest = accept_within(listener_.socket, left_until(deadline));
      if (guest.valid()) welcome(std::move(guest));
    }
    meeting_.seconds = core::ms_since(begin) / 1000;
  }

  void welcome(core::Fd guest) {
    try {
      send_message(guest, kGreeting, kGreetingTimeout);
      RankReport report =
          rank_report_from_json(core::parse_json(receive_message(guest, kGreetingTimeout), "a rank's report"));
      const int rank = report.rank;
      if (report.world_size != place_.world_size)
        meeting_.refused.push_back(fmt::format("rank {} on {} was told of {} ranks, rank 0 of {}", rank, report.host,
                                               report.world_size, place_.world_size));
      else if (rank < 1 || rank >= place_.world_size || meeting_.ranks.contains(rank))
        meeting_.refused.push_back(
            fmt::format("two processes say that they are rank {}; one is on {}", rank, report.host));
      else {
        meeting_.ranks.emplace(rank, std::move(report));
        guests_.emplace(rank, std::move(guest));
      }
    } catch (const std::exception&) {
      // A look at the port by a check, or a stranger: it says nothing that is known here.
    }
  }

  void lose(int rank, const std::string& why) { meeting_.lost.emplace(rank, why); }

  void tell(int rank, const Json& message) {
    if (meeting_.lost.contains(rank)) return;
    try {
      send_message(guests_.at(rank), message.dump(), kPingTimeout);
    } catch (const CommError& error) {
      lose(rank, error.what());
    }
  }

  /// What a rank answers under `key`, or null when it is lost.
  Json hear(int rank, const char* key, milliseconds timeout) {
    if (meeting_.lost.contains(rank)) return nullptr;
    try {
      return core::parse_json(receive_message(guests_.at(rank), timeout), "a rank's answer").at(key);
    } catch (const std::exception& error) {
      lose(rank, error.what());
      return nullptr;
    }
  }

  void compare_clocks() {
    for (const auto& [rank, socket] : guests_) {
      ClockOffset best{.uncertainty_s = 1e9};
      for (int ping = 0; ping < kPings; ++ping) {
        const double before = wall_s();
        tell(rank, {{"ping", ping}});
        const Json answer = hear(rank, "wall_s", kPingTimeout);
        const double after = wall_s();
        if (!answer.is_number()) break;
        const double uncertainty = (after - before) / 2;
        if (uncertainty < best.uncertainty_s)
          best = {.ahead_s = answer.get<double>() - (before + after) / 2, .uncertainty_s = uncertainty};
      }
      if (best.uncertainty_s < 1e9) meeting_.clocks.emplace(rank, best);
    }
  }

  /// The first rank of each node that is here.
  std::vector<int> first_ranks() const {
    std::map<std::string, int> first;
    for (const auto& [rank, report] : meeting_.ranks)
      if (!meeting_.lost.contains(rank)) first.emplace(node_of(report), rank);
    std::vector<int> ranks;
    for (const auto& [node, rank] : first) ranks.push_back(rank);
    return ranks;
  }

  void connect_pairs() {
    const std::vector<int> ranks = first_ranks();
    const auto targets_of = [&](int own) {
      Json targets = Json::array();
      for (const int rank : ranks)
        if (const RankReport& report = meeting_.ranks.at(rank); rank != own)
          targets.push_back({{"rank", rank}, {"address", report.address}, {"port", report.port}});
      return targets;
    };
    for (const int rank : ranks)
      if (rank != 0) tell(rank, {{"reach", targets_of(rank)}});
    meeting_.pairs = try_pairs(0, targets_of(0));
    const milliseconds timeout = kPairTimeout * static_cast<int>(2 * kMostFailedPairs) + question_.timeout;
    for (const int rank : ranks) {
      if (rank == 0) continue;
      try {
        for (const Json& pair : hear(rank, "pairs", timeout)) meeting_.pairs.push_back(pair_from_json(pair));
      } catch (const Json::exception& error) {
        lose(rank, error.what());
      }
    }
  }

  const Question& question_;
  const hw::RankInfo& place_;
  Listener listener_;
  Answerer answerer_;
  std::map<int, core::Fd> guests_;
  Meeting meeting_;
};

/// Connects to rank 0, which may come later.
Connection reach_host(const Question& question, const hw::RankInfo& place) {
  const auto deadline = Clock::now() + question.timeout;
  const uint16_t port = meeting_port(place);
  std::string reason;
  while (Clock::now() < deadline) {
    Connection way = connect_to(place.master_addr, port, std::min(kPairTimeout, left_until(deadline)));
    reason = way.reach == Reach::kNoAnswer ? "no answer" : way.reason;
    if (way.reach == Reach::kUnresolvable) break;
    if (way.reach == Reach::kOpen) {
      try {
        if (receive_message(way.socket, kGreetingTimeout) == kGreeting) return way;
        reason = "another program answers there";
      } catch (const CommError& error) {
        reason = error.what();
      }
    }
    std::this_thread::sleep_for(kRetryPause);
  }
  throw CommError(fmt::format("doctor: rank {} cannot reach rank 0 at {}:{} within {} s: {}", place.rank,
                              place.master_addr, port, question.timeout.count() / 1000, reason),
                  "was rank 0 started, on the host that MASTER_ADDR names, and is the port open between the nodes?");
}

/// The address of the interface that Gloo is told to use, or "".
std::string address_of_chosen_interface(const Question& question) {
  const std::string name = core::split(question.env("GLOO_SOCKET_IFNAME").value_or(""), ",")[0];
  return name.empty() ? "" : address_of_interface(name);
}

}  // namespace

core::Json to_json(const RankReport& report) {
  Json findings = Json::array(), data = Json::object();
  for (const Finding& finding : report.findings) findings.push_back(to_json(finding));
  for (const auto& [path, bytes] : report.data_bytes) data[path] = bytes;
  return {{"rank", report.rank},
          {"world_size", report.world_size},
          {"local_rank", report.local_rank},
          {"local_world_size", report.local_world_size},
          {"node_rank", report.node_rank},
          {"host", report.host},
          {"address", report.address},
          {"port", report.port},
          {"version", report.program.version},
          {"commit", report.program.commit},
          {"file_hash", report.program.file_hash},
          {"command", report.command},
          {"options", report.options},
          {"data", std::move(data)},
          {"findings", std::move(findings)}};
}

RankReport rank_report_from_json(const core::Json& json) {
  RankReport report{
      .rank = json.at("rank"),
      .world_size = json.at("world_size"),
      .local_rank = json.at("local_rank"),
      .local_world_size = json.at("local_world_size"),
      .node_rank = json.at("node_rank"),
      .host = json.at("host"),
      .address = json.at("address"),
      .port = json.at("port"),
      .program = {.version = json.at("version"), .commit = json.at("commit"), .file_hash = json.at("file_hash")},
      .command = json.at("command"),
      .options = json.at("options")};
  for (const auto& [path, bytes] : json.at("data").items()) report.data_bytes.emplace(path, bytes.get<int64_t>());
  for (const Json& finding : json.at("findings")) report.findings.push_back(finding_from_json(finding));
  return report;
}

uint16_t meeting_port(const hw::RankInfo& place) {
  const int port = place.master_port;
  if (!place.store_is_hosted_by_launcher) return static_cast<uint16_t>(port);
  return static_cast<uint16_t>(port < 65535 ? port + 1 : port - 1);
}

Meeting host_meeting(const Question& question, const hw::RankInfo& place, RankReport own) {
  return Host(question, place, std::move(own)).run();
}

void attend_meeting(const Question& question, const hw::RankInfo& place, RankReport own) {
  const Answerer answerer;
  const Connection host = reach_host(question, place);
  const std::string chosen = address_of_chosen_interface(question);
  own.address = chosen.empty() ? host.own_address : chosen;
  own.port = answerer.port();
  send_message(host.socket, to_json(own).dump(), kGreetingTimeout);
  // The others may come as late as this rank could, and then each has its clock and its pairs looked at.
  const milliseconds patience = 3 * question.timeout + kPingTimeout * place.world_size;
  while (true) {
    const Json message = core::parse_json(receive_message(host.socket, patience), "rank 0's message");
    if (message.contains("done")) return;
    if (message.contains("ping")) send_message(host.socket, Json{{"wall_s", wall_s()}}.dump(), kPingTimeout);
    if (!message.contains("reach")) continue;
    Json pairs = Json::array();
    for (const PairResult& pair : try_pairs(place.rank, message.at("reach"))) pairs.push_back(to_json(pair));
    send_message(host.socket, Json{{"pairs", std::move(pairs)}}.dump(), kPingTimeout);
  }
}

}  // namespace lockstep::doctor
