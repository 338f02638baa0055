#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

namespace sealane {

/// The headers of a message, taken one by one; what nobody takes is the event's own.
///
/// Upper and lower case count as the same in the names that are asked for, because some brokers do not tell them
/// apart. `headers` must outlive the reader.
class HeaderReader {
 public:
  explicit HeaderReader(const Headers& headers) : headers_(headers), taken_(headers.size(), false) {}

  bool Has(std::string_view name) const;
  /// Empty when there is no such header, which means the same: empty ones are not written. kRejected when it stands
  /// twice (`field_doubled`) or is no text.
  Result<std::string> Take(std::string_view name);

  using Named = std::vector<std::pair<std::string, std::string>>;
  /// All whose name starts so; their names in lower case and without the start. The same errors.
  Result<Named> TakeAll(std::string_view prefix);

  /// What is left, in the order it came, `own-<name>` with its name back if that is a reserved one. Of several with
  /// the same name the last counts. A header that is no text is not an event's and is left out.
  Headers Rest() const;

 private:
  const Headers& headers_;
  std::vector<bool> taken_;
};

}  // namespace sealane
