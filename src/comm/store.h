#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::comm {

struct StoreAddress {
  std::string host;
  uint16_t port = 0;
};

struct StoreCalls;  // comm/store_calls.h

/// Small texts under names, shared by the ranks of a job. Every call ends in time; one that cannot be answered throws
/// std::exception.
class Store {
 public:
  struct Impl;  // comm/store_internal.h
  explicit Store(std::unique_ptr<Impl> impl);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  static Store
  in_process();  ///< For ranks that are threads; copies made by `under` and `another_connection` see the same names.
  /// Serves a TCP store on `port` (0: any free one), on one numerical IPv4 address of this machine or on all interfaces
  /// (""), and connects to it. Whoever reaches it can list, read and write it. A port in use throws EnvironmentError
  /// that says who has it.
  static Store serve(uint16_t port, std::chrono::milliseconds timeout, const std::string& address = "");
  /// Connects to a store that someone else serves.
  static Store connect(const StoreAddress& address, std::chrono::milliseconds timeout);

  Store under(const std::string& prefix) const;  ///< The same store, every name with a prefix.
  Store another_connection() const;  ///< For another thread: a blocked call holds up only its own connection.
  Store counted_by(std::shared_ptr<StoreCalls> calls) const;  ///< The same store; what goes through it is counted.
  /// The same store for those who know a secret: others see no names in it, and what they write is an error to read.
  Store sealed_by(const std::string& secret) const;
  uint16_t port() const;  ///< Of a TCP store; 0 else.

  void set(const std::string& name, const std::string& text);
  std::string get(const std::string& name, std::chrono::milliseconds timeout);  ///< Waits for the name.
  std::vector<std::string> get_all(const std::vector<std::string>& names);      ///< Names that have been set.
  bool has(const std::string& name);
  int64_t add(const std::string& name, int64_t amount);

  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// "pid 123 (python3)" for the process of this machine that listens on a TCP port, as far as this user may see; "" when
/// unknown.
std::string port_owner(uint16_t port);

}  // namespace lockstep::comm
