#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::remote {

/// An element of an answer of S3. Attributes are read over.
struct XmlElement {
  std::string name;
  std::string text;  ///< Of an element without children.
  std::vector<XmlElement> children;

  const XmlElement* child(std::string_view wanted) const;
  std::string text_of(std::string_view wanted) const;  ///< Of the first such child; "" without one.
};

/// DataError with the place for what is not well-formed, has a document type, an unknown entity, bytes that no text
/// may hold, or is nested deeper than 16.
XmlElement parse_xml(std::string_view text);

struct ListedObject {
  std::string key;
  int64_t bytes = 0;
  std::string etag;  ///< Without quotes.
};

/// One page of ListObjectsV2.
struct ObjectPage {
  std::vector<ListedObject> objects;
  std::string next_token;  ///< "": the last page.
};
ObjectPage parse_object_page(std::string_view xml);

struct UploadedPart {
  int64_t number = 0;
  int64_t bytes = 0;
  std::string etag;
};

/// One page of ListParts.
struct PartPage {
  std::vector<UploadedPart> parts;
  std::string next_marker;  ///< "": the last page.
};
PartPage parse_part_page(std::string_view xml);

struct UnfinishedUpload {
  std::string key, upload_id;
};

/// One page of ListMultipartUploads.
struct UploadPage {
  std::vector<UnfinishedUpload> uploads;
  std::string next_key, next_upload_id;  ///< Both "": the last page.
};
UploadPage parse_upload_page(std::string_view xml);

/// What an <Error> says; both empty where the text is none.
struct S3Fault {
  std::string code, message, region;
};
S3Fault parse_fault(std::string_view xml);

}  // namespace lockstep::remote
