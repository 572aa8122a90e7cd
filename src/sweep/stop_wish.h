#pragma once

namespace lockstep::sweep {

/// While it lives, SIGINT and SIGTERM do not end the program; they are counted, and work stops where the state is
/// whole.
class StopWish {
 public:
  StopWish();
  StopWish(const StopWish&) = delete;
  StopWish& operator=(const StopWish&) = delete;
  ~StopWish();
  int count() const;
};

}  // namespace lockstep::sweep
