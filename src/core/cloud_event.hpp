#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/envelope_view.hpp"
#include "core/text_arena.hpp"

namespace sealane {

/// One CloudEvents context attribute.
struct CloudAttribute {
  std::string_view header_name;  ///< as in the binary mode of the Kafka binding: `ce_id`, `ce_tenantid`, ...
  std::string_view value;
  bool is_integer = false;  ///< a number in the JSON format; CloudEvents integers have 32 bits

  /// The bare name: `id`, `tenantid`, ...
  std::string_view name() const { return header_name.substr(3); }
};

/// Appends the event's attributes in CloudEvents 1.0, `specversion` first, without `datacontenttype`, data and trace
/// context; absent ones are left out. An empty `source` becomes `/sealane/<producer>`. Values lie in the event's
/// buffer, in `source` or in `texts`.
void AppendCloudAttributes(std::vector<CloudAttribute>& out, TextArena& texts, const EnvelopeView& event,
                           std::string_view source);

/// The room in a TextArena that the attributes of this event need at most.
std::size_t CloudAttributesSizeMax(const EnvelopeView& event);

}  // namespace sealane
