#include "comm/recorder.h"

namespace lockstep::comm {

RecorderEntry& Recorder::entry(std::string_view axis, int group_size, std::string_view kind, int64_t bytes) {
  auto [it, is_new] = entries_.try_emplace(Key(axis, kind, bytes, group_size));
  if (is_new)
    it->second = {.axis = std::string(axis), .kind = std::string(kind), .group_size = group_size, .bytes = bytes};
  return it->second;
}

void Recorder::add_call(std::string_view axis, int group_size, std::string_view kind, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++entry(axis, group_size, kind, bytes).count;
}

void Recorder::add_time(std::string_view axis, int group_size, std::string_view kind, int64_t bytes, double total_ms,
                        double blocked_ms) {
  const std::lock_guard lock(mutex_);
  RecorderEntry& it = entry(axis, group_size, kind, bytes);
  ++it.num_waited;
  it.total_ms += total_ms;
  it.blocked_ms += blocked_ms;
  blocked_ms_ += blocked_ms;
}

std::vector<RecorderEntry> Recorder::snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<RecorderEntry> out;
  for (const auto& [key, value] : entries_) out.push_back(value);
  return out;
}

double Recorder::blocked_ms() const {
  const std::lock_guard lock(mutex_);
  return blocked_ms_;
}

void Recorder::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  blocked_ms_ = 0;
}

}  // namespace lockstep::comm
