#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sealane/admission.hpp"
#include "sealane/result.hpp"

namespace sealane {

struct JsonSchemasOptions {
  bool require_schema = false;  ///< refuse events whose type and version have no schema, instead of accepting them
};

/// JSON Schemas (draft-07) by event type and schema version, for OutboxOptions::schema_check.
///
///     sealane::JsonSchemas schemas;
///     schemas.Add("OrderPlaced", 1, R"({"type":"object","required":["id"]})");
///     sealane::Outbox outbox({.schema_check = &schemas});
///
/// The payload is only looked at; the bytes that are stored are the bytes that were given. Because readers disagree
/// on them, a payload with a doubled member name, a name over 1 KiB or nesting deeper than 64 does not fit any
/// schema. `format` is an annotation and not checked, as draft-07 permits. References to other documents are not
/// followed.
///
/// Add everything first; Check() may then be called from several threads.
class JsonSchemas final : public SchemaCheck {
 public:
  explicit JsonSchemas(JsonSchemasOptions options = {});
  ~JsonSchemas() override;
  JsonSchemas(JsonSchemas&&) noexcept;
  JsonSchemas& operator=(JsonSchemas&&) noexcept;

  /// kMisconfigured: `invalid_schema` for a text that is no schema, `doubled_schema` for a second one.
  Status Add(std::string_view type, std::int32_t version, std::string_view schema);
  /// Adds every `<type>.v<version>.json` of a folder; another *.json is an error, other files are not looked at.
  Status LoadDirectory(const std::string& path);
  std::size_t size() const;

  /// kRejected `schema_mismatch` with the path inside the payload and the reason; `schema_unknown` when there is none
  /// and options require one.
  Status Check(const Envelope& envelope) const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sealane
