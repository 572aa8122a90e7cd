#include "data/shards/warn_once.h"

#include <mutex>
#include <set>

#include "core/log.h"

namespace lockstep::data {

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::scoped_lock lock(mutex);
  if (told.insert(text).second) core::log_warning("{}", text);
}

}  // namespace lockstep::data
