#include "remote/object_store.h"

#include <unistd.h>

#include "core/host_name.h"

namespace lockstep::remote {

void test_writing(ObjectStore& store) {
  const std::string name = fmt::format(".write_test.{}.{}", core::host_name(), ::getpid());
  const std::string content = fmt::format("lockstep writes here: {}\n", name);
  store.put(name, content);
  const std::string seen = store.read(name);
  store.remove(name);
  if (seen != content)
    throw RemoteError(fmt::format("remote: {} does not give back what was written: {} bytes, expected {}", store.text(),
                                  seen.size(), content.size()),
                      "the storage damages files", false);
}

}  // namespace lockstep::remote
