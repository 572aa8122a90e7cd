#include "remote/object_store.h"

#include <unistd.h>

#include <algorithm>

#include "core/host_name.h"
#include "core/log.h"
#include "core/strings.h"

namespace lockstep::remote {

bool is_safe_name(std::string_view name) {
  const auto parts = core::split(name, "/");
  return name.find('\0') == std::string_view::npos && std::none_of(parts.begin(), parts.end(), [](const auto& part) {
           return part.empty() || part == "." || part == "..";
         });
}

void test_writing(ObjectStore& store) {
  const std::string name = fmt::format(".write_test.{}.{}", core::host_name(), ::getpid());
  const std::string content = fmt::format("lockstep writes here: {}\n", name);
  store.put(name, content);
  const std::string seen = store.read(name);
  try {
    store.remove(name);
  } catch (const Interrupted&) {
    throw;
  } catch (const RemoteError& error) {
    core::log_warning("remote: what was written to {} cannot be removed again, '{}' stays: {}", store.text(), name,
                      error.what());
  }
  if (seen != content)
    throw RemoteError(fmt::format("remote: {} does not give back what was written: {} bytes, expected {}", store.text(),
                                  seen.size(), content.size()),
                      "the storage damages files", false);
}

}  // namespace lockstep::remote
