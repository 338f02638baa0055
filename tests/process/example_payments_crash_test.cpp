// The money of examples/payments under kill -9: the capturing program, the relay and the consumers are killed by
// turns, at random moments, while the provider loses answers. After each death the books must balance, and every
// captured payment must have its postings and its event; in the end everything has arrived, and the merchants' report
// is what the ledger says.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/example_place.hpp"
#include "support/kafka_cluster.hpp"
#include "support/payment_provider.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kKilled = 128 + SIGKILL;
constexpr int kPaymentsPerTurn = 5;

struct Setup {
  std::string place;
  int kills;  ///< at least half of them of programs that write to the ledger
};
void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.place;
}

std::uint64_t ChosenSeed() {
  const char* const chosen = std::getenv("SEALANE_TEST_SEED");
  return chosen == nullptr ? std::random_device{}() : std::strtoull(chosen, nullptr, 10);
}

/// A program of the example. Left alone, it ends when its work is done, and that takes as long as it took the last
/// time.
struct Victim {
  std::string name;
  Words command;
  Words until = {};  ///< what makes a daemon end by itself
  std::map<std::string, std::string> variables = {};
  milliseconds usual{0};
};

class ExamplePaymentsCrash : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (GetParam().place == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ExamplePlace>(GetParam().place, Words{"payments", "provider"});
    books_ = std::make_unique<ExampleStore>(place_->is_kafka(), "examples/payments/schema.sql");
    report_ = std::make_unique<ExampleStore>(place_->is_kafka(), "examples/payments/report.sql");
    // Some answers are lost, so that some payments are settled by the consumer. The first payment's first answer
    // surely is, and no other of it: a consumer waits for a topic of a journal until somebody has written to it.
    provider_.SetFates([seed = seed_](const std::string& payment, int request) {
      const bool unlucky = std::hash<std::string>{}(fmt::format("{}{}{}", seed, payment, request)) % 5 == 0;
      const bool lost = payment == "p-1" ? request == 1 : unlucky;
      return lost ? PaymentProvider::Fate::kIsLost : PaymentProvider::Fate::kArrives;
    });
    variables_ = place_->RelayVariables();
    variables_["SEALANE_TARGET__PROVIDER__URL"] = provider_.url();
    variables_["SEALANE_TARGET__PROVIDER__RETRY__FIRST"] = "50ms";
    relay_ = {"relay",
              {SEALANE_TEST_BINARY, "relay", "--store", books_->url(), "--broker", place_->broker_url()},
              {"--until", "drained", "--timeout", "120s"},
              variables_};
    settle_ = Consumer("settle", *books_, "provider");
    report_keeper_ = Consumer("report", *report_, "payments");
  }

  Victim Consumer(const std::string& command, const ExampleStore& store, const std::string& topic) const {
    return {
        command,
        {EXAMPLE_PAYMENTS, command, store.url(), place_->broker_url(), place_->Topic(command), place_->Topic(topic)},
        {"caught-up"},
        {{"MEMBER", command}}};
  }
  /// Captures everything that has no end yet, as clients do that got no answer.
  Victim Capture() const {
    Victim capture{"capture", {EXAMPLE_PAYMENTS, "capture", books_->url(), provider_.url()}};
    for (const auto& row : books_->Query(
             "SELECT payment_id FROM payment WHERE status IN ('AUTHORIZED', 'CAPTURING') ORDER BY payment_id")) {
      capture.command.push_back(row[0]);
    }
    return capture;
  }

  void Authorize(int count) {
    for (int i = 0; i < count; ++i) {
      const int number = ++payments_;
      books_->Execute(
          fmt::format("INSERT INTO payment (payment_id, merchant_id, currency, amount_minor, card_number) "
                      "VALUES ('{}-{}', 'm-{}', 'EUR', {}, '4000056655665556')",
                      number % 10 == 0 ? "poor" : "p", number, number % 3, 1'000 + 7 * number));
    }
  }

  /// To its end, which must be a good one.
  void Finish(Victim& program) {
    const auto start = steady_clock::now();
    Words command = program.command;
    command.insert(command.end(), program.until.begin(), program.until.end());
    const CommandResult run = ChildProcess(command, program.variables, place_->folder()).Finish();
    EXPECT_EQ(run.code, 0) << program.name << ": " << run.out << run.err;
    program.usual = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
  }
  /// Everything that runs beside the cashier, one after the other: settled payments make new events.
  void FinishAll() {
    Victim tasks{"tasks",
                 {SEALANE_TEST_BINARY, "tasks", "run", "--config", SourcePath("examples/payments/sealane.toml"),
                  "--store", books_->url()},
                 {"--until", "drained", "--timeout", "60s"},
                 variables_};
    Finish(tasks);
    Finish(relay_);
    Finish(settle_);
    Finish(relay_);
    Finish(report_keeper_);
  }

  /// Kills it at a random moment of its usual life, or a little later. One that was done before does not count, and
  /// a process that is not yet the program is waited for.
  void Kill(const Victim& victim) {
    std::uniform_int_distribution<std::int64_t> moment(0, victim.usual.count() * 5 / 4 + 1);
    ChildProcess process(victim.command, victim.variables, place_->folder());
    EXPECT_TRUE(Eventually([&] { return HasBegun(process, victim.command[0]); })) << victim.name;
    std::this_thread::sleep_for(milliseconds{moment(random_)});
    process.Signal(SIGKILL);
    const CommandResult end = process.Finish();
    if (end.code == kKilled) {
      ++kills_[victim.name];
      ++killed_;
    } else {
      EXPECT_EQ(end.code, 0) << victim.name << ": " << end.out << end.err;
    }
    CheckBooks(victim.name);
  }

  /// Whether it runs this program, or has already ended.
  static bool HasBegun(const ChildProcess& process, const std::string& program) {
    std::error_code gone;
    const auto runs = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process.pid()), gone);
    return gone || runs == std::filesystem::canonical(program);
  }
  /// Of those who write to the ledger.
  int WritersKilled() { return kills_["capture"] + kills_["settle"]; }
  /// What the provider was or was about to be asked for, and is not booked.
  std::set<std::string> HalfWay() const {
    std::set<std::string> payments;
    for (const auto& row : books_->Query("SELECT payment_id FROM payment WHERE status = 'CAPTURING'")) {
      payments.insert(row[0]);
    }
    return payments;
  }

  /// Each question is one statement, so it sees the state of one moment; a session of the dead may still be ending.
  void CheckBooks(const std::string& after) const {
    ASSERT_EQ(books_->Query("SELECT payment_id, status, postings, off_by FROM ledger_fault").size(), 0U)
        << "after a death of " << after;
    ASSERT_EQ(books_->Number("SELECT coalesce(sum(amount_minor), 0) FROM ledger_posting"), 0);
    ASSERT_EQ(books_->Number(fmt::format(
                  "SELECT count(*) FROM payment p WHERE CASE WHEN p.status = 'CAPTURED' THEN 1 ELSE 0 END <> (SELECT "
                  "count(*) FROM {} o WHERE o.key = p.payment_id AND o.type = 'payment.capture_succeeded')",
                  books_->Table("outbox"))),
              0)
        << "after a death of " << after;
  }

  /// An event at which consumers were killed again and again is taken for the cause; a person knows better.
  void ClearSuspects(const ExampleStore& store) const {
    if (Parked(store) == 0) return;
    const CommandResult retried = RunSealane({"inbox", "retry", "--all", "--reason", "the test killed it", "--yes",
                                              "--actor", "test", "--store", store.url()});
    EXPECT_EQ(retried.code, 0) << retried.err;
  }

  static std::int64_t Parked(const ExampleStore& store) {
    return store.Number("SELECT count(*) FROM " + store.Table("inbox_parked"));
  }
  std::int64_t ReportedPayments() const { return report_->Number("SELECT count(*) FROM merchant_payment"); }
  std::int64_t OpenPayments() const {
    return books_->Number("SELECT count(*) FROM payment WHERE status NOT IN ('CAPTURED', 'DECLINED')");
  }
  std::vector<std::vector<std::string>> PayableByLedger() const {
    return books_->Query(
        "SELECT merchant_id, currency, count(*), -sum(amount_minor) FROM ledger_posting "
        "WHERE account = 'merchant_payable' GROUP BY merchant_id, currency ORDER BY merchant_id");
  }
  std::vector<std::vector<std::string>> PayableByReport() const {
    return report_->Query(
        "SELECT merchant_id, currency, captures, net_minor FROM merchant_report "
        "ORDER BY merchant_id");
  }

  const std::uint64_t seed_ = ChosenSeed();
  std::mt19937_64 random_{seed_};
  PaymentProvider provider_;
  std::unique_ptr<ExamplePlace> place_;
  std::unique_ptr<ExampleStore> books_;
  std::unique_ptr<ExampleStore> report_;
  std::map<std::string, std::string> variables_;
  Victim relay_;
  Victim settle_;
  Victim report_keeper_;
  int payments_ = 0;
  int killed_ = 0;
  std::map<std::string, int> kills_;
};

TEST_P(ExamplePaymentsCrash, TheLedgerBalancesAfterEveryKill) {
  SCOPED_TRACE(fmt::format("SEALANE_TEST_SEED={}", seed_));
  Authorize(kPaymentsPerTurn);
  Victim capture = Capture();
  Finish(capture);
  FinishAll();
  ASSERT_FALSE(HasFailure());

  // Deaths between the question to the provider and the books are what this is about: without some it shows little.
  constexpr int kHalfWay = 3;
  const int kills = GetParam().kills;
  int half_way = 0;
  const auto enough = [&] { return killed_ >= kills && 2 * WritersKilled() >= kills && half_way >= kHalfWay; };
  for (int turn = 0; !enough() && !HasFailure(); ++turn) {
    Authorize(kPaymentsPerTurn);
    Victim next = Capture();
    next.usual = capture.usual;
    const std::set<std::string> before = HalfWay();
    Kill(next);
    const std::set<std::string> after = HalfWay();
    half_way += std::includes(before.begin(), before.end(), after.begin(), after.end()) ? 0 : 1;
    Kill(relay_);
    Kill(turn % 2 == 0 ? settle_ : report_keeper_);
    if (turn % 4 == 3) FinishAll();  // now and then somebody lives long enough
  }
  ASSERT_FALSE(HasFailure());

  // What a dead capture left is not retried by its client but taken up.
  Victim repair{"repair", {EXAMPLE_PAYMENTS, "repair", books_->url(), "0"}};
  Finish(repair);
  Victim last = Capture();
  if (last.command.size() > 4) Finish(last);
  EXPECT_TRUE(Eventually(
      [&] {
        ClearSuspects(*books_);
        ClearSuspects(*report_);
        FinishAll();
        return HasFailure() || (OpenPayments() == 0 && PayableByReport() == PayableByLedger() &&
                                ReportedPayments() == payments_ && Parked(*books_) == 0 && Parked(*report_) == 0);
      },
      std::chrono::seconds{240}));
  CheckBooks("everybody");
  EXPECT_EQ(OpenPayments(), 0);
  EXPECT_EQ(PayableByReport(), PayableByLedger());
  EXPECT_EQ(books_->Number("SELECT count(*) FROM payment WHERE status = 'DECLINED'"), payments_ / 10);
  EXPECT_EQ(books_->Number("SELECT count(*) FROM ledger_posting"), 3 * (payments_ - payments_ / 10));
  EXPECT_EQ(provider_.captures(), static_cast<std::size_t>(payments_ - payments_ / 10));
  EXPECT_EQ(ReportedPayments(), payments_);
  EXPECT_EQ(Parked(*books_), 0);
  EXPECT_EQ(Parked(*report_), 0);
  std::cout << fmt::format(
      "{} payments, {} kills (capture {}, relay {}, settle {}, report {}), {} of them half way\n", payments_, killed_,
      kills_["capture"], kills_["relay"], kills_["settle"], kills_["report"], half_way);
}

INSTANTIATE_TEST_SUITE_P(Places, ExamplePaymentsCrash,
                         ::testing::Values(Setup{"sqlite_journal", 80}, Setup{"postgres_kafka", 20}),
                         [](const auto& setup) { return setup.param.place; });

}  // namespace
}  // namespace sealane::testing
