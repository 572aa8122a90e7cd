// The examples of "Authenticating Requests: Using the Authorization Header" in Amazon's S3 API reference.
#include "remote/signing.h"

#include <gtest/gtest.h>

#include "core/digest.h"
#include "remote/s3_client.h"

namespace lockstep::remote {
namespace {

const Credentials kExampleKeys{.key_id = "AKIAIOSFODNN7EXAMPLE", .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
constexpr const char* kExampleTime = "20130524T000000Z";

std::string example_signature(SignedRequest request, const std::string& payload = "") {
  request.payload_sha256 = core::to_hex(core::sha256(payload));
  request.headers["host"] = "examplebucket.s3.amazonaws.com";
  request.headers["x-amz-date"] = kExampleTime;
  request.headers["x-amz-content-sha256"] = request.payload_sha256;
  const std::string header = authorization(request, kExampleKeys, "us-east-1", kExampleTime);
  EXPECT_EQ(header.find("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "), 0u);
  return header.substr(header.rfind('=') + 1);
}

TEST(Signing, PublishedExamples) {
  EXPECT_EQ(example_signature({.path = "/test.txt", .headers = {{"range", "bytes=0-9"}}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(example_signature(
                {.method = "PUT",
                 .path = "/" + percent_encoded("test$file.text", true),
                 .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}},
                "Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(example_signature({.query = {{"lifecycle", ""}}}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(example_signature({.query = {{"prefix", "J"}, {"max-keys", "2"}}}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(Signing, NamesAllSignedHeadersInOrder) {
  const std::string header = authorization(
      {.headers = {{"x-amz-date", kExampleTime}, {"host", "h"}, {"content-md5", "x"}}, .payload_sha256 = "p"},
      kExampleKeys, "eu-north-1", kExampleTime);
  EXPECT_NE(header.find("/20130524/eu-north-1/s3/aws4_request, SignedHeaders=content-md5;host;x-amz-date, "),
            std::string::npos);
}

TEST(Signing, EncodesAsAmazonAsks) {
  EXPECT_EQ(percent_encoded("a b+c/~-._\xc3\xa9", true), "a%20b%2Bc/~-._%C3%A9");
  EXPECT_EQ(percent_encoded("a/b", false), "a%2Fb");
  EXPECT_EQ(query_text({{"uploads", ""}, {"prefix", "runs/a b"}}), "prefix=runs%2Fa%20b&uploads=");
  EXPECT_EQ(signing_time(1369353600), kExampleTime);
}

}  // namespace
}  // namespace lockstep::remote
