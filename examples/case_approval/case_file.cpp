#include "case_file.hpp"

#include "sealane/versions.hpp"

#include "database.hpp"

namespace cases {
namespace {

using example::Execute;
using example::Query;
using sealane::HandlerTransaction;

[[noreturn]] void Refuse(const std::string& code, const std::string& message) {
  throw sealane::SealaneException(sealane::Error(sealane::ErrorKind::kRejected, code, message));
}

}  // namespace

CaseFile CaseFile::Open(const Tenant& tenant, const std::string& id, const std::string& title,
                        const std::string& private_note) {
  CaseFile file(tenant, id);
  file.title_ = title;
  file.private_note_ = private_note;
  file.status_ = "OPEN";
  file.Happened("CaseOpened");
  return file;
}

CaseFile CaseFile::Load(HandlerTransaction& tx, const Tenant& tenant, const std::string& id) {
  const auto rows = Query(tx,
                          "SELECT title, private_note, status, assignee, approved_by, "
                          "version FROM case_file WHERE tenant_id = $1 AND case_id = $2",
                          {tenant.id(), id});
  if (rows.empty()) Refuse("unknown_case", "tenant `" + tenant.id() + "` has no case `" + id + "`");
  CaseFile file(tenant, id);
  const auto& row = rows.front();
  file.title_ = *row[0];
  file.private_note_ = *row[1];
  file.status_ = *row[2];
  file.assignee_ = *row[3];
  file.approved_by_ = *row[4];
  file.version_ = std::stoll(*row[5]);
  return file;
}

void CaseFile::Assign(const std::string& assignee) {
  if (status_ == "APPROVED") Refuse("approved_already", "case `" + id_ + "` is approved and needs nobody");
  status_ = "ASSIGNED";
  assignee_ = assignee;
  Happened("CaseAssigned");
}

void CaseFile::Approve(const std::string& approver) {
  if (status_ != "ASSIGNED") Refuse("not_assigned", "case `" + id_ + "` is " + status_ + " and cannot be approved");
  if (approver == assignee_) Refuse("own_case", "`" + approver + "` works on the case; somebody else approves it");
  status_ = "APPROVED";
  approved_by_ = approver;
  Happened("CaseApproved");
}

void CaseFile::Save(HandlerTransaction& tx) const {
  // Of two who loaded the same version one gets no further than here. The other one's events have gapless versions.
  ValueOrThrow(sealane::AdvanceVersion(tx, {tenant_.id(), "case", id_}, version_ - 1));
  Execute(tx,
          "INSERT INTO case_file (tenant_id, case_id, title, private_note, status, assignee, approved_by, version) "
          "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant_id, case_id) DO UPDATE SET "
          "status = excluded.status, assignee = excluded.assignee, approved_by = excluded.approved_by, "
          "version = excluded.version",
          {tenant_.id(), id_, title_, private_note_, status_, assignee_, approved_by_, version_});
}

void CaseFile::Happened(const std::string& what) {
  ++version_;
  // Everything that is known goes in, the note included: which of it leaves the service is not decided here.
  Record({.type = what,
          .aggregate = {.type = "case", .id = id_, .version = version_},
          .fields = {{"case_id", id_},
                     {"title", title_},
                     {"private_note", private_note_},
                     {"assignee", assignee_},
                     {"approved_by", approved_by_},
                     // Cases of two tenants may have one id; what keeps order, and waits together, must not.
                     {"order", tenant_.id() + "/" + id_}}});
}

}  // namespace cases
