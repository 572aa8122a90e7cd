#include "core/digest.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(Digest, KnownValues) {
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Digest md5(DigestKind::kMd5);
  md5.update(std::as_bytes(std::span(std::string_view("message digest"))));
  EXPECT_EQ(to_hex(md5.finish()), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),  // RFC 4231, case 2
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_base64("abcd"), "YWJjZA==");
  EXPECT_TRUE(same_bytes("abc", "abc"));
  EXPECT_FALSE(same_bytes("abc", "abd"));
  EXPECT_FALSE(same_bytes("abc", "abcd"));
}

TEST(Digest, SecretsDiffer) {
  EXPECT_EQ(random_secret().size(), 32u);
  EXPECT_NE(random_secret(), random_secret());
}

}  // namespace
}  // namespace lockstep::core
