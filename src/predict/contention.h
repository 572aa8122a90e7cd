#pragma once
#include <span>
#include <string>
#include <vector>

#include "predict/machine.h"
#include "predict/posterior.h"
#include "predict/work_facts.h"

namespace lockstep::predict {

/// Others that compute beside a device, of all others of its node that can compute at the same time; `computing`: ranks
/// of the step that do.
double crowding_of(double computing, const Machine& machine);

/// How much devices of the machine slow one another, as they were measured to, and how badly that is known.
Contention product_contention_of(const Machine& machine);
Contention memory_contention_of(const Machine& machine);

/// Those that were measured, with their doubt and their file.
std::vector<KnownFact> contention_facts(const Machine& machine);

/// Where the draws of measured steps contradict the contentions that a machine was measured to have, in sentences;
/// `source` names the machine's file.
std::vector<std::string> contention_texts(const Setting& setting, const std::string& source,
                                          std::span<const Draw> draws);

}  // namespace lockstep::predict
