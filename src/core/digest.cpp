#include "core/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>

#include "core/error.h"

namespace lockstep::core {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* type = kind == DigestKind::kSha256 ? EVP_sha256() : EVP_md5();
  if (EVP_DigestInit_ex(state_->context, type, nullptr) != 1)
    throw EnvironmentError(fmt::format("OpenSSL refuses {} here", kind == DigestKind::kSha256 ? "SHA-256" : "MD5"),
                           "a machine in FIPS mode forbids MD5, by which S3 names the content of objects");
}
Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->context, hash.data(), &size);
  return {reinterpret_cast<const char*>(hash.data()), size};
}

std::string sha256(std::string_view bytes) {
  Digest digest(DigestKind::kSha256);
  digest.update(std::as_bytes(std::span(bytes)));
  return digest.finish();
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
       bytes.size(), code.data(), &size);
  return {reinterpret_cast<const char*>(code.data()), size};
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

bool same_bytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_secret() {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw EnvironmentError("OpenSSL has no random bytes here");
  return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace lockstep::core
