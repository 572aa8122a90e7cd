#include "remote/signing.h"

#include <fmt/format.h>

#include "core/digest.h"
#include "core/strings.h"

namespace lockstep::remote {

std::string percent_encoded(std::string_view text, bool keep_slash) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                          c == '.' || c == '_' || c == '~' || (keep_slash && c == '/');
    if (is_plain)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string query_text(const std::map<std::string, std::string>& query) {
  std::string text;
  for (const auto& [name, value] : query)
    text +=
        fmt::format("{}{}={}", text.empty() ? "" : "&", percent_encoded(name, false), percent_encoded(value, false));
  return text;
}

std::string authorization(const SignedRequest& request, const Credentials& credentials, const std::string& region,
                          const std::string& time_text, const std::string& service) {
  std::string header_lines, header_names;
  for (const auto& [name, value] : request.headers) {
    header_lines += fmt::format("{}:{}\n", name, core::trim(value));
    header_names += (header_names.empty() ? "" : ";") + name;
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path, query_text(request.query), header_lines,
                  header_names, request.payload_sha256);
  const std::string day = time_text.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region, service);
  const std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time_text, scope, core::to_hex(core::sha256(canonical)));
  std::string key = core::hmac_sha256("AWS4" + credentials.secret, day);
  for (const std::string& part : {region, service, std::string("aws4_request")}) key = core::hmac_sha256(key, part);
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", credentials.key_id, scope,
                     header_names, core::to_hex(core::hmac_sha256(key, to_sign)));
}

}  // namespace lockstep::remote
