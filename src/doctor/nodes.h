#pragma once
#include <vector>

#include "doctor/meeting.h"

namespace lockstep::doctor {

/// The checks of this machine on every rank, and those that compare ranks. On rank 0 the findings of all; on another
/// rank none, or its own with the reason when it could not meet rank 0. Collective; ends by the question's timeout.
std::vector<Finding> run_checks_of_all_ranks(Question question);

/// What rank 0 makes of a meeting: findings of the ranks, those that are alike told once, what differs, and ways that
/// are slower than the others or than is expected.
std::vector<Finding> judge(const Meeting& meeting, int world_size, double timeout_s,
                           const ExpectedRates& expected = {});

}  // namespace lockstep::doctor
