#pragma once
#include <string>

namespace lockstep::core {

/// This process as others may look for it: the machine's boot, the namespace of process numbers, its number and when it
/// began. Empty where the system does not say.
std::string process_mark();

/// True when the process of a mark has certainly ended. False as well where that cannot be known: it ran on another
/// machine or in another namespace, or the mark is none.
bool has_process_ended(const std::string& mark);

}  // namespace lockstep::core
