#include "core/host_name.h"

#include <unistd.h>

#include <array>

namespace lockstep::core {

std::string host_name() {
  std::array<char, 256> name{};
  const bool is_known = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return is_known ? name.data() : "unknown host";
}

}  // namespace lockstep::core
