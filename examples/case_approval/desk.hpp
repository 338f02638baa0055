#pragma once

#include <functional>
#include <string>

#include "sealane/domain_events.hpp"

#include "case_file.hpp"
#include "database.hpp"

namespace cases {

/// What leaves the service, and which of its fields.
sealane::MappingPolicy PublicEvents();

/// Where the people of a tenant work on its cases: one transaction per command, with everything it entails.
class Desk {
 public:
  Desk(example::Database& database, std::string tenant);

  void Open(const std::string& id, const std::string& title, const std::string& private_note) const;
  /// Loads the case, lets `change` change it, saves it and publishes what happened.
  void Change(const std::string& id, const std::function<void(CaseFile&)>& change) const;

 private:
  void InTransaction(const std::function<CaseFile(sealane::HandlerTransaction&, const Tenant&)>& work) const;

  example::Database& database_;
  std::string tenant_;
  sealane::Outbox outbox_{{.producer = "cases"}};
  sealane::MappingPolicy policy_;
};

}  // namespace cases
