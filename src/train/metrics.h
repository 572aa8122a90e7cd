#pragma once
#include "record/steps.h"

namespace lockstep::train {

/// Names and values in the order they are printed.
using Metrics = record::NamedNumbers;

}  // namespace lockstep::train
