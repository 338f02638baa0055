#include "sealane/domain_events.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "core/json_object.hpp"
#include "core/json_scan.hpp"

namespace sealane {
namespace {

// The payload under construction. It starts empty and gets only what a mapping lists, so a field that is not listed
// has no way in.
struct Branch {
  std::string json;  // of a leaf
  std::vector<std::pair<std::string, Branch>> inside;

  Branch& Child(std::string_view name) {
    const auto found =
        std::find_if(inside.begin(), inside.end(), [&](const auto& child) { return child.first == name; });
    if (found != inside.end()) return found->second;
    return inside.emplace_back(std::string(name), Branch{}).second;
  }
};

std::string ToJson(const Branch& branch) {
  JsonObject json;
  for (const auto& [name, child] : branch.inside) {
    json.Raw(name, child.json.empty() ? ToJson(child) : child.json);
  }
  return std::move(json).Close();
}

std::vector<std::string_view> SplitPath(std::string_view path) {
  std::vector<std::string_view> names;
  while (true) {
    const std::size_t dot = path.find('.');
    names.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return names;
    path.remove_prefix(dot + 1);
  }
}

const Field* Find(const Fields& fields, std::string_view path) {
  const Fields* level = &fields;
  const Field* found = nullptr;
  for (const std::string_view name : SplitPath(path)) {
    if (level == nullptr) return nullptr;
    const auto at = level->find(name);
    if (at == level->end()) return nullptr;
    found = &at->second;
    level = found->inside();
  }
  return found;
}

Error MappingInvalid(std::string_view domain_type, std::string_view what) {
  return Error(ErrorKind::kMisconfigured, "mapping_invalid", fmt::format("the mapping of {} {}", domain_type, what))
      .WithHint("correct the MappingPolicy; Validate() at start-up finds this before the first event");
}

Error MappingMissing(std::string_view domain_type) {
  return Error(ErrorKind::kMisconfigured, "mapping_missing",
               fmt::format("events of type {} must leave the service, but no mapping says as what", domain_type))
      .WithHint("add On() for the type, or drop its Require()");
}

Error FieldMissing(const DomainEvent& event, std::string_view path) {
  return Error(ErrorKind::kRejected, "field_missing",
               fmt::format("domain event {} has no field {}, which its mapping needs", event.type, path))
      .WithField(std::string(path))
      .WithHint("record the field, or set optional_fields on the mapping");
}

// The JSON of a plain value, checked: text that is not UTF-8 or a Decimal that is no number must not get through.
Result<JsonSlice> PlainJson(const DomainEvent& event, std::string_view path, const Field& field, std::string& json) {
  if (field.inside() != nullptr) {
    return Error(ErrorKind::kMisconfigured, "field_not_plain",
                 fmt::format("field {} of domain event {} holds values inside", path, event.type))
        .WithField(std::string(path))
        .WithHint("list its leaves, for example " + std::string(path) + ".name");
  }
  json = ToJson(field);
  const auto scanned = ScanJson(json);
  if (scanned && scanned->type != JsonType::kObject && scanned->type != JsonType::kArray) return *scanned;
  return Error(ErrorKind::kRejected, "field_invalid",
               fmt::format("field {} of domain event {} is neither UTF-8 text nor a JSON number", path, event.type))
      .WithField(std::string(path))
      .WithHint("a Decimal holds digits such as -12.50; text is UTF-8");
}

Result<std::string> PayloadOf(const DomainEvent& event, const Mapping& mapping) {
  Branch payload;
  for (const std::string& path : mapping.fields) {
    const Field* const field = Find(event.fields, path);
    if (field == nullptr) {
      if (mapping.optional_fields) continue;
      return FieldMissing(event, path);
    }
    std::string json;
    SEALANE_RETURN_IF_ERROR(PlainJson(event, path, *field, json));
    Branch* leaf = &payload;
    for (const std::string_view name : SplitPath(path)) leaf = &leaf->Child(name);
    leaf->json = std::move(json);
  }
  return ToJson(payload);
}

// Text as it is, a number by its digits. A key decides about order, so it is never optional.
Result<std::string> KeyOf(const DomainEvent& event, const Mapping& mapping) {
  if (mapping.key_field.empty()) {
    if (event.aggregate.id.empty()) return FieldMissing(event, "aggregate_id");
    return event.aggregate.id;
  }
  const Field* const field = Find(event.fields, mapping.key_field);
  if (field == nullptr) return FieldMissing(event, mapping.key_field);
  std::string json;
  SEALANE_ASSIGN_OR_RETURN(const JsonSlice value, PlainJson(event, mapping.key_field, *field, json));
  if (value.type == JsonType::kNull) return FieldMissing(event, mapping.key_field);
  if (value.type == JsonType::kString) return DecodeJsonString(value);
  return json;
}

Result<Event> MapOne(const DomainEvent& event, const Mapping& mapping) {
  SEALANE_ASSIGN_OR_RETURN(std::string payload, PayloadOf(event, mapping));
  SEALANE_ASSIGN_OR_RETURN(std::string key, KeyOf(event, mapping));
  return Event{
      .topic = mapping.topic,
      .key = std::move(key),
      .type = mapping.type,
      .payload = std::move(payload),
      .aggregate = event.aggregate,
      .schema_version = mapping.schema_version,
      .kind = mapping.kind,
      .schema_id = mapping.schema_id,
      .occurred_at = event.occurred_at,
  };
}

Status CheckPaths(std::string_view domain_type, const Mapping& mapping) {
  for (const std::string& path : mapping.fields) {
    const auto names = SplitPath(path);
    if (std::any_of(names.begin(), names.end(), [](std::string_view name) { return name.empty(); })) {
      return MappingInvalid(domain_type, fmt::format("lists the field \"{}\", which has an empty name in it", path));
    }
    for (const std::string& other : mapping.fields) {
      const bool same = &other != &path && other == path;
      if (same || other.starts_with(path + ".")) {
        return MappingInvalid(domain_type, fmt::format("lists both {} and {}", path, other));
      }
    }
  }
  return Ok();
}

Status CheckMapping(std::string_view domain_type, const Mapping& mapping) {
  if (mapping.topic.empty()) return MappingInvalid(domain_type, "names no topic");
  if (mapping.type.empty()) return MappingInvalid(domain_type, "names no integration event type");
  if (mapping.schema_version < 1) return MappingInvalid(domain_type, "has a schema version below 1");
  return CheckPaths(domain_type, mapping);
}

}  // namespace

const Fields* Field::inside() const {
  const auto* const fields = std::get_if<std::shared_ptr<const Fields>>(&value_);
  return fields == nullptr ? nullptr : fields->get();
}

// Decimals and text go through as they are, so that MappingPolicy can refuse broken ones instead of shipping a
// repaired value.
std::string ToJson(const Field& field) {
  struct Writer {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(const Decimal& value) const { return value.digits; }
    std::string operator()(const std::string& value) const {
      return IsUtf8(value) ? JsonString(value) : "\"" + value + "\"";
    }
    std::string operator()(const std::shared_ptr<const Fields>& inside) const {
      JsonObject json;
      for (const auto& [name, value] : *inside) json.Raw(name, ToJson(value));
      return std::move(json).Close();
    }
  };
  return std::visit(Writer{}, field.value_);
}

MappingPolicy& MappingPolicy::On(std::string domain_type, Mapping mapping) {
  mappings_[std::move(domain_type)].push_back(std::move(mapping));
  return *this;
}

MappingPolicy& MappingPolicy::Require(std::string domain_type) {
  required_.insert(std::move(domain_type));
  return *this;
}

Status MappingPolicy::Validate() const {
  for (const std::string& domain_type : required_) {
    if (!mappings_.contains(domain_type)) return MappingMissing(domain_type);
  }
  for (const auto& [domain_type, mappings] : mappings_) {
    for (const Mapping& mapping : mappings) SEALANE_RETURN_IF_ERROR(CheckMapping(domain_type, mapping));
  }
  return Ok();
}

Result<std::vector<Event>> MappingPolicy::Map(const DomainEvent& event) const {
  std::vector<Event> events;
  const auto found = mappings_.find(event.type);
  if (found == mappings_.end()) {
    if (required_.contains(event.type)) return MappingMissing(event.type);
    return events;
  }
  for (const Mapping& mapping : found->second) {
    SEALANE_ASSIGN_OR_RETURN(Event mapped, MapOne(event, mapping));
    // One change may go to two topics under one type. The first guards the aggregate's version; the second is no
    // contradiction to it.
    mapped.unique_version =
        std::none_of(events.begin(), events.end(), [&](const Event& earlier) { return earlier.type == mapped.type; });
    events.push_back(std::move(mapped));
  }
  return events;
}

void UnitOfWork::Collect(EventRecorder& recorder) {
  for (DomainEvent& event : recorder.Release()) collected_.push_back(std::move(event));
}

Result<std::vector<Appended>> UnitOfWork::Flush(TransactionRef transaction) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < collected_.size(); ++i) {
    auto mapped = policy_.Map(collected_[i]);
    if (!mapped) {
      return std::move(mapped).error().WithContext(
          fmt::format("in domain event {} of {} ({})", i + 1, collected_.size(), collected_[i].type));
    }
    for (Event& event : *mapped) {
      event.tenant = context_.tenant;
      event.correlation_id = context_.correlation_id;
      event.causation_id = context_.causation_id;
      event.traceparent = context_.traceparent;
      event.tracestate = context_.tracestate;
      events.push_back(std::move(event));
    }
  }
  SEALANE_ASSIGN_OR_RETURN(auto appended, outbox_.AppendAll(std::move(transaction), events));
  collected_.clear();
  return appended;
}

}  // namespace sealane
