#include "remote/http.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <filesystem>

#include "core/env.h"
#include "core/strings.h"
#include "remote/curl_library.h"
#include "remote/remote_error.h"

namespace lockstep::remote {
namespace {

constexpr size_t kMaxCollectedBytes = size_t{64} << 20;  // answers that are no objects: listings, errors

/// TLS writes to a connection that the server has closed raise SIGPIPE, which would end the program.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocked() {
    const timespec now{};
    if (!sigismember(&before_, SIGPIPE)) ::sigtimedwait(&pipe_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{}, before_{};
};

/// The certificates to trust: those that the user names, else the first of the usual places, since a libcurl that came
/// with an archive knows only where its own distribution has them.
std::string certificates_file() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const auto file = core::env(name)) return *file;
  std::error_code ignored;
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (std::filesystem::exists(file, ignored)) return file;
  return "";
}

/// What one request gathers in libcurl's callbacks, which must not throw.
struct Exchange {
  const CurlLibrary& curl;
  CURL* handle;
  const HttpRequest& request;
  const HttpConfig& config;
  HttpResponse response = {};
  int64_t num_sent = 0;
  bool is_stopped = false;
  std::exception_ptr failure = {};

  int status() const {
    long code = 0;
    curl.easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  }
};

size_t take_header(char* data, size_t, size_t bytes, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line = core::trim(std::string_view(data, bytes));
  if (core::starts_with(line, "HTTP/")) exchange.response.headers.clear();  // of a redirect or an interim answer
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos && !core::starts_with(line, "HTTP/"))
    exchange.response.headers[core::to_lower_ascii(line.substr(0, colon))] = core::trim(line.substr(colon + 1));
  return bytes;
}

size_t take_body(char* data, size_t, size_t bytes, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  try {
    const int status = exchange.status();
    if (exchange.request.sink && status >= 200 && status < 300) {
      exchange.request.sink(status, std::as_bytes(std::span(data, bytes)));
    } else {
      if (exchange.response.body.size() + bytes > kMaxCollectedBytes) return 0;
      exchange.response.body.append(data, bytes);
    }
    return bytes;
  } catch (...) {
    exchange.failure = std::current_exception();
    return 0;
  }
}

int64_t body_bytes(const HttpRequest& request) {
  return request.file ? request.file->bytes : static_cast<int64_t>(request.body.value_or("").size());
}

size_t give_body(char* buffer, size_t, size_t room, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const HttpRequest& request = exchange.request;
  const auto count =
      static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(room), body_bytes(request) - exchange.num_sent));
  if (count == 0) return 0;
  if (!request.file) {
    request.body->copy(buffer, count, static_cast<size_t>(exchange.num_sent));
    exchange.num_sent += static_cast<int64_t>(count);
    return count;
  }
  ssize_t got = 0;
  do got = ::pread(request.file->fd, buffer, count, request.file->offset + exchange.num_sent);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return CURL_READFUNC_ABORT;  // shorter than it was, or unreadable
  exchange.num_sent += got;
  return static_cast<size_t>(got);
}

int seek_body(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Exchange*>(user)->num_sent = offset;
  return CURL_SEEKFUNC_OK;
}

int note_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& exchange = *static_cast<Exchange*>(user);
  exchange.is_stopped = exchange.is_stopped || (exchange.config.is_stopped && exchange.config.is_stopped());
  return exchange.is_stopped ? 1 : 0;
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_TOO_MANY_REDIRECTS: return false;
    default: return true;
  }
}

std::string hint_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return "is the address right (AWS_ENDPOINT_URL), and may this node reach it? A proxy is named by HTTPS_PROXY";
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: return "name a file of trusted certificates in AWS_CA_BUNDLE";
    default: return "";
  }
}

}  // namespace

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

struct HttpClient::State {
  HttpConfig config;
  const CurlLibrary& curl = curl_library();
  CURL* handle = curl.easy_init();
  std::string certificates = certificates_file();
  std::array<char, CURL_ERROR_SIZE> error_text{};

  ~State() { curl.easy_cleanup(handle); }

  template <typename Value> void set(CURLoption option, Value value) { curl.easy_setopt(handle, option, value); }

  void set_limits() {
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PATH_AS_IS, 1L);  // as it was signed
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(config.connect_s * 1000));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(config.stall_s)));
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_ERRORBUFFER, error_text.data());
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_MAXREDIRS, 5L);
    if (!certificates.empty()) set(CURLOPT_CAINFO, certificates.c_str());
  }

  void set_body(Exchange& exchange) {
    const HttpRequest& request = exchange.request;
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body_bytes(request)));
    set(CURLOPT_READFUNCTION, give_body);
    set(CURLOPT_READDATA, static_cast<void*>(&exchange));
    set(CURLOPT_SEEKFUNCTION, seek_body);
    set(CURLOPT_SEEKDATA, static_cast<void*>(&exchange));
  }

  void set_request(Exchange& exchange, curl_slist* headers) {
    const HttpRequest& request = exchange.request;
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_FOLLOWLOCATION, request.follows_redirects ? 1L : 0L);
    set(CURLOPT_HEADERFUNCTION, take_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&exchange));
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&exchange));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, note_progress);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&exchange));
    const bool has_length = request.method == "PUT" || request.method == "POST";  // also of nothing
    if (request.body || request.file || has_length)
      set_body(exchange);
    else if (request.method == "HEAD")
      set(CURLOPT_NOBODY, 1L);
    else if (request.method != "GET")
      set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
};

HttpClient::HttpClient(HttpConfig config) : state_(new State{.config = std::move(config)}) {
  if (state_->handle == nullptr) throw EnvironmentError("remote: libcurl gives no handle: is memory out?");
}
HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send(const HttpRequest& request) {
  const SigpipeBlocked blocked;
  const CurlLibrary& curl = state_->curl;
  curl.easy_reset(state_->handle);  // keeps the connection
  Exchange exchange{.curl = curl, .handle = state_->handle, .request = request, .config = state_->config};
  curl_slist* lines = curl.slist_append(nullptr, "Expect:");
  for (const auto& [name, value] : request.headers)
    lines = curl.slist_append(lines, fmt::format("{}{} {}", name, value.empty() ? ";" : ":", value).c_str());
  state_->set_limits();
  state_->set_request(exchange, lines);
  state_->error_text[0] = '\0';
  const CURLcode code = curl.easy_perform(state_->handle);
  curl.slist_free_all(lines);
  if (exchange.failure) std::rethrow_exception(exchange.failure);
  if (exchange.is_stopped) throw Interrupted();
  if (code != CURLE_OK) {
    const std::string why = state_->error_text[0] != '\0' ? state_->error_text.data() : curl.easy_strerror(code);
    throw RemoteError(fmt::format("remote: {} {} failed: {}", request.method,
                                  request.shown_url.empty() ? request.url : request.shown_url, why),
                      hint_of(code), may_pass(code));
  }
  exchange.response.status = exchange.status();
  return std::move(exchange.response);
}

}  // namespace lockstep::remote
