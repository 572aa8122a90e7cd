#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "remote/signing.h"

namespace lockstep::remote {

/// How S3 is reached: from the variables and files that AWS's own tools read.
struct Account {
  Credentials credentials = {};
  Credentials profile_credentials = {};  ///< Of the profile, also where `credentials` are the environment's.
  std::string region = "us-east-1";
  std::string endpoint = {};   ///< "https://host:port" without a slash at the end; "": Amazon's, by region.
  std::string looked_in = {};  ///< Where credentials were looked for, for messages.
  std::string profile = {};    ///< "profile 'x' of FILE": where keys can be renewed in a running process.
};

using EnvLookup = std::function<std::optional<std::string>(const char* name)>;
using Profiles = std::map<std::string, std::map<std::string, std::string>>;

/// Profiles of ~/.aws/config or ~/.aws/credentials: [name] or [profile name], "key = value" lines, comments with # or
/// ;. Lines that are indented (values in values) are left out.
Profiles parse_profiles(const std::string& text);

/// Variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE, AWS_REGION,
/// AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE; then the
/// profile's aws_access_key_id, aws_secret_access_key, aws_session_token, region and endpoint_url. EnvironmentError for
/// a profile that was asked for and is not there, for half a pair of keys, and for an endpoint that is no URL.
Account find_account(const EnvLookup& env, const std::filesystem::path& home);
/// With the process's environment and home.
Account find_account();

}  // namespace lockstep::remote
