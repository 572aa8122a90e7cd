#include "core/wrapped_message.h"

#include <string_view>

namespace lockstep::core {

std::string wrapped_message(const std::string& outer, const Error& error) {
  constexpr std::string_view kModule = "files: ";
  std::string inner = error.what();
  if (inner.compare(0, kModule.size(), kModule) == 0) inner.erase(0, kModule.size());
  const size_t begin = inner.find(" '"), end = begin == std::string::npos ? begin : inner.find('\'', begin + 2);
  if (end != std::string::npos && outer.find(inner.substr(begin + 1, end - begin)) != std::string::npos)
    inner.erase(begin, end - begin + 1);
  return outer + ": " + inner;
}

}  // namespace lockstep::core
