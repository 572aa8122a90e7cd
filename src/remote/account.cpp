#include "remote/account.h"

#include "core/env.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
namespace {

std::string value_of(const std::map<std::string, std::string>& profile, const std::string& key) {
  const auto found = profile.find(key);
  return found == profile.end() ? "" : found->second;
}

Profiles read_profiles(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) ? parse_profiles(core::read_file_or_pipe(file)) : Profiles();
}

/// Of the file that holds keys before the other.
Credentials of_profile(const Profiles& profiles, const std::string& name, const fs::path& file) {
  const auto found = profiles.find(name);
  if (found == profiles.end()) return {};
  return {.key_id = value_of(found->second, "aws_access_key_id"),
          .secret = value_of(found->second, "aws_secret_access_key"),
          .token = value_of(found->second, "aws_session_token"),
          .origin = fmt::format("profile '{}' of {}", name, file.string())};
}

void check_endpoint(const std::string& endpoint) {
  if (core::starts_with(endpoint, "http://") || core::starts_with(endpoint, "https://")) return;
  throw EnvironmentError(fmt::format("remote: the endpoint '{}' is no URL", endpoint),
                         "set AWS_ENDPOINT_URL to something like https://storage.example.org");
}

}  // namespace

Profiles parse_profiles(const std::string& text) {
  Profiles profiles;
  std::map<std::string, std::string>* profile = nullptr;
  for (const std::string& line : core::split(text, "\n")) {
    const std::string_view trimmed = core::trim(line);
    if (trimmed.empty() || trimmed.front() == '#' || trimmed.front() == ';') continue;
    if (trimmed.front() == '[') {
      std::string_view name = core::trim(trimmed.substr(1, trimmed.find(']') - 1));
      if (core::starts_with(name, "profile ")) name = core::trim(name.substr(8));
      profile = &profiles[std::string(name)];
      continue;
    }
    const size_t equals = trimmed.find('=');
    const bool is_nested = line.front() == ' ' || line.front() == '\t';
    if (profile == nullptr || equals == std::string_view::npos || is_nested) continue;
    (*profile)[core::to_lower_ascii(core::trim(trimmed.substr(0, equals)))] = core::trim(trimmed.substr(equals + 1));
  }
  return profiles;
}

Account find_account(const EnvLookup& env, const fs::path& home) {
  const auto either = [&](const char* first, const char* second) {
    const auto value = env(first);
    return value ? value : env(second);
  };
  const auto asked_profile = either("AWS_PROFILE", "AWS_DEFAULT_PROFILE");
  const std::string name = asked_profile.value_or("default");
  const fs::path keys_file = env("AWS_SHARED_CREDENTIALS_FILE").value_or((home / ".aws" / "credentials").string());
  const fs::path config_file = env("AWS_CONFIG_FILE").value_or((home / ".aws" / "config").string());
  const Profiles keys = read_profiles(keys_file), config = read_profiles(config_file);
  Account account;
  account.looked_in =
      fmt::format("AWS_ACCESS_KEY_ID, profile '{}' of {} and {}", name, keys_file.string(), config_file.string());
  account.profile = fmt::format("profile '{}' of {}", name, keys_file.string());
  Credentials &own = account.credentials, &of_file = account.profile_credentials;
  if (of_file = of_profile(keys, name, keys_file); !of_file.are_there())
    of_file = of_profile(config, name, config_file);
  own = of_file;
  if (const auto id = env("AWS_ACCESS_KEY_ID")) {
    own = {.key_id = *id,
           .secret = env("AWS_SECRET_ACCESS_KEY").value_or(""),
           .token = env("AWS_SESSION_TOKEN").value_or(""),
           .origin = kOfEnvironment};
    if (of_file.secret.empty()) of_file = {};  // half a pair: no reason to refuse the environment's
  }
  if (asked_profile && !keys.contains(name) && !config.contains(name))
    throw EnvironmentError(fmt::format("remote: AWS_PROFILE names '{}', which is neither in {} nor in {}", name,
                                       keys_file.string(), config_file.string()),
                           "unset it, or write the profile");
  if (own.are_there() && own.secret.empty())
    throw EnvironmentError(fmt::format("remote: {} has a key id without its secret", own.origin),
                           "set AWS_SECRET_ACCESS_KEY, or aws_secret_access_key in the profile");
  const auto found = config.find(name);
  const auto& settings = found == config.end() ? std::map<std::string, std::string>() : found->second;
  if (const auto region = either("AWS_REGION", "AWS_DEFAULT_REGION"))
    account.region = *region;
  else if (const std::string of_profile = value_of(settings, "region"); !of_profile.empty())
    account.region = of_profile;
  account.endpoint = either("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL").value_or(value_of(settings, "endpoint_url"));
  while (core::ends_with(account.endpoint, "/")) account.endpoint.pop_back();
  if (!account.endpoint.empty()) check_endpoint(account.endpoint);
  return account;
}

Account find_account() {
  return find_account([](const char* name) { return core::env(name); }, core::env("HOME").value_or("/nonexistent"));
}

}  // namespace lockstep::remote
