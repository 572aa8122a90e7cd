#include "remote/s3_xml.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace lockstep::remote {
namespace {

constexpr const char* kPage = R"(<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment -->
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>runs</Name><Prefix/><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>
  <NextContinuationToken>1&#x2B;2=</NextContinuationToken>
  <Contents><Key>a &amp; b/&lt;c&gt;.json</Key><Size>12</Size><ETag>&quot;abc&quot;</ETag></Contents>
  <Contents><Key><![CDATA[<raw>&amp;]]></Key><ETag>"d"</ETag><Size>0</Size></Contents>
</ListBucketResult>)";

TEST(S3Xml, ReadsAPageOfAListing) {
  const ObjectPage page = parse_object_page(kPage);
  ASSERT_EQ(page.objects.size(), 2u);
  EXPECT_EQ(page.objects[0].key, "a & b/<c>.json");
  EXPECT_EQ(page.objects[0].bytes, 12);
  EXPECT_EQ(page.objects[0].etag, "abc");
  EXPECT_EQ(page.objects[1].key, "<raw>&amp;");
  EXPECT_EQ(page.next_token, "1+2=");
}

TEST(S3Xml, ReadsPartsAndFaults) {
  const PartPage page = parse_part_page(
      "<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>3</PartNumber><ETag>\"e\"</ETag>"
      "<Size>5</Size></Part></ListPartsResult>");
  ASSERT_EQ(page.parts.size(), 1u);
  EXPECT_EQ(page.parts[0].number, 3);
  EXPECT_EQ(page.parts[0].etag, "e");
  EXPECT_TRUE(page.next_marker.empty());
  EXPECT_EQ(parse_fault("<Error><Code>NoSuchKey</Code><Message>m</Message></Error>").code, "NoSuchKey");
  EXPECT_EQ(parse_fault("<html>502</html>").code, "");
  EXPECT_EQ(parse_fault("Bad Gateway").code, "");
}

TEST(S3Xml, ReadsUnfinishedUploads) {
  const UploadPage page = parse_upload_page(
      "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>runs/b</NextKeyMarker>"
      "<NextUploadIdMarker>2</NextUploadIdMarker><Upload><Key>runs/a</Key><UploadId>1</UploadId></Upload>"
      "<Upload><Key>runs/b</Key><UploadId>2</UploadId></Upload></ListMultipartUploadsResult>");
  ASSERT_EQ(page.uploads.size(), 2u);
  EXPECT_EQ(page.uploads[1].key, "runs/b");
  EXPECT_EQ(page.uploads[1].upload_id, "2");
  EXPECT_EQ(page.next_key, "runs/b");
  EXPECT_EQ(page.next_upload_id, "2");
  EXPECT_TRUE(parse_upload_page("<ListMultipartUploadsResult/>").next_key.empty());
  EXPECT_THROW(
      parse_upload_page("<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>"),
      DataError);
  EXPECT_THROW(parse_upload_page("<ListBucketResult/>"), DataError);
}

TEST(S3Xml, CharactersBeyondAscii) {
  EXPECT_EQ(parse_xml("<a>&#233;&#x20AC;&#x1F600;</a>").text, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST(S3Xml, RefusesWhatIsNone) {
  for (const char* text :
       {"", "text", "<a>", "<a></b>", "<a", "<a x=1/>", "<a x='1/>", "<a/><b/>", "<a>&unknown;</a>", "<a>&#xD800;</a>",
        "<a>&#0;</a>", "<a>&#x110000;</a>", "<!DOCTYPE a><a/>", "<a><![CDATA[x</a>", "<!-- x <a/>", "<>", "</a>"})
    EXPECT_THROW(parse_xml(text), DataError) << text;
  std::string deep;
  for (int i = 0; i < 17; ++i) deep += "<a>";
  EXPECT_NE(tests::message_of([&] { parse_xml(deep); }).find("nested deeper than 16"), std::string::npos);
  EXPECT_THROW(parse_object_page("<ListPartsResult/>"), DataError);
  EXPECT_THROW(
      parse_object_page("<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>"),
      DataError);
  EXPECT_THROW(parse_object_page("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"), DataError);
}

}  // namespace
}  // namespace lockstep::remote
