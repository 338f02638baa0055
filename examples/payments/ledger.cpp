#include "ledger.hpp"

#include <cstdio>
#include <numeric>

#include "sealane/assert.hpp"

#include "database.hpp"

namespace payments {
namespace {

struct Posting {
  std::string account;
  std::int64_t amount_minor;  // debits are positive
};

/// The one way into the ledger.
void Post(sealane::HandlerTransaction& tx, const Payment& payment, const std::vector<Posting>& entry) {
  const auto sum = std::accumulate(entry.begin(), entry.end(), std::int64_t{0},
                                   [](std::int64_t all, const Posting& one) { return all + one.amount_minor; });
  SEALANE_ASSERT(sum == 0, "debits equal credits");
  for (const Posting& posting : entry) {
    example::Execute(tx,
                     "INSERT INTO ledger_posting (payment_id, account, merchant_id, currency, amount_minor) "
                     "VALUES ($1, $2, $3, $4, $5)",
                     {payment.id(), posting.account, payment.merchant(), payment.currency(), posting.amount_minor});
  }
}

}  // namespace

void PostCapture(sealane::HandlerTransaction& tx, const Payment& payment) {
  Post(tx, payment,
       {{"provider_receivable", payment.amount_minor()},
        {"merchant_payable", -payment.net_minor()},
        {"fee_income", -payment.fee_minor()}});
}

bool PrintBalance(sealane::HandlerTransaction& tx) {
  for (const auto& row : example::Query(tx,
                                        "SELECT account, currency, sum(amount_minor) FROM ledger_posting "
                                        "GROUP BY account, currency ORDER BY account, currency")) {
    std::printf("%-20s %s %12s\n", row[0]->c_str(), row[1]->c_str(), row[2]->c_str());
  }
  const auto faults = example::Query(tx, "SELECT payment_id, status, postings, off_by FROM ledger_fault");
  for (const auto& row : faults) {
    std::printf("FAULT %s is %s with %s postings, off by %s\n", row[0]->c_str(), row[1]->c_str(), row[2]->c_str(),
                row[3]->c_str());
  }
  if (faults.empty()) std::printf("balanced\n");
  return faults.empty();
}

}  // namespace payments
