#pragma once

#include <cstdint>
#include <string>

#include "sealane/domain_events.hpp"
#include "sealane/handler.hpp"

#include "tenant.hpp"

namespace cases {

/// A case that is opened, assigned and approved. It collects what happened to it; whoever saves it publishes that.
/// Throws a SealaneException for what the business does not allow.
class CaseFile : public sealane::EventRecorder {
 public:
  static CaseFile Open(const Tenant& tenant, const std::string& id, const std::string& title,
                       const std::string& private_note);
  static CaseFile Load(sealane::HandlerTransaction& tx, const Tenant& tenant, const std::string& id);

  void Assign(const std::string& assignee);
  void Approve(const std::string& approver);

  /// `version_conflict` when somebody else has changed it since it was loaded.
  void Save(sealane::HandlerTransaction& tx) const;

 private:
  CaseFile(Tenant tenant, std::string id) : tenant_(std::move(tenant)), id_(std::move(id)) {}
  void Happened(const std::string& what);

  Tenant tenant_;
  std::string id_;
  std::string title_;
  std::string private_note_;
  std::string status_;
  std::string assignee_;
  std::string approved_by_;
  std::int64_t version_ = 0;
};

}  // namespace cases
