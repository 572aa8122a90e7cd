#pragma once
#include <functional>
#include <optional>
#include <string>

#include "comm/comm.h"
#include "core/json.h"

namespace lockstep::train {

/// Rank 0 decides, all ranks get the text. An Error on rank 0 is thrown on every rank, so none waits for the others.
/// Collective. `wait_for_it`, where given, is what all ranks call behind a decision that may take longer than
/// collectives wait (World::wait_for_rank_zero).
std::string decide_on_rank_zero(comm::Comm& world, const std::function<std::string()>& decide,
                                const std::function<void()>& wait_for_it = {});

/// Name of the first fact in which the two differ, of those that both tell.
std::optional<std::string> differing_fact(const core::Json& own, const core::Json& other);

/// Runs `body` on every rank; if it throws anywhere, every rank throws the error of the first such rank. Collective.
/// `wait_for_all`, where given, is what all ranks call behind bodies that may take longer than collectives wait
/// (World::wait_for_all).
void succeed_together(comm::Comm& world, const std::function<void()>& body,
                      const std::function<void()>& wait_for_all = {});

/// Runs `body`, in which the host reads what collectives of a device left. CommError where a rank is known to have
/// failed by then, whatever `body` threw: what it read may be anything (Comm::check_alive).
void while_ranks_live(comm::Comm& world, const std::function<void()>& body);

}  // namespace lockstep::train
