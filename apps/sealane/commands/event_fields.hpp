#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

namespace sealane::cli {

/// How a field is written in JSON. On the command line all are text.
enum class EventFieldType : std::uint8_t { kText, kInteger };

/// A field of an event that is one text or number: `emit` makes a flag of each and `emit --jsonl` a member.
struct EventField {
  std::string_view name;        ///< in JSON, `aggregate_type`; the flag is `--aggregate-type`
  std::string_view value_name;  ///< for the help
  std::string_view help;
  EventFieldType type;
  bool required;
  /// Errors are kRejected (`invalid_field`, `invalid_time`).
  Status (*set)(Event& event, std::string_view text, Timestamp now);
};

/// All but payload, headers and unique_version, which have forms of their own.
std::span<const EventField> EventFields();

/// `--aggregate-type`
std::string FlagName(const EventField& field);

}  // namespace sealane::cli
