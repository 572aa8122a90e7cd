#pragma once

namespace lockstep::core {

/// From here on freed memory stays with the process and is used again. For programs that compute on the CPU and free
/// hundreds of MB in every step: by default each such block goes back to the kernel, which hands it out again page by
/// page, cleared. Costs some more memory at the peak. Does nothing where the C library has no such switch.
void keep_freed_memory();

}  // namespace lockstep::core
