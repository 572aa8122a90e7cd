#include "core/local_time.h"

namespace lockstep::core {

std::string local_time_text(std::time_t time, const char* format) {
  std::tm local{};
  char text[32] = "";
  if (::localtime_r(&time, &local) != nullptr) std::strftime(text, sizeof text, format, &local);
  return text;
}

}  // namespace lockstep::core
