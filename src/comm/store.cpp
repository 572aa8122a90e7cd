#include "comm/store.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cerrno>
#include <cstring>

#include "comm/counting_store_internal.h"
#include "comm/error_text.h"
#include "comm/sealed_store_internal.h"
#include "comm/store_internal.h"
#include "core/error.h"
#include "core/files.h"

namespace lockstep::comm {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string to_text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

[[noreturn]] void throw_port_error(uint16_t port, bool is_in_use, const std::string& reason) {
  if (!is_in_use)
    throw EnvironmentError(fmt::format("comm: rank 0 cannot open port {} for the job's store: {}", port, reason),
                           "choose another port with --master-port (or MASTER_PORT)");
  const std::string owner = port_owner(port);
  throw EnvironmentError(
      fmt::format("comm: rank 0 cannot open port {} for the job's store: it is in use by {}", port,
                  owner.empty() ? "another process, perhaps another user's" : owner),
      "end that process if it is left over from an earlier run, or choose another port with --master-port "
      "(or MASTER_PORT)");
}

core::Fd listen_on(const std::string& own_address, uint16_t port) {
  core::Fd file(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  LOCKSTEP_CHECK(inet_pton(AF_INET, own_address.c_str(), &address.sin_addr) == 1, "comm: '{}' is no IPv4 address",
                 own_address);
  if (!file.valid() || ::setsockopt(file.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(file.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(file.get(), SOMAXCONN) != 0)
    throw_port_error(port, errno == EADDRINUSE, std::strerror(errno));
  return file;
}

/// While it lives LibTorch prints no errors of its own, unless TORCH_CPP_LOG_LEVEL=INFO asks for everything: of a
/// server that does not answer they are a page of C++ stack, and the error that is thrown says the same in words.
class QuietLibTorch {
 public:
  QuietLibTorch() {
    if (before_ > kInfo) FLAGS_caffe2_log_level = kFatal;
  }
  QuietLibTorch(const QuietLibTorch&) = delete;
  QuietLibTorch& operator=(const QuietLibTorch&) = delete;
  ~QuietLibTorch() { FLAGS_caffe2_log_level = before_; }

 private:
  static constexpr int kInfo = 0, kFatal = 3;
  int before_ = FLAGS_caffe2_log_level;
};

Store wrap(c10::intrusive_ptr<c10d::Store> store, uint16_t port) {
  auto impl = std::make_unique<Store::Impl>();
  impl->store = std::move(store);
  impl->port = port;
  return Store(std::move(impl));
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Store Store::in_process() { return wrap(c10::make_intrusive<c10d::HashStore>(), 0); }

Store Store::serve(uint16_t port, std::chrono::milliseconds timeout, const std::string& address) {
  c10d::TCPStoreOptions options;
  options.port = port;
  if (!address.empty()) options.masterListenFd = listen_on(address, port).release();  // the store closes it
  options.isServer = true;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(address.empty() ? kLoopback : address, options);
    const uint16_t real_port = store->getPort();
    return wrap(std::move(store), real_port);
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    throw_port_error(port, reason.find("EADDRINUSE") != std::string::npos, error_text(error));
  }
}

Store Store::connect(const StoreAddress& address, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.waitWorkers = false;
  options.timeout = timeout;
  const QuietLibTorch quiet;
  return wrap(c10::make_intrusive<c10d::TCPStore>(address.host, options), address.port);
}

Store Store::under(const std::string& prefix) const {
  return wrap(c10::make_intrusive<c10d::PrefixStore>(prefix, impl_->store), impl_->port);
}

Store Store::another_connection() const { return wrap(impl_->store->clone(), impl_->port); }

Store Store::counted_by(std::shared_ptr<StoreCalls> calls) const {
  return wrap(c10::make_intrusive<CountingStore>(impl_->store, std::move(calls)), impl_->port);
}

Store Store::sealed_by(const std::string& secret) const {
  return wrap(c10::make_intrusive<SealedStore>(impl_->store, secret), impl_->port);
}

uint16_t Store::port() const { return impl_->port; }

void Store::set(const std::string& name, const std::string& text) { impl_->store->set(name, to_bytes(text)); }

std::string Store::get(const std::string& name, std::chrono::milliseconds timeout) {
  impl_->store->wait({name}, timeout);
  return to_text(impl_->store->get(name));
}

std::vector<std::string> Store::get_all(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& bytes : impl_->store->multiGet(names)) out.push_back(to_text(bytes));
  return out;
}

bool Store::has(const std::string& name) { return impl_->store->check({name}); }

int64_t Store::add(const std::string& name, int64_t amount) { return impl_->store->add(name, amount); }

}  // namespace lockstep::comm
