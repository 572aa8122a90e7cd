#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "remote/account.h"
#include "remote/http.h"
#include "remote/retry.h"
#include "remote/s3_xml.h"

namespace lockstep::remote {

/// What a client takes from outside.
struct ClientConfig {
  std::function<Account()> find_account = [] {
    return remote::find_account();
  };  ///< Asked again when keys are refused.
  RetryPolicy retry = {};
  std::function<bool()> is_stopped = {};  ///< Requests and waits then end with Interrupted.
  double stall_s = 30;                    ///< Of HttpConfig.
  /// Hears of failures that are tried again; of several threads where a store sends parts at once.
  std::function<void(const RemoteError&)> on_retry = {};
};

/// A request to S3 without what every one of them has.
struct S3Request {
  std::string method = "GET";
  std::string key = {};
  std::map<std::string, std::string> query = {}, headers = {};
  std::optional<std::string> body = {};
  std::optional<FilePart> file = {};
  std::string file_sha256 = {};  ///< Hex; with `file`.
  BodySink sink = {};            ///< Called again from the first byte on a retry.
};

/// Requests to one bucket: signed, repeated where that may help, in the region that the bucket is found to be in, with
/// keys read anew where they have expired: of the profile where those of the environment have. Path style with an
/// endpoint of one's own. Not thread safe.
class S3Client {
 public:
  S3Client(std::string bucket, ClientConfig config);

  /// The answer of status 2xx. RemoteError for any other with what S3 said and what to do.
  HttpResponse send(const S3Request& request);
  /// The answer to one attempt, where others follow only for reasons of keys and regions.
  HttpResponse send_once(const S3Request& request);

  /// Every object whose key begins with `prefix`, in the server's order.
  std::vector<ListedObject> list(const std::string& prefix);
  /// Every upload in parts to such a key that is neither complete nor aborted.
  std::vector<UnfinishedUpload> list_unfinished(const std::string& prefix);

  const std::string& bucket() const { return bucket_; }
  const ClientConfig& config() const { return config_; }

 private:
  HttpRequest signed_request(const S3Request& request) const;
  bool adapts_to(const HttpResponse& response, const S3Fault& fault);
  bool adapts_to_clock(const std::string& date);
  RemoteError error_of(const S3Request& request, const HttpResponse& response, const S3Fault& fault) const;

  std::string bucket_;
  ClientConfig config_;
  Account account_;
  Credentials expired_ = {};  // the first that are found, once they were refused as expired
  HttpClient http_;
  double clock_offset_s_ = 0;  // of the server's clock to ours
};

/// UTC as 20130524T000000Z.
std::string signing_time(double unix_s);

}  // namespace lockstep::remote
