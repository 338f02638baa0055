#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sealane/event.hpp"
#include "sealane/outbox.hpp"
#include "sealane/result.hpp"

namespace sealane {

class Field;
/// Named values of a domain event. Order is by name.
using Fields = std::map<std::string, Field, std::less<>>;

/// A number kept as its digits, so that an amount is never rounded on the way.
struct Decimal {
  std::string digits;  ///< JSON number syntax, for example "-12.50"
};

/// One value of a domain event: nothing, a truth, a whole number, a decimal, text, or named values inside.
class Field {
 public:
  Field() = default;
  Field(bool value) : value_(value) {}                                                 // NOLINT: implicit on purpose
  Field(int value) : value_(std::int64_t{value}) {}                                    // NOLINT
  Field(std::int64_t value) : value_(value) {}                                         // NOLINT
  Field(Decimal value) : value_(std::move(value)) {}                                   // NOLINT
  Field(std::string value) : value_(std::move(value)) {}                               // NOLINT
  Field(std::string_view value) : value_(std::string(value)) {}                        // NOLINT
  Field(const char* value) : value_(std::string(value)) {}                             // NOLINT
  Field(Fields inside) : value_(std::make_shared<const Fields>(std::move(inside))) {}  // NOLINT

  /// The values inside, or null for a plain value.
  const Fields* inside() const;

 private:
  friend std::string ToJson(const Field& field);
  std::variant<std::monostate, bool, std::int64_t, Decimal, std::string, std::shared_ptr<const Fields>> value_;
};
std::string ToJson(const Field& field);

/// Something that happened inside the service, with everything the service knows about it, secrets included. It never
/// leaves as it is: a MappingPolicy decides what does.
struct DomainEvent {
  std::string type;
  Aggregate aggregate;
  Fields fields;
  std::optional<Timestamp> occurred_at = {};
};

/// Base of an aggregate that collects what happened to it until the unit of work drains it.
class EventRecorder {
 public:
  void Record(DomainEvent event) { recorded_.push_back(std::move(event)); }
  /// Hands the collected events over; the recorder is empty afterwards.
  std::vector<DomainEvent> Release() { return std::exchange(recorded_, {}); }
  bool empty() const { return recorded_.empty(); }

 private:
  std::vector<DomainEvent> recorded_;
};

/// How one domain event becomes one integration event. The payload is a JSON object of the listed fields and nothing
/// else.
struct Mapping {
  std::string topic;
  std::string type;                 ///< of the integration event
  std::vector<std::string> fields;  ///< allow-list; `amount.currency` names a value inside. A name that holds values
                                    ///< inside is refused: list its leaves
  std::int32_t schema_version = 1;
  EventKind kind = EventKind::kEvent;
  std::string key_field = {};  ///< value used as ordering key; empty: the aggregate's id
  std::string schema_id = {};
  bool optional_fields = false;  ///< leave listed fields out when the domain event lacks them, instead of refusing
};

/// Which domain events leave the service, and as what. Types without a mapping do not leave.
class MappingPolicy {
 public:
  /// May be called several times for a type: each adds one integration event.
  MappingPolicy& On(std::string domain_type, Mapping mapping);
  /// Says that events of this type must leave: without a mapping, Validate() and Map() fail.
  MappingPolicy& Require(std::string domain_type);

  /// kMisconfigured (`mapping_missing`, `mapping_invalid`) when a required type has no mapping or a mapping is
  /// incomplete. Call it at start-up.
  Status Validate() const;
  /// Zero or more integration events. Errors: `mapping_missing`, `field_missing`, `field_not_plain`.
  Result<std::vector<Event>> Map(const DomainEvent& event) const;

 private:
  std::map<std::string, std::vector<Mapping>, std::less<>> mappings_;
  std::set<std::string, std::less<>> required_;
};

/// What all events of one command share.
struct CommandContext {
  std::string tenant = {};
  std::string correlation_id = {};
  std::string causation_id = {};
  std::string traceparent = {};
  std::string tracestate = {};
};

/// Collects the domain events of one command and appends what the policy lets out, just before the commit: late
/// enough that order numbers are drawn after the rows are locked, in one round trip. Outbox and policy must outlive
/// it.
class UnitOfWork {
 public:
  UnitOfWork(const Outbox& outbox, const MappingPolicy& policy, CommandContext context)
      : outbox_(outbox), policy_(policy), context_(std::move(context)) {}

  /// Takes over what the aggregate collected.
  void Collect(EventRecorder& recorder);
  void Collect(DomainEvent event) { collected_.push_back(std::move(event)); }

  /// Maps and appends everything collected, all or none. Afterwards the unit is empty; on an error it keeps its
  /// events and nothing was written.
  Result<std::vector<Appended>> Flush(TransactionRef transaction);

 private:
  const Outbox& outbox_;
  const MappingPolicy& policy_;
  CommandContext context_;
  std::vector<DomainEvent> collected_;
};

}  // namespace sealane
