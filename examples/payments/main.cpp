// Captures payments and keeps a ledger, and tells the world about it: what is booked and what is told commit
// together.
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "sealane/inbox.hpp"

#include "cashier.hpp"
#include "consumers.hpp"
#include "ledger.hpp"

namespace {

using Words = std::vector<std::string>;

constexpr const char* kUsage =
    "usage: payments authorize STORE PAYMENT MERCHANT CURRENCY MINOR CARD   a payment that the bank agreed to\n"
    "       payments capture STORE PROVIDER_URL PAYMENT...                  ask the provider, book its answer\n"
    "       payments repair STORE SECONDS                                   take up what a dead process left\n"
    "       payments balance STORE                                          the accounts; 1 when they are wrong\n"
    "       payments settle STORE BROKER CONSUMER TOPIC [caught-up]         book what the provider tells later\n"
    "       payments report STORE BROKER CONSUMER TOPIC [caught-up]         keep the merchants' report\n"
    "STORE is postgres://... or sqlite:PATH, BROKER is kafka://... or journal:PATH. The provider's answer is waited\n"
    "for as many seconds as PROVIDER_TIMEOUT says, or 2.\n";

int Fail(const std::exception& failure) {
  return std::fprintf(stderr, "payments: %s\n", failure.what()), 1;
}

std::int64_t Number(const std::string& word) {
  std::size_t read = 0;
  const std::int64_t number = std::isdigit(static_cast<unsigned char>(word[0])) != 0 ? std::stoll(word, &read) : 0;
  if (word.empty() || read != word.size()) throw std::invalid_argument("`" + word + "` is not a whole number");
  return number;
}

int Authorize(const Words& words) {
  example::Database database(words[0]);
  example::Transaction tx(database);
  const bool written = payments::Payment::Authorize(tx, words[1], words[2], words[3], Number(words[4]), words[5]);
  tx.Commit();
  std::printf("%s %s\n", words[1].c_str(), written ? "AUTHORIZED" : "is there already");
  return 0;
}

payments::Provider ProviderAt(const std::string& url) {
  payments::Provider provider{.url = url};
  const char* const timeout = std::getenv("PROVIDER_TIMEOUT");
  if (timeout == nullptr) return provider;
  try {
    provider.timeout = std::chrono::seconds{Number(timeout)};
  } catch (const std::logic_error& failure) {
    throw std::invalid_argument(std::string("PROVIDER_TIMEOUT: ") + failure.what());
  }
  if (provider.timeout.count() == 0) throw std::invalid_argument("PROVIDER_TIMEOUT: 0 would wait for ever");
  return provider;
}

int Capture(const Words& words) {
  const payments::Cashier cashier;
  const payments::Provider provider = ProviderAt(words[1]);
  example::Database database(words[0]);
  int code = 0;
  for (std::size_t i = 2; i < words.size(); ++i) {
    try {
      std::printf("%s %s\n", words[i].c_str(), cashier.Capture(database, provider, words[i]).c_str());
    } catch (const sealane::SealaneException& failure) {
      // What is wrong with one payment keeps no other waiting; a database that is away concerns them all.
      if (failure.error().kind() != sealane::ErrorKind::kRejected) throw;
      code = Fail(failure);
    }
  }
  return code;
}

int Repair(const Words& words) {
  example::Database database(words[0]);
  std::printf("%zu repaired\n", payments::Cashier().Repair(database, Number(words[1])));
  return 0;
}

int Balance(const Words& words) {
  example::Database database(words[0]);
  example::Transaction tx(database);
  return payments::PrintBalance(tx) ? 0 : 1;
}

int Consume(const Words& words, sealane::Handlers handlers) {
  // A name that stays the same over restarts, such as the pod's, has its partitions again at once.
  const char* const member = std::getenv("MEMBER");
  sealane::Inbox inbox = ValueOrThrow(sealane::Inbox::Open({.store = words[0],
                                                            .broker = words[1],
                                                            .consumer = words[2],
                                                            .topics = {words[3]},
                                                            .retry = "payments",
                                                            .member = member == nullptr ? "" : member},
                                                           std::move(handlers)));
  ValueOrThrow(words.size() > 4 ? inbox.RunUntilCaughtUp() : inbox.Run());
  const sealane::InboxStats stats = inbox.stats();
  std::printf("%llu applied, %llu ignored, %llu known\n", static_cast<unsigned long long>(stats.effects),
              static_cast<unsigned long long>(stats.ignored), static_cast<unsigned long long>(stats.duplicates));
  return 0;
}

int Run(const std::string& command, const Words& words) {
  if (command == "authorize" && words.size() == 6) return Authorize(words);
  if (command == "capture" && words.size() >= 3) return Capture(words);
  if (command == "repair" && words.size() == 2) return Repair(words);
  if (command == "balance" && words.size() == 1) return Balance(words);
  if (command == "report" && words.size() >= 4) return Consume(words, payments::ReportToMerchants());
  if (command == "settle" && words.size() >= 4) {
    const payments::Cashier cashier;
    return Consume(words, payments::SettlePayments(cashier));
  }
  return std::fputs(kUsage, stderr), 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return argc < 2 ? Run("", {}) : Run(argv[1], Words(argv + 2, argv + argc));
  } catch (const std::exception& failure) {
    return Fail(failure);
  }
}
