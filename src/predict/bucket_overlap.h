#pragma once
#include <span>

namespace lockstep::predict {

/// Plays gradient buckets as GradSync runs them: backward fills them one after another (work per byte is taken as
/// even), one stream takes them in that order, each begins when it is full and the one before has ended. `shares` of
/// all bytes, in the order of backward; `gradients_s`: all collectives by themselves. Returns how long after
/// `backward_s` the last one ends.
double play_buckets(std::span<const double> shares, double gradients_s, double backward_s);

}  // namespace lockstep::predict
