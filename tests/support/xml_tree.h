#pragma once
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <libxml/xpathInternals.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::tests {

/// One element found by XPath.
struct XmlElement {
  std::string name{}, text{};  ///< Text of everything below it.
  std::map<std::string, std::string> attributes{};

  double number(const std::string& attribute) const { return std::strtod(attributes.at(attribute).c_str(), nullptr); }
};

/// A well-formed XML text, parsed strictly. The prefix s: stands for SVG.
class XmlTree {
 public:
  explicit XmlTree(const std::string& text) {
    document_.reset(xmlReadMemory(text.data(), static_cast<int>(text.size()), "test.xml", nullptr,
                                  XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_NONET));
    if (document_ == nullptr) {
      const xmlError* error = xmlGetLastError();
      throw std::runtime_error("no valid XML: line " + std::to_string(error != nullptr ? error->line : 0) + ": " +
                               (error != nullptr ? error->message : "?"));
    }
    context_.reset(xmlXPathNewContext(document_.get()));
    xmlXPathRegisterNs(context_.get(), BAD_CAST "s", BAD_CAST "http://www.w3.org/2000/svg");
  }

  std::vector<XmlElement> find(const std::string& xpath) const {
    const std::unique_ptr<xmlXPathObject, decltype(&xmlXPathFreeObject)> found(
        xmlXPathEvalExpression(BAD_CAST xpath.c_str(), context_.get()), &xmlXPathFreeObject);
    if (found == nullptr) throw std::runtime_error("no valid XPath: " + xpath);
    std::vector<XmlElement> elements;
    for (int index = 0; found->nodesetval != nullptr && index < found->nodesetval->nodeNr; ++index)
      elements.push_back(read(found->nodesetval->nodeTab[index]));
    return elements;
  }

 private:
  static std::string owned(xmlChar* text) {
    const std::string copy = text != nullptr ? reinterpret_cast<const char*>(text) : "";
    xmlFree(text);
    return copy;
  }
  static XmlElement read(xmlNode* node) {
    XmlElement element{.name = reinterpret_cast<const char*>(node->name), .text = owned(xmlNodeGetContent(node))};
    for (xmlAttr* attribute = node->properties; attribute != nullptr; attribute = attribute->next)
      element.attributes[reinterpret_cast<const char*>(attribute->name)] =
          owned(xmlNodeGetContent(reinterpret_cast<xmlNode*>(attribute)));
    return element;
  }

  std::unique_ptr<xmlDoc, decltype(&xmlFreeDoc)> document_{nullptr, &xmlFreeDoc};
  std::unique_ptr<xmlXPathContext, decltype(&xmlXPathFreeContext)> context_{nullptr, &xmlXPathFreeContext};
};

}  // namespace lockstep::tests
