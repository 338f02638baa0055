#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sealane/envelope.hpp"

namespace sealane {

/// One CloudEvents context attribute, by its bare name (`id`, `tenantid`, ...).
struct CloudAttribute {
  std::string_view name;
  std::string value;
  bool is_integer = false;  ///< a number in the JSON format; CloudEvents integers have 32 bits
};

/// The event's attributes in CloudEvents 1.0, `specversion` first, without `datacontenttype`, data and trace context;
/// absent ones are left out. An empty `source` becomes `/sealane/<producer>`.
std::vector<CloudAttribute> CloudAttributes(const Envelope& envelope, std::string_view source);

/// The structured form: attributes and data in one document. A JSON payload stands in it byte for byte as `data`, any
/// other as `data_base64`.
std::string CloudEventJson(const Envelope& envelope, std::string_view source);

}  // namespace sealane
