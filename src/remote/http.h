#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace lockstep::remote {

/// Bytes of an open file that a request sends.
struct FilePart {
  int fd = -1;
  int64_t offset = 0, bytes = 0;
};

/// Takes the next bytes of an answer of this status; what it throws ends the request.
using BodySink = std::function<void(int status, std::span<const std::byte>)>;

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::string shown_url = {};                       ///< In messages: without what is secret.
  std::map<std::string, std::string> headers = {};  ///< Names in lower case.
  std::optional<std::string> body = {};
  std::optional<FilePart> file = {};  ///< Sent instead of `body`.
  BodySink sink = {};                 ///< Of a 2xx answer; without one the body is collected.
  bool follows_redirects = false;
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers = {};  ///< Names in lower case.
  std::string body = {};
  std::string header(const std::string& name) const;  ///< "" without it.
};

struct HttpConfig {
  double connect_s = 15;
  double stall_s = 30;                    ///< Without one byte either way for so long a request has failed.
  std::function<bool()> is_stopped = {};  ///< Asked about once a second while a request runs.
};

/// Requests over one connection that is kept; not thread safe.
class HttpClient {
 public:
  explicit HttpClient(HttpConfig config = {});
  ~HttpClient();
  /// Whatever the server answered. RemoteError without an answer: transient, but for a URL or certificate that cannot
  /// be right later either. Interrupted when the config says stop. What `sink` throws is passed on.
  HttpResponse send(const HttpRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::remote
