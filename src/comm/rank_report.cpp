// What ranks tell each other of themselves, and what follows from it when one is missing.
#include <fmt/ranges.h>

#include <map>

#include "comm/store_progress.h"
#include "core/error.h"
#include "core/json.h"

namespace lockstep::comm {

std::string RankReport::to_json() const {
  core::Json json = {{"beat", beat},   {"host", host},       {"pid", pid},
                     {"state", state}, {"failure", failure}, {"gave_up_in", gave_up_in},
                     {"work", work}};
  json["places"] = core::Json::array();
  for (const Place& place : places)
    json["places"].push_back(
        {{"axis", place.axis}, {"kind", place.kind}, {"seq", place.sequence}, {"finished", place.is_finished}});
  return json.dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

std::string RankReport::describe_failure(int rank) const {
  const std::string name = fmt::format("rank {} (pid {} on {})", rank, pid, host);
  const std::string how = gave_up_in.empty() ? "failed" : fmt::format("gave up in {}", gave_up_in);
  return failure.empty() ? fmt::format("{} {}", name, how) : fmt::format("{} {}: {}", name, how, failure);
}

RankReport RankReport::from_json(const std::string& text) {
  const core::Json json = core::parse_json(text, "report of a rank");
  try {
    RankReport report;
    report.beat = json.at("beat").get<int64_t>();
    report.host = json.at("host").get<std::string>();
    report.pid = json.at("pid").get<int64_t>();
    report.state = json.at("state").get<std::string>();
    report.failure = json.at("failure").get<std::string>();
    report.gave_up_in = json.at("gave_up_in").get<std::string>();
    report.work = json.at("work").get<std::string>();
    for (const auto& place : json.at("places"))
      report.places.push_back({.axis = place.at("axis").get<std::string>(),
                               .kind = place.at("kind").get<std::string>(),
                               .sequence = place.at("seq").get<int64_t>(),
                               .is_finished = place.at("finished").get<bool>()});
    return report;
  } catch (const core::Json::exception& error) {
    throw CommError(fmt::format("comm: the store holds a report of a rank that makes no sense: {}", error.what()));
  }
}

namespace {

constexpr size_t kMaxNamed = 8;  // of one kind, so that the message of a big job stays readable

const RankReport::Place* place_on(const RankReport& report, const std::string& axis) {
  for (const auto& place : report.places)
    if (place.axis == axis) return &place;
  return nullptr;
}

std::string last_call(const RankReport& report, const std::string& axis) {
  const auto* place = place_on(report, axis);
  if (place == nullptr) return "not heard of it since before its first call on this axis";
  return fmt::format("its last call on this axis: {} #{}, {}", place->kind, place->sequence,
                     place->is_finished ? "finished" : "pending");
}

std::string name_of(int rank, const RankReport& report) {
  return fmt::format("rank {} (pid {} on {})", rank, report.pid, report.host);
}

std::string join_some(const std::vector<std::string>& parts) {
  const size_t shown = std::min(parts.size(), kMaxNamed);
  std::string text =
      fmt::format("{}", fmt::join(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(shown), "; "));
  if (parts.size() > shown) text += fmt::format("; and {} more", parts.size() - shown);
  return text;
}

}  // namespace

std::string Blame::to_json() const {
  return core::Json{{"text", text}, {"rank", rank ? core::Json(*rank) : core::Json(nullptr)}}.dump(
      -1, ' ', false, core::Json::error_handler_t::replace);
}

Blame Blame::from_json(const std::string& text) {
  const core::Json json = core::parse_json(text, "failure of a rank");
  try {
    Blame blame{.text = json.at("text").get<std::string>()};
    if (!json.at("rank").is_null()) blame.rank = json.at("rank").get<int>();
    return blame;
  } catch (const core::Json::exception& error) {
    throw CommError(fmt::format("comm: the store holds a failure of a rank that makes no sense: {}", error.what()));
  }
}

Blame name_missing_ranks(const CallMark& mark, int own_rank, const std::vector<int>& global_ranks,
                         const std::vector<RankReport>& earlier, const std::vector<RankReport>& later) {
  std::vector<std::string> failed, silent, left, behind, gave_up;
  std::vector<int> lost;
  for (size_t i = 0; i < global_ranks.size(); ++i) {
    const int rank = global_ranks[i];
    const RankReport& report = later[i];
    if (rank == own_rank) continue;
    const std::string name = name_of(rank, report);
    const auto* place = place_on(report, mark.axis);
    if (!report.gave_up_in.empty())
      gave_up.push_back(report.describe_failure(rank));
    else if (report.state == "failed")
      failed.push_back(report.describe_failure(rank)), lost.push_back(rank);
    else if (report.state == "left")
      left.push_back(fmt::format("{} has left the job ({})", name, last_call(report, mark.axis)));
    else if (report.beat == earlier[i].beat)
      silent.push_back(fmt::format("{} does not answer any more ({})", name, last_call(report, mark.axis))),
          lost.push_back(rank);
    else if (mark.sequence > 0 && (place == nullptr || place->sequence < mark.sequence))
      behind.push_back(fmt::format("{} did not come ({})", name, last_call(report, mark.axis)));
  }
  std::vector<std::string> kinds;
  for (const auto* kind : {&failed, &silent, &left, &behind})
    if (!kind->empty()) kinds.push_back(join_some(*kind));
  if (kinds.empty() && !gave_up.empty()) kinds.push_back(join_some(gave_up));
  return {.text = fmt::format("{}", fmt::join(kinds, "; ")),
          .rank = lost.size() == 1 ? std::optional(lost.front()) : std::nullopt};
}

}  // namespace lockstep::comm
