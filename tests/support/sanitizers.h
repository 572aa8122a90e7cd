#pragma once

namespace lockstep::tests {

/// Built with the address sanitizer: its library must be the first of a process, so that none can be preloaded, and
/// freed memory is kept for a while.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif

}  // namespace lockstep::tests
