#pragma once

namespace lockstep::sweep {

/// While it lives, SIGINT and SIGTERM do not end the program; they are counted, and work stops where the state is
/// whole.
class StopRequest {
 public:
  StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  ~StopRequest();
  int count() const;
};

}  // namespace lockstep::sweep
