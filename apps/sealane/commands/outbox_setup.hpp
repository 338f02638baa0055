#pragma once

#include <memory>
#include <optional>

#include "sealane/bell.hpp"
#include "sealane/json_schema.hpp"
#include "sealane/outbox.hpp"

#include "command.hpp"

namespace sealane::cli {

/// An Outbox as the configuration wants it, with the schemas it checks against.
class OutboxSetup {
 public:
  static Result<std::unique_ptr<OutboxSetup>> Make(CommandContext& context);
  const Outbox& outbox() const { return *outbox_; }
  /// After a commit: tells a relay that listens at relay.wake, if that is configured.
  void Ring() const {
    if (bell_) bell_->Ring();
  }

 private:
  std::unique_ptr<JsonSchemas> schemas_;
  std::unique_ptr<Outbox> outbox_;
  std::optional<Bell> bell_;
};

}  // namespace sealane::cli
