#pragma once

#include <memory>

#include "sealane/json_schema.hpp"
#include "sealane/outbox.hpp"

#include "command.hpp"

namespace sealane::cli {

/// An Outbox as the configuration wants it, with the schemas it checks against.
class OutboxSetup {
 public:
  static Result<std::unique_ptr<OutboxSetup>> Make(CommandContext& context);
  const Outbox& outbox() const { return *outbox_; }

 private:
  std::unique_ptr<JsonSchemas> schemas_;
  std::unique_ptr<Outbox> outbox_;
};

}  // namespace sealane::cli
