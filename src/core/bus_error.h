#pragma once

namespace lockstep::core {

/// From now on a read in a mapped file that has become shorter, or whose storage fails, ends the process with a message
/// that names the file and exit code 6, where the kernel would kill it with SIGBUS.
void report_bus_errors();

}  // namespace lockstep::core
