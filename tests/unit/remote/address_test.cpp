#include "remote/address.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace lockstep::remote {
namespace {

TEST(Address, Forms) {
  const Address s3 = parse_address("s3://bucket//a/b/");
  EXPECT_EQ(s3.kind, AddressKind::kS3);
  EXPECT_EQ(s3.bucket, "bucket");
  EXPECT_EQ(s3.path, "a/b");
  EXPECT_EQ(s3.child("c").text(), "s3://bucket/a/b/c");
  EXPECT_EQ(parse_address("s3://bucket").child("c").path, "c");
  EXPECT_EQ(parse_address("file:///data/x").path, "/data/x");
  EXPECT_EQ(parse_address("runs/").child("one").path, "runs/one");
  EXPECT_EQ(parse_address("https://host/a.tar").kind, AddressKind::kHttp);
  EXPECT_TRUE(is_url("s3://x"));
  EXPECT_FALSE(is_url("file:///x"));
  EXPECT_FALSE(is_url("pipe:curl https://x"));
}

TEST(Address, SecretsAreNotShown) {
  EXPECT_EQ(parse_address("https://user:word@host/a.tar?X-Amz-Signature=abc#f").text(), "https://host/a.tar");
  EXPECT_EQ(parse_address("https://host/a@b.tar").text(), "https://host/a@b.tar");
}

TEST(Address, RefusesOthers) {
  for (const char* text :
       {"s3://", "s3:///key", "s3://ab/x", "s3://b%ket/x", "gs://bucket/x", "file://host/x", "", "a\nb"})
    EXPECT_NE(tests::message_of<UsageError>([&] { parse_address(text); }), "no error") << text;
}

}  // namespace
}  // namespace lockstep::remote
