#include "commands/outbox_setup.hpp"

namespace sealane::cli {

Result<std::unique_ptr<OutboxSetup>> OutboxSetup::Make(CommandContext& context) {
  SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
  auto setup = std::make_unique<OutboxSetup>();
  OutboxOptions options{.producer = config->Text(Key::kOutboxProducer)};
  options.limits.payload_max = config->Size(Key::kOutboxPayloadMax);
  if (const std::string& folder = config->Text(Key::kOutboxSchemasDir); !folder.empty()) {
    setup->schemas_ = std::make_unique<JsonSchemas>();
    SEALANE_RETURN_IF_ERROR(setup->schemas_->LoadDirectory(folder));
    options.schema_check = setup->schemas_.get();
  }
  setup->outbox_ = std::make_unique<Outbox>(std::move(options), context.clock(), EventIdGenerator::Instance());
  if (const std::string& address = config->Text(Key::kRelayWake); !address.empty()) {
    SEALANE_ASSIGN_OR_RETURN(setup->bell_, Bell::Open(address));
  }
  return setup;
}

}  // namespace sealane::cli
