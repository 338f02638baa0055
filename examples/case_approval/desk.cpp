#include "desk.hpp"

namespace cases {

sealane::MappingPolicy PublicEvents() {
  using sealane::EventKind;
  sealane::MappingPolicy policy;
  policy
      .On("CaseOpened",
          {.topic = "cases", .type = "case.opened", .fields = {"case_id", "title"}, .key_field = "order"})
      .On("CaseAssigned",
          {.topic = "cases", .type = "case.assigned", .fields = {"case_id", "assignee"}, .key_field = "order"})
      .On("CaseApproved",
          {.topic = "cases", .type = "case.approved", .fields = {"case_id", "approved_by"}, .key_field = "order"})
      // The same happening is also a wish: a command has one that fulfils it, and a topic of its own.
      .On("CaseApproved", {.topic = "case-commands",
                           .type = "SendApprovalEmail",
                           .fields = {"case_id", "title", "assignee"},
                           .kind = EventKind::kCommand,
                           .key_field = "order"});
  for (const char* type : {"CaseOpened", "CaseAssigned", "CaseApproved"}) policy.Require(type);
  return policy;
}

Desk::Desk(example::Database& database, std::string tenant)
    : database_(database), tenant_(std::move(tenant)), policy_(PublicEvents()) {
  ValueOrThrow(policy_.Validate());
}

void Desk::Open(const std::string& id, const std::string& title, const std::string& private_note) const {
  InTransaction([&](sealane::HandlerTransaction&, const Tenant& tenant) {
    return CaseFile::Open(tenant, id, title, private_note);
  });
}

void Desk::Change(const std::string& id, const std::function<void(CaseFile&)>& change) const {
  InTransaction([&](sealane::HandlerTransaction& tx, const Tenant& tenant) {
    CaseFile file = CaseFile::Load(tx, tenant, id);
    change(file);
    return file;
  });
}

void Desk::InTransaction(const std::function<CaseFile(sealane::HandlerTransaction&, const Tenant&)>& work) const {
  // [unit]
  example::Transaction tx(database_);
  const Tenant tenant = Tenant::Resolve(tx, tenant_);
  CaseFile file = work(tx, tenant);
  file.Save(tx);
  sealane::UnitOfWork unit(outbox_, policy_, {.tenant = tenant.id()});
  unit.Collect(file);
  ValueOrThrow(unit.Flush(tx));
  tx.Commit();
  // [/unit]
}

}  // namespace cases
