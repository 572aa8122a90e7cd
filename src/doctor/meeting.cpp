#include "doctor/meeting.h"

#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "core/strings.h"
#include "doctor/answerer.h"
#include "doctor/channel.h"
#include "doctor/sockets.h"

namespace lockstep::doctor {
namespace {

using core::Clock;
using core::Json;
using std::chrono::milliseconds;

constexpr milliseconds kGreetingTimeout{5000}, kPairTimeout{3000}, kRetryPause{200}, kPingTimeout{5000},
    kMeasureTimeout{30'000};
constexpr int kPings = 5;
constexpr size_t kMostFailedPairs = 5;  // of one node: the others would fail alike, and each takes its time
constexpr size_t kMostGuestsAtOnce = 64;

/// With microseconds, unlike core::unix_seconds.
double wall_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

bool is_one_node(const hw::RankInfo& place) { return place.local_world_size == place.world_size; }

/// Where ranks may come from.
Interfaces interfaces_for(const hw::RankInfo& place) {
  return is_one_node(place) ? Interfaces::kLoopback : Interfaces::kAll;
}

std::string host_address(const hw::RankInfo& place) { return is_one_node(place) ? "127.0.0.1" : place.master_addr; }

std::string secret_of(const Question& question) { return question.env("LOCKSTEP_STORE_SECRET").value_or(""); }

/// An open way to another node's Answerer, which has greeted; else an invalid descriptor, and `result` says why.
core::Fd reach_answerer(PairResult& result, const std::string& address, uint16_t port) {
  Connection way = connect_to(address, port, kPairTimeout);
  result.ms = way.connect_ms;
  if (way.reach != Reach::kOpen) {
    result.reason =
        way.reach == Reach::kNoAnswer ? fmt::format("no answer within {} s", kPairTimeout.count() / 1000) : way.reason;
    return {};
  }
  try {
    constexpr size_t kMostBytesOfAGreeting = 100;
    result.is_open = receive_message(way.socket, kPairTimeout, kMostBytesOfAGreeting) == kGreeting;
    if (!result.is_open) result.reason = "another program answers there";
  } catch (const CommError& error) {
    result.reason = error.what();
  }
  return result.is_open ? std::move(way.socket) : core::Fd();
}

PairResult new_result(int from_rank, const Json& target) {
  return {.from_rank = from_rank,
          .to_rank = target.at("rank"),
          .target = fmt::format("{}:{}", target.at("address").get<std::string>(), target.at("port").get<uint16_t>())};
}

PairResult try_pair(int from_rank, const Json& target) {
  PairResult result = new_result(from_rank, target);
  reach_answerer(result, target.at("address"), target.at("port"));
  return result;
}

/// The best of some transfers: what else happens on the nodes makes them slower, never faster.
PairResult measure_pair(int from_rank, const Json& target) {
  constexpr int kTransfers = 3;
  constexpr double kSlow_ms = 1000;
  PairResult result = new_result(from_rank, target);
  for (int transfer = 0; transfer < kTransfers; ++transfer) {
    const auto begin = Clock::now();
    const core::Fd way = reach_answerer(result, target.at("address"), target.at("port"));
    if (!way.valid()) return result;
    try {
      result.gbytes_per_s = std::max(result.gbytes_per_s, measure_stream(way));
    } catch (const CommError& error) {
      result.reason = error.what();
      return result;
    }
    if (core::ms_since(begin) > kSlow_ms) break;
  }
  return result;
}

/// Connects to each target: {"rank", "address", "port"}.
std::vector<PairResult> try_pairs(int own_rank, const Json& targets) {
  std::vector<PairResult> results;
  size_t num_failed = 0;
  for (const Json& target : targets) {
    if (num_failed >= kMostFailedPairs) break;
    results.push_back(try_pair(own_rank, target));
    num_failed += results.back().is_open ? 0 : 1;
  }
  return results;
}

Json to_json(const PairResult& pair) {
  return {{"from", pair.from_rank}, {"to", pair.to_rank}, {"is_open", pair.is_open},          {"target", pair.target},
          {"reason", pair.reason},  {"ms", pair.ms},      {"gbytes_per_s", pair.gbytes_per_s}};
}

/// DataError for what is no integer in [lowest, highest].
int int_at(const Json& json, const char* key, int lowest, int highest) {
  const auto number = core::integer_of(json.at(key));
  if (!number || *number < lowest || *number > highest)
    throw DataError(fmt::format("doctor: '{}'={} is no integer in [{}, {}]", key, json.at(key).dump().substr(0, 60),
                                lowest, highest));
  return static_cast<int>(*number);
}

constexpr int kMostRanks = 10'000'000, kMaxPort = 65535;

PairResult pair_from_json(const Json& json) {
  return {.from_rank = int_at(json, "from", 0, kMostRanks),
          .to_rank = int_at(json, "to", 0, kMostRanks),
          .is_open = json.at("is_open"),
          .target = json.at("target"),
          .reason = json.at("reason"),
          .ms = json.at("ms"),
          .gbytes_per_s = json.at("gbytes_per_s")};
}

/// Ranks of one node have the same text.
std::string node_of(const RankReport& report) {
  return report.node_rank >= 0 ? fmt::format("{}", report.node_rank) : report.host;
}

/// Rank 0's side: one connection to each other rank.
class Host {
 public:
  Host(const Question& question, const hw::RankInfo& place, RankReport own)
      : question_(question), place_(place), listener_(listen_on(meeting_port(place), interfaces_for(place))),
        answerer_(interfaces_for(place)) {
    if (!listener_.socket.valid())
      throw EnvironmentError(
          fmt::format("doctor: rank 0 cannot listen on port {}: {}", meeting_port(place), listener_.reason),
          "choose another with MASTER_PORT or --master-port");
    own.address = host_address(place);
    own.port = answerer_.port();
    meeting_.ranks.emplace(0, std::move(own));
  }

  Meeting run() {
    gather();
    compare_clocks();
    connect_pairs();
    measure_ways();
    for (const auto& [rank, socket] : guests_) tell(rank, {{"done", true}});
    return std::move(meeting_);
  }

 private:
  /// Each guest is heard by a thread of its own: one that says nothing holds up nobody.
  void gather() {
    constexpr milliseconds kLook{50};
    const auto begin = Clock::now(), deadline = begin + question_.timeout;
    const auto world = static_cast<size_t>(place_.world_size);
    std::vector<std::future<std::optional<Guest>>> talks;
    while (meeting_.ranks.size() < world && Clock::now() < deadline) {
      if (talks.size() < kMostGuestsAtOnce)
        if (core::Fd guest = accept_within(listener_.socket, std::min(kLook, left_until(deadline))); guest.valid())
          talks.push_back(std::async(std::launch::async, hear_guest, std::move(guest), secret_of(question_)));
      std::erase_if(talks, [&](auto& talk) {
        const bool has_ended = talk.wait_for(talks.size() < kMostGuestsAtOnce ? milliseconds(0) : milliseconds(1)) ==
                               std::future_status::ready;
        if (has_ended)
          if (auto guest = talk.get()) welcome(std::move(*guest));
        return has_ended;
      });
    }
    meeting_.seconds = core::ms_since(begin) / 1000;
  }

  struct Guest {
    std::unique_ptr<Channel> channel;
    std::optional<RankReport> report{};
    std::string refusal{};
  };

  /// Nothing of a look at the port by a check, or of a stranger: it says nothing that is known here.
  static std::optional<Guest> hear_guest(core::Fd socket, const std::string& secret) {
    try {
      Guest guest{.channel =
                      std::make_unique<Channel>(std::move(socket), Channel::Side::kHost, secret, kGreetingTimeout)};
      try {
        guest.report =
            rank_report_from_json(core::parse_json(guest.channel->receive(kGreetingTimeout), "a rank's report"));
      } catch (const CommError& error) {
        if (error.hint().empty()) return std::nullopt;
        guest.refusal = error.what();
      }
      return guest;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  void welcome(Guest guest) {
    if (!guest.report) return meeting_.refused.push_back(std::move(guest.refusal));
    const int rank = guest.report->rank;
    const std::string& host = guest.report->host;
    if (guest.report->world_size != place_.world_size)
      return meeting_.refused.push_back(fmt::format("rank {} on {} was told of {} ranks, rank 0 of {}", rank, host,
                                                    guest.report->world_size, place_.world_size));
    if (rank < 1 || rank >= place_.world_size || meeting_.ranks.contains(rank))
      return meeting_.refused.push_back(
          fmt::format("two processes say that they are rank {}; one is on {}", rank, host));
    meeting_.ranks.emplace(rank, std::move(*guest.report));
    guests_.emplace(rank, std::move(guest.channel));
  }

  void lose(int rank, const std::string& why) { meeting_.lost.emplace(rank, why); }

  void tell(int rank, const Json& message) {
    if (meeting_.lost.contains(rank)) return;
    try {
      guests_.at(rank)->send(message.dump(), kPingTimeout);
    } catch (const CommError& error) {
      lose(rank, error.what());
    }
  }

  /// What a rank answers under `key`, or null when it is lost.
  Json hear(int rank, const char* key, milliseconds timeout) {
    if (meeting_.lost.contains(rank)) return nullptr;
    try {
      return core::parse_json(guests_.at(rank)->receive(timeout), "a rank's answer").at(key);
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

  Json target_of(int rank) const {
    const RankReport& report = meeting_.ranks.at(rank);
    return {{"rank", rank}, {"address", report.address}, {"port", report.port}};
  }

  void connect_pairs() {
    const std::vector<int> ranks = first_ranks();
    const auto targets_of = [&](int own) {
      Json targets = Json::array();
      for (const int rank : ranks)
        if (rank != own) targets.push_back(target_of(rank));
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
      } catch (const std::exception& error) {
        lose(rank, error.what());
      }
    }
  }

  bool is_open(int from, int to) const {
    return std::any_of(meeting_.pairs.begin(), meeting_.pairs.end(), [&](const PairResult& pair) {
      return pair.from_rank == from && pair.to_rank == to && pair.is_open;
    });
  }

  /// Each node sends to the next, all at once: every link carries one stream each way, however many nodes there are.
  void measure_ways() {
    const std::vector<int> ranks = first_ranks();
    std::vector<int> asked;
    std::optional<Json> own;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const int from = ranks[i], to = ranks[(i + 1) % ranks.size()];
      if (from == to || !is_open(from, to)) continue;
      if (from == 0) own = target_of(to);
      if (from != 0) tell(from, {{"measure", target_of(to)}}), asked.push_back(from);
    }
    if (own) meeting_.rates.push_back(measure_pair(0, *own));
    for (const int rank : asked) {
      try {
        if (const Json measured = hear(rank, "measured", kMeasureTimeout + question_.timeout); !measured.is_null())
          meeting_.rates.push_back(pair_from_json(measured));
      } catch (const std::exception& error) {
        lose(rank, error.what());
      }
    }
  }

  const Question& question_;
  const hw::RankInfo& place_;
  Listener listener_;
  Answerer answerer_;
  std::map<int, std::unique_ptr<Channel>> guests_;
  Meeting meeting_;
};

/// The way to rank 0, and the address of this end.
struct HostChannel {
  Channel channel;
  std::string own_address;
};

/// Connects to rank 0, which may come later.
HostChannel reach_host(const Question& question, const hw::RankInfo& place) {
  const auto deadline = Clock::now() + question.timeout;
  const uint16_t port = meeting_port(place);
  std::string reason;
  while (Clock::now() < deadline) {
    Connection way = connect_to(host_address(place), port, std::min(kPairTimeout, left_until(deadline)));
    reason = way.reach == Reach::kNoAnswer ? "no answer" : way.reason;
    if (way.reach == Reach::kUnresolvable) break;
    if (way.reach == Reach::kOpen) {
      try {
        return {Channel(std::move(way.socket), Channel::Side::kGuest, secret_of(question), kGreetingTimeout),
                way.own_address};
      } catch (const CommError& error) {
        reason = error.what();
      }
    }
    std::this_thread::sleep_for(kRetryPause);
  }
  throw CommError(fmt::format("doctor: rank {} cannot reach rank 0 at {}:{} within {} s: {}", place.rank,
                              host_address(place), port, question.timeout.count() / 1000, reason),
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
      .rank = int_at(json, "rank", 0, kMostRanks),
      .world_size = int_at(json, "world_size", 1, kMostRanks),
      .local_rank = int_at(json, "local_rank", 0, kMostRanks),
      .local_world_size = int_at(json, "local_world_size", 1, kMostRanks),
      .node_rank = int_at(json, "node_rank", -1, kMostRanks),
      .host = json.at("host"),
      .address = json.at("address"),
      .port = static_cast<uint16_t>(int_at(json, "port", 0, kMaxPort)),
      .program = {.version = json.at("version"), .commit = json.at("commit"), .file_hash = json.at("file_hash")},
      .command = json.at("command"),
      .options = json.at("options")};
  for (const auto& [path, bytes] : json.at("data").items()) {
    const auto size = core::integer_of(bytes);
    if (!size) throw DataError(fmt::format("doctor: '{}' has the size {}", path, bytes.dump().substr(0, 60)));
    report.data_bytes.emplace(path, *size);
  }
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
  const Answerer answerer(interfaces_for(place));
  HostChannel host = reach_host(question, place);
  const std::string chosen = address_of_chosen_interface(question);
  own.address = chosen.empty() ? host.own_address : chosen;
  own.port = answerer.port();
  host.channel.send(to_json(own).dump(), kGreetingTimeout);
  // The others may come as late as this rank could, and then each has its clock and its pairs looked at.
  const milliseconds patience = 3 * question.timeout + kPingTimeout * place.world_size;
  while (true) {
    const Json message = core::parse_json(host.channel.receive(patience), "rank 0's message");
    if (message.contains("done")) return;
    if (message.contains("ping")) host.channel.send(Json{{"wall_s", wall_s()}}.dump(), kPingTimeout);
    if (message.contains("measure"))
      host.channel.send(Json{{"measured", to_json(measure_pair(place.rank, message.at("measure")))}}.dump(),
                        kPingTimeout);
    if (!message.contains("reach")) continue;
    Json pairs = Json::array();
    for (const PairResult& pair : try_pairs(place.rank, message.at("reach"))) pairs.push_back(to_json(pair));
    host.channel.send(Json{{"pairs", std::move(pairs)}}.dump(), kPingTimeout);
  }
}

}  // namespace lockstep::doctor
