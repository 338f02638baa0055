#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

#include "core/envelope_view.hpp"

namespace sealane {

/// The broker's topic of an event: its own, or made from its fields by a pattern such as `${aggregate_type}.events`.
class TopicTemplate {
 public:
  /// kMisconfigured (`bad_topic_template`) for a field that does not exist or a brace that does not close.
  static Result<TopicTemplate> Parse(std::string_view pattern);

  /// Valid until the next call. Characters that a topic cannot have become `_`.
  std::string_view Apply(const EnvelopeView& event);

 private:
  struct Part {
    std::string text;
    std::string_view EnvelopeView::*field = nullptr;  // or the text
    bool kind = false;                                // the one field that is not a text
  };

  std::vector<Part> parts_;
  std::string made_;
};

}  // namespace sealane
