#pragma once
#include <mutex>
#include <string>

namespace lockstep::checkpoint {

/// The checkpoint that somebody is reading at the moment and that therefore stays, however many newer ones there are.
/// For several threads.
class HeldCheckpoint {
 public:
  void hold(const std::string& name) {  ///< Of its folder. Instead of the one before.
    const std::lock_guard lock(mutex_);
    name_ = name;
  }
  void release() { hold(""); }
  bool is_held(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return name_ == name;
  }

 private:
  mutable std::mutex mutex_;
  std::string name_;
};

}  // namespace lockstep::checkpoint
