#include "remote/s3_client.h"

#include <cmath>
#include <ctime>

#include "core/clock.h"
#include "core/digest.h"
#include "core/log.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace {

constexpr int kMaxAdaptions = 3;

/// Where a bucket is: with an endpoint of one's own in its path, at Amazon in the host's name, but for names with dots,
/// which certificates do not cover.
std::string url_of_bucket(const Account& account, const std::string& bucket) {
  if (!account.endpoint.empty()) return fmt::format("{}/{}", account.endpoint, percent_encoded(bucket, false));
  if (bucket.find('.') != std::string::npos)
    return fmt::format("https://s3.{}.amazonaws.com/{}", account.region, bucket);
  return fmt::format("https://{}.s3.{}.amazonaws.com", bucket, account.region);
}

/// Of a clock that is apart from the server's, or of a body that was longer on its way than signatures are valid.
bool says_skewed(const S3Fault& fault) { return fault.code == "RequestTimeTooSkewed"; }

bool says_expired(const S3Fault& fault) { return fault.code == "ExpiredToken" || fault.code == "TokenRefreshRequired"; }

bool is_about_keys(const S3Fault& fault, int status) {
  if (says_skewed(fault)) return false;
  return status == 403 || says_expired(fault) || fault.code == "InvalidToken";
}

bool may_succeed_later(const S3Fault& fault, int status) {
  return (status >= 500 && status != 501) || status == 429 || status == 408 || fault.code == "RequestTimeout" ||
         fault.code == "BadDigest" || fault.code == "XAmzContentSHA256Mismatch" || fault.code == "IncompleteBody" ||
         fault.code == "OperationAborted";
}

std::string hint_of(const S3Fault& fault, int status, const Account& account) {
  if (fault.code == "NoSuchBucket")
    return fmt::format("check its name{}", account.endpoint.empty()
                                               ? ", or name the storage with AWS_ENDPOINT_URL if it is not Amazon's"
                                               : ", and AWS_ENDPOINT_URL");
  if (fault.code == "NoSuchKey") return "check the address, and the range in the braces of a list";
  if (says_expired(fault))
    return account.credentials.origin == kOfEnvironment
               ? fmt::format(
                     "keys of the environment stay as they were at the start of a process: write new ones to {}, "
                     "which is looked at when they have expired",
                     account.profile)
               : fmt::format("renew the keys of {}: it is read again", account.credentials.origin);
  if (says_skewed(fault)) return "set the clock of this machine, best with chronyd or ntpd";
  if (fault.code == "SignatureDoesNotMatch") return "the secret does not belong to the key id: set both anew";
  if (is_about_keys(fault, status))
    return account.credentials.are_there()
               ? fmt::format("keys are from {}: do they allow it?", account.credentials.origin)
               : fmt::format("no credentials were found; looked for {}", account.looked_in);
  return "";
}

}  // namespace

std::string signing_time(double unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

S3Client::S3Client(std::string bucket, ClientConfig config)
    : bucket_(std::move(bucket)), config_(std::move(config)), account_(config_.find_account()),
      http_(HttpConfig{.stall_s = config_.stall_s, .is_stopped = config_.is_stopped}) {}

HttpRequest S3Client::signed_request(const S3Request& request) const {
  const std::string base = url_of_bucket(account_, bucket_);
  const size_t path_begin = base.find('/', base.find("://") + 3);
  const std::string host_url = base.substr(0, path_begin);
  const std::string path =
      (path_begin == std::string::npos ? "" : base.substr(path_begin)) + "/" + percent_encoded(request.key, true);
  const std::string query = query_text(request.query);
  HttpRequest sent{.method = request.method,
                   .url = host_url + path + (query.empty() ? "" : "?" + query),
                   .shown_url = fmt::format("s3://{}/{}", bucket_, request.key),
                   .headers = request.headers,
                   .body = request.body,
                   .file = request.file,
                   .sink = request.sink};
  if (!account_.credentials.are_there()) return sent;
  const std::string time_text = signing_time(core::unix_seconds() + clock_offset_s_);
  const std::string payload =
      request.file ? request.file_sha256 : core::to_hex(core::sha256(request.body.value_or("")));
  sent.headers["host"] = host_url.substr(host_url.find("://") + 3);
  sent.headers["x-amz-date"] = time_text;
  sent.headers["x-amz-content-sha256"] = payload;
  if (!account_.credentials.token.empty()) sent.headers["x-amz-security-token"] = account_.credentials.token;
  sent.headers["authorization"] = authorization({.method = request.method,
                                                 .path = path,
                                                 .query = request.query,
                                                 .headers = sent.headers,
                                                 .payload_sha256 = payload},
                                                account_.credentials, account_.region, time_text);
  return sent;
}

/// Each time anew: either clock may have been set since.
bool S3Client::adapts_to_clock(const std::string& date) {
  std::tm server{};
  if (::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &server) == nullptr) return false;
  const double offset_s = static_cast<double>(::timegm(&server)) - core::unix_seconds();
  constexpr double kSameClock_s = 10;  // of a signature that grew old on its way
  if (std::abs(offset_s - clock_offset_s_) > kSameClock_s) {
    if (std::abs(offset_s) > kSameClock_s)
      core::log_warning("remote: the clock of this machine is {:.0f} s {} the server's of s3://{}", std::abs(offset_s),
                        offset_s > 0 ? "behind" : "ahead of", bucket_);
    else
      core::log_info("remote: the clock of this machine agrees with the server's of s3://{} again", bucket_);
  }
  clock_offset_s_ = offset_s;
  return true;
}

/// Whether something was learnt by which the same request may succeed at once: region, time, new keys.
bool S3Client::adapts_to(const HttpResponse& response, const S3Fault& fault) {
  std::string region = response.header("x-amz-bucket-region");
  if (region.empty()) region = fault.region;
  const bool is_elsewhere = response.status == 301 || response.status == 307 || response.status == 400;
  if (is_elsewhere && !region.empty() && region != account_.region) {
    account_.region = region;
    return true;
  }
  if (says_skewed(fault)) return adapts_to_clock(response.header("date"));
  if (is_about_keys(fault, response.status)) {
    const Account found = config_.find_account();
    if (says_expired(fault) && account_.credentials.are_same(found.credentials)) expired_ = found.credentials;
    const bool is_expired = expired_.are_there() && expired_.are_same(found.credentials);
    // Those of the environment stay for ever; other keys than the first are taken only where these have expired: keys
    // that may not do something are not exchanged for another account's.
    const Credentials& next =
        is_expired && found.profile_credentials.are_there() ? found.profile_credentials : found.credentials;
    if (next.are_same(account_.credentials)) return false;
    account_.credentials = next;
    return true;
  }
  return false;
}

RemoteError S3Client::error_of(const S3Request& request, const HttpResponse& response, const S3Fault& fault) const {
  std::string what = fault.code;
  if (!fault.message.empty()) what += (what.empty() ? "" : ": ") + fault.message.substr(0, 300);
  if (what.empty()) what = response.status == 404 ? "it is not there" : "the server said no more";
  S3Fault known = fault;
  if (known.code.empty() && response.status == 404 && request.key.empty()) known.code = "NoSuchBucket";
  return RemoteError(fmt::format("remote: {} s3://{}/{} failed: status={} ({})", request.method, bucket_, request.key,
                                 response.status, what),
                     hint_of(known, response.status, account_), may_succeed_later(fault, response.status),
                     response.status, known.code);
}

HttpResponse S3Client::send_once(const S3Request& request) {
  for (int adaptions = 0;; ++adaptions) {
    HttpResponse response = http_.send(signed_request(request));
    if (response.status >= 200 && response.status < 300) return response;
    const S3Fault fault = parse_fault(response.body);
    if (adaptions == kMaxAdaptions || !adapts_to(response, fault)) throw error_of(request, response, fault);
  }
}

HttpResponse S3Client::send(const S3Request& request) {
  HttpResponse response;
  with_retries(
      config_.retry, real_clock(config_.is_stopped), [&] { response = send_once(request); },
      [&](const RemoteError& error, int) {
        if (config_.on_retry) config_.on_retry(error);
      });
  return response;
}

std::vector<ListedObject> S3Client::list(const std::string& prefix) {
  std::vector<ListedObject> objects;
  std::string token;
  do {
    S3Request request{.query = {{"list-type", "2"}, {"prefix", prefix}}};
    if (!token.empty()) request.query["continuation-token"] = token;
    ObjectPage page = parse_object_page(send(request).body);
    objects.insert(objects.end(), page.objects.begin(), page.objects.end());
    token = page.next_token;
  } while (!token.empty());
  return objects;
}

std::vector<UnfinishedUpload> S3Client::list_unfinished(const std::string& prefix) {
  std::vector<UnfinishedUpload> uploads;
  UploadPage page;
  do {
    S3Request request{.query = {{"uploads", ""}, {"prefix", prefix}}};
    if (!page.next_key.empty()) {
      request.query["key-marker"] = page.next_key;
      request.query["upload-id-marker"] = page.next_upload_id;
    }
    page = parse_upload_page(send(request).body);
    uploads.insert(uploads.end(), page.uploads.begin(), page.uploads.end());
  } while (!page.next_key.empty());
  return uploads;
}

}  // namespace lockstep::remote
