#include "consumers.hpp"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "sealane/projection.hpp"
#include "sealane/tasks.hpp"

namespace cases {
namespace {

using nlohmann::json;
using sealane::Decision;
using sealane::Envelope;
using sealane::HandlerTransaction;

/// A payload that cannot be read today cannot be read tomorrow: it is set aside at once instead of being tried again.
sealane::Handler Reading(std::function<Decision(const json&, const Envelope&, HandlerTransaction&)> handler) {
  return [handler = std::move(handler)](const Envelope& event, HandlerTransaction& tx) {
    try {
      return handler(json::parse(event.payload), event, tx);
    } catch (const json::exception&) {
      return Decision::Reject("unreadable_payload", "the payload of a " + event.type + " is not as agreed");
    }
  };
}

/// The event's tenant was checked before this is called, and it is a part of the key: a row of another tenant is out
/// of reach, whatever the payload says.
Decision Show(HandlerTransaction& tx, const json& change, const Envelope& event, const std::string& status) {
  sealane::ProjectedRow row{
      .table = "case_view",
      .key = {{"tenant_id", event.tenant}, {"case_id", change.at("case_id").get<std::string>()}},
      .set = {{"status", status}}};
  for (const char* column : {"title", "assignee", "approved_by"}) {
    if (change.contains(column)) row.set.emplace_back(column, change[column].get<std::string>());
  }
  return ValueOrThrow(Project(tx, row, event)) ? Decision::Done() : Decision::Ignore("known");
}

}  // namespace

sealane::Handlers KeepView() {
  sealane::Handlers handlers;
  const std::map<std::string, std::string> statuses = {
      {"case.opened", "open"}, {"case.assigned", "assigned"}, {"case.approved", "approved"}};
  for (const auto& [type, status] : statuses) {
    handlers.On(type, Reading([status = status](const json& change, const Envelope& event, HandlerTransaction& tx) {
                  return Show(tx, change, event, status);
                }));
  }
  return handlers;
}

sealane::Handlers FulfilCommands() {
  sealane::Handlers handlers;
  handlers.On("SendApprovalEmail", Reading([](const json& wish, const Envelope& command, HandlerTransaction& tx) {
                const json mail = {{"to", wish.at("assignee")},
                                   {"subject", "Approved: " + wish.at("title").get<std::string>()}};
                // A mail cannot be rolled back, so none is sent here: the task is, after the commit, and its key is
                // the command's id however often that takes.
                ValueOrThrow(sealane::Tasks().Enqueue(tx, {.target = "mail",
                                                           .operation = "/messages",
                                                           .idempotency_key = command.id.ToString(),
                                                           .request = mail.dump(),
                                                           .tenant = command.tenant}));
                return Decision::Done();
              }));
  return handlers;
}

}  // namespace cases
