#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::core {

enum class DigestKind { kSha256, kMd5 };

/// A cryptographic hash of bytes that come in pieces (OpenSSL's). EnvironmentError where the machine forbids the kind.
class Digest {
 public:
  explicit Digest(DigestKind kind);
  ~Digest();
  void update(std::span<const std::byte> bytes);
  std::string finish();  ///< The bytes of the hash; ends its use.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::string_view bytes);  ///< 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view bytes);
std::string to_hex(std::string_view bytes);  ///< Lower case.
std::string to_base64(std::string_view bytes);
/// In a time that does not tell where they differ.
bool same_bytes(std::string_view a, std::string_view b);
std::string random_secret();  ///< 32 hex digits that nobody can guess.

}  // namespace lockstep::core
