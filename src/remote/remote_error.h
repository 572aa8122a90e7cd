#pragma once
#include <string>

#include "core/error.h"

namespace lockstep::remote {

/// A request that failed. Transient: the same request may succeed later (network, timeout, 429, 5xx, damage on the
/// way); anything else (404, 403, a wrong name) will not, but for credentials, which someone may renew.
class RemoteError : public EnvironmentError {
 public:
  RemoteError(const std::string& message, const std::string& hint, bool is_transient, int status = 0,
              std::string code = "")
      : EnvironmentError(message, hint), is_transient_(is_transient), status_(status), code_(std::move(code)) {}

  bool is_transient() const { return is_transient_; }
  int status() const { return status_; }             ///< Of HTTP; 0: there was no answer.
  const std::string& code() const { return code_; }  ///< Of S3, "NoSuchKey"; "" without one.

 private:
  bool is_transient_;
  int status_;
  std::string code_;
};

/// What waits was told to stop.
class Interrupted : public RemoteError {
 public:
  Interrupted() : RemoteError("remote: interrupted", "", false) {}
};

}  // namespace lockstep::remote
