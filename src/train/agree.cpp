#include "train/agree.h"

#include "core/error.h"
#include "core/system_failure.h"

namespace lockstep::train {
namespace {

/// What `body` returned or threw, as text that another rank can act on.
std::string outcome_of(const std::function<std::string()>& body) {
  core::Json outcome;
  const auto fail = [&](const Error& error) {
    outcome = {{"error", error.what()}, {"hint", error.hint()}, {"code", static_cast<int>(error.code())}};
  };
  try {
    outcome["text"] = body();
  } catch (const Error& error) {
    fail(error);
  } catch (const std::exception& error) {
    if (const auto failure = core::system_failure_of(error))
      fail(*failure);
    else
      fail(Error(ExitCode::kInternal, error.what()));
  }
  return outcome.dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

std::string text_or_throw(const std::string& outcome, const std::string& who) {
  const auto parsed = core::parse_json(outcome, "message between ranks");
  if (!parsed.contains("error")) return parsed.at("text");
  throw_error(static_cast<ExitCode>(parsed.at("code").get<int>()), who + parsed.at("error").get<std::string>(),
              parsed.at("hint"));
}

}  // namespace

std::string decide_on_rank_zero(comm::Comm& world, const std::function<std::string()>& decide,
                                const std::function<void()>& wait_for_it) {
  const std::string mine = world.rank() == 0 ? outcome_of(decide) : "";
  if (wait_for_it) wait_for_it();
  return text_or_throw(world.broadcast_string(mine, 0), "");
}

std::optional<std::string> differing_fact(const core::Json& own, const core::Json& other) {
  for (const auto& [name, value] : own.items())
    if (other.contains(name) && other.at(name) != value) return name;
  return std::nullopt;
}

void succeed_together(comm::Comm& world, const std::function<void()>& body, const std::function<void()>& wait_for_all) {
  const std::string mine = outcome_of([&] {
    body();
    return std::string();
  });
  if (wait_for_all) wait_for_all();
  const auto all = world.gather_strings(mine);
  text_or_throw(mine, "");  // the own error first: it has the fullest context
  for (size_t rank = 0; rank < all.size(); ++rank) text_or_throw(all[rank], fmt::format("rank {}: ", rank));
}

void while_ranks_live(comm::Comm& world, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception&) {
    world.check_alive();
    throw;
  }
  world.check_alive();
}

}  // namespace lockstep::train
