#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::remote {

/// Credentials::origin of keys that a running process cannot get anew.
inline constexpr const char* kOfEnvironment = "the environment";

/// Keys of an account; empty: requests go unsigned, as for public buckets.
struct Credentials {
  std::string key_id = {}, secret = {};
  std::string token = {};   ///< Of temporary ones.
  std::string origin = {};  ///< kOfEnvironment, "profile 'x' of FILE"; for messages.
  bool are_there() const { return !key_id.empty(); }
  /// Wherever they were found.
  bool are_same(const Credentials& other) const {
    return key_id == other.key_id && secret == other.secret && token == other.token;
  }
};

/// A request as Signature Version 4 sees it.
struct SignedRequest {
  std::string method = "GET";
  std::string path = "/";                           ///< Percent-encoded once, as sent.
  std::map<std::string, std::string> query = {};    ///< Not encoded; sorted by name, as the signature wants it.
  std::map<std::string, std::string> headers = {};  ///< Names in lower case, host among them; all are signed.
  std::string payload_sha256 = {};                  ///< Hex.
};

/// Percent-encoding of RFC 3986 as the signature asks for it: all but letters, digits and -._~; '/' where `keep_slash`.
std::string percent_encoded(std::string_view text, bool keep_slash);
/// "name=value&..." in the order and encoding that is signed; "" without parameters.
std::string query_text(const std::map<std::string, std::string>& query);

/// Value of the header Authorization (AWS Signature Version 4, "Authenticating Requests" of the S3 API reference).
/// `time_text`: UTC as 20130524T000000Z, the same as in header x-amz-date.
std::string authorization(const SignedRequest& request, const Credentials& credentials, const std::string& region,
                          const std::string& time_text, const std::string& service = "s3");

}  // namespace lockstep::remote
