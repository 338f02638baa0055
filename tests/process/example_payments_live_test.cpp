// Protects examples/payments, which readers copy: postings and events commit together and once, whichever way the
// provider's answer comes; what is secret stays inside; the report can be built again and the ledger does not move.

#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.hpp"
#include "base/hmac.hpp"
#include "support/eventually.hpp"
#include "support/example_place.hpp"
#include "support/kafka_cluster.hpp"
#include "support/payment_provider.hpp"
#include "support/pg_session.hpp"
#include "support/running_receiver.hpp"

namespace sealane::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Fate = PaymentProvider::Fate;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kCard = "4000056655665556";
/// So that a machine that stalls is not taken for a provider that does not answer.
const std::map<std::string, std::string> kPatient = {{"PROVIDER_TIMEOUT", "30"}};

class ExamplePayments : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ExamplePlace>(GetParam(), Words{"payments", "provider"});
    books_ = std::make_unique<ExampleStore>(place_->is_kafka(), "examples/payments/schema.sql");
    report_ = std::make_unique<ExampleStore>(place_->is_kafka(), "examples/payments/report.sql");
  }

  std::vector<std::string> Command(Words words) const {
    words.insert(words.begin(), EXAMPLE_PAYMENTS);
    return words;
  }
  CommandResult Try(const Words& words, const std::map<std::string, std::string>& variables = kPatient) const {
    return ChildProcess(Command(words), variables, place_->folder()).Finish();
  }
  /// What it says when it ends well.
  std::string Run(const Words& words) const {
    const CommandResult run = Try(words);
    EXPECT_EQ(run.code, 0) << run.out << run.err;
    return run.out;
  }
  void Authorize(const std::string& payment, int minor = 10'000) const {
    Run({"authorize", books_->url(), payment, "m-1", "EUR", std::to_string(minor), kCard});
  }
  std::string Capture(const std::string& payment) const {
    return Run({"capture", books_->url(), provider_.url(), payment});
  }
  void Relay() const {
    const CommandResult relay = place_->Relay(*books_);
    EXPECT_EQ(relay.code, 0) << relay.err;
  }
  /// `sealane tasks run` with the example's own settings, until nothing is due.
  void RunTasks() const {
    const CommandResult run =
        RunSealane({"tasks", "run", "--config", SourcePath("examples/payments/sealane.toml"), "--store",
                    books_->url(), "--until", "drained", "--timeout", "60s", "--log-level", "error"},
                   {}, {{"SEALANE_TARGET__PROVIDER__URL", provider_.url()}}, place_->folder());
    EXPECT_EQ(run.code, 0) << run.err;
  }
  /// A webhook of the provider, as if `sealane receive` had taken it.
  void Tell(const std::string& payment, const std::string& body) const {
    const CommandResult emitted = RunSealane({"emit", "--topic", "provider", "--key", payment, "--type", "capture",
                                              "--payload", body, "--store", books_->url()});
    EXPECT_EQ(emitted.code, 0) << emitted.err;
  }
  std::string Settle(const std::string& consumer = "settlement") const {
    return Run({"settle", books_->url(), place_->broker_url(), place_->Topic(consumer), place_->Topic("provider"),
                "caught-up"});
  }
  std::string Report(const std::string& consumer = "merchant-report") const {
    return Run({"report", report_->url(), place_->broker_url(), place_->Topic(consumer), place_->Topic("payments"),
                "caught-up"});
  }

  std::string StatusOf(const std::string& payment) const {
    return books_->Query(fmt::format("SELECT status FROM payment WHERE payment_id = '{}'", payment)).at(0).at(0);
  }
  std::vector<std::vector<std::string>> Ledger() const {
    return books_->Query(
        "SELECT payment_id, account, merchant_id, currency, amount_minor FROM ledger_posting "
        "ORDER BY payment_id, account");
  }
  std::int64_t EventsOf(const std::string& payment, const std::string& type) const {
    return books_->Number(fmt::format("SELECT count(*) FROM {} WHERE key = '{}' AND type = '{}'",
                                      books_->Table("outbox"), payment, type));
  }
  std::vector<std::vector<std::string>> Reported() const {
    return report_->Query("SELECT merchant_id, currency, captures, amount_minor, net_minor FROM merchant_report");
  }

  PaymentProvider provider_;
  std::unique_ptr<ExamplePlace> place_;
  std::unique_ptr<ExampleStore> books_;
  std::unique_ptr<ExampleStore> report_;
};

TEST_P(ExamplePayments, ACaptureIsBookedToldAndReported) {
  Authorize("p-1");
  Authorize("poor-1");
  EXPECT_EQ(Capture("p-1"), "p-1 CAPTURED\n");
  EXPECT_EQ(Capture("poor-1"), "poor-1 DECLINED\n");
  const Rows booked = {{"p-1", "fee_income", "m-1", "EUR", "-290"},
                       {"p-1", "merchant_payable", "m-1", "EUR", "-9710"},
                       {"p-1", "provider_receivable", "m-1", "EUR", "10000"}};
  EXPECT_EQ(Ledger(), booked);
  EXPECT_EQ(EventsOf("p-1", "payment.capture_succeeded"), 1);
  EXPECT_EQ(EventsOf("poor-1", "payment.capture_declined"), 1);

  // A client that asks again gets the same answer, and nothing is done.
  EXPECT_EQ(Capture("p-1"), "p-1 CAPTURED\n");
  EXPECT_EQ(provider_.RequestsFor("p-1"), 1);
  EXPECT_EQ(Ledger(), booked);

  Relay();
  EXPECT_EQ(Report(), "2 applied, 0 ignored, 0 known\n");
  EXPECT_EQ(Reported(), (Rows{{"m-1", "EUR", "1", "10000", "9710"}}));
  EXPECT_THAT(Run({"balance", books_->url()}), HasSubstr("balanced"));
}

TEST_P(ExamplePayments, CardAndProviderSecretsAreInNoEventAndOnNoTopic) {
  for (const char* payment : {"p-1", "poor-1", "lost-1"}) Authorize(payment);
  provider_.SetFates([](const std::string& payment, int request) {
    return payment == "lost-1" && request == 1 ? Fate::kIsLost : Fate::kArrives;
  });
  for (const char* payment : {"p-1", "poor-1", "lost-1"}) Capture(payment);
  Relay();
  ASSERT_EQ(books_->Number("SELECT count(*) FROM " + books_->Table("outbox")), 3);
  EXPECT_THAT(books_->Dump("outbox"), HasSubstr("payment.capture_unknown")) << "the search must be able to find";
  EXPECT_THAT(books_->Dump("outbox"), HasSubstr("amount")) << "also in payloads";
  EXPECT_THAT(place_->Content("payments"), HasSubstr("cap-p-1"));
  for (const char* secret : {kCard, PaymentProvider::kPrivate}) {
    EXPECT_THAT(books_->Dump("outbox"), Not(HasSubstr(secret)));
    EXPECT_THAT(place_->Content("payments"), Not(HasSubstr(secret)));
  }
  // The provider's words come back as the end of a task, on the topic between us and it; the card is not in there.
  RunTasks();
  Relay();
  EXPECT_THAT(place_->Content("provider"), HasSubstr("cap-lost-1"));
  EXPECT_THAT(place_->Content("provider"), Not(HasSubstr(kCard)));
  EXPECT_THAT(books_->Dump("outbox"), Not(HasSubstr(kCard)));
}

TEST_P(ExamplePayments, ACaptureThatCannotBeBookedLeavesNothing) {
  Authorize("p-1");
  Authorize("p-2");
  Capture("p-1");
  // The provider uses a capture id again: the payment cannot be saved, so nothing else of the transaction is.
  books_->Execute("UPDATE payment SET capture_id = 'cap-p-2' WHERE payment_id = 'p-1'");
  const auto before = Ledger();
  EXPECT_EQ(Try({"capture", books_->url(), provider_.url(), "p-2"}).code, 1);
  EXPECT_EQ(StatusOf("p-2"), "CAPTURING");
  EXPECT_EQ(Ledger(), before);
  EXPECT_EQ(EventsOf("p-2", "payment.capture_succeeded"), 0);
}

TEST_P(ExamplePayments, AnUnknownCaptureIsSettledByATaskAndBookedOnce) {
  Authorize("lost-1");
  provider_.SetFates([](const std::string&, int request) { return request == 1 ? Fate::kIsLost : Fate::kArrives; });
  EXPECT_EQ(Capture("lost-1"), "lost-1 CAPTURE_UNKNOWN\n");
  EXPECT_EQ(Ledger().size(), 0U) << "nothing is booked on a guess";
  EXPECT_EQ(EventsOf("lost-1", "payment.capture_unknown"), 1);
  Relay();
  Report();
  EXPECT_EQ(report_->Query("SELECT payment_id, status FROM merchant_payment"), (Rows{{"lost-1", "pending"}}));

  RunTasks();
  Relay();
  EXPECT_EQ(Settle(), "1 applied, 0 ignored, 0 known\n");
  EXPECT_EQ(StatusOf("lost-1"), "CAPTURED");
  EXPECT_EQ(Ledger().size(), 3U);
  EXPECT_EQ(provider_.captures(), 1U);

  Relay();
  Report();
  EXPECT_EQ(report_->Query("SELECT payment_id, status FROM merchant_payment"), (Rows{{"lost-1", "captured"}}));
  EXPECT_EQ(Reported(), (Rows{{"m-1", "EUR", "1", "10000", "9710"}}));
}

TEST_P(ExamplePayments, WhatADeadProcessLeftIsTakenUp) {
  Authorize("p-1");
  std::atomic<bool> release{false};
  provider_.SetFates([&](const std::string&, int request) {
    while (request == 1 && !release) std::this_thread::sleep_for(std::chrono::milliseconds{5});
    return Fate::kArrives;
  });
  {
    const ChildProcess dies(Command({"capture", books_->url(), provider_.url(), "p-1"}), kPatient, place_->folder());
    EXPECT_TRUE(Eventually([&] { return provider_.RequestsFor("p-1") == 1; }));
    dies.Signal(SIGKILL);
  }
  release = true;
  EXPECT_EQ(StatusOf("p-1"), "CAPTURING");
  EXPECT_EQ(Run({"repair", books_->url(), "3600"}), "0 repaired\n") << "it may still be at work";
  EXPECT_EQ(Run({"repair", books_->url(), "0"}), "1 repaired\n");
  EXPECT_EQ(StatusOf("p-1"), "CAPTURE_UNKNOWN");
  RunTasks();
  Relay();
  Settle();
  EXPECT_EQ(StatusOf("p-1"), "CAPTURED");
  EXPECT_EQ(Ledger().size(), 3U);
  EXPECT_EQ(provider_.captures(), 1U);
}

TEST_P(ExamplePayments, AWebhookSettlesOnceAndTheTaskAfterItBooksNothing) {
  Authorize("lost-1");
  Authorize("poor-1");
  provider_.SetFates([](const std::string&, int request) { return request == 1 ? Fate::kIsLost : Fate::kArrives; });
  Capture("lost-1");
  Capture("poor-1");
  const RunningReceiver receiver(place_->folder(),
                                 {"--config", SourcePath("examples/payments/sealane.toml"), "--store", books_->url()},
                                 {{"PROVIDER_SECRET", "whsec"}});
  const auto post = [&](const std::string& payment, const std::string& secret) {
    const std::string body = fmt::format(R"({{"id":"evt-{0}","type":"capture","payment_id":"{0}",{1})", payment,
                                         PaymentProvider::Answer(payment).substr(1));
    return HttpPost(receiver.Port(), "/hooks/provider",
                    {{"X-Provider-Signature", ToHex(HmacSha256(secret, body))}, {"Content-Type", "application/json"}},
                    body)
        .status;
  };
  EXPECT_EQ(post("lost-1", "somebody-else"), 401);
  for (int time = 0; time < 3; ++time) EXPECT_EQ(post("lost-1", "whsec"), 200);
  EXPECT_EQ(post("poor-1", "whsec"), 200);
  EXPECT_EQ(receiver.Stop(), 0) << receiver.said();
  EXPECT_EQ(EventsOf("lost-1", "capture"), 1) << "three deliveries are one event";

  Relay();
  EXPECT_EQ(Settle(), "2 applied, 0 ignored, 0 known\n");
  EXPECT_EQ(StatusOf("lost-1"), "CAPTURED");
  EXPECT_EQ(StatusOf("poor-1"), "DECLINED");
  const auto booked = Ledger();
  EXPECT_EQ(booked.size(), 3U);

  // The tasks did not know that it is settled; what they find out changes nothing.
  RunTasks();
  Relay();
  EXPECT_EQ(Settle(), "0 applied, 2 ignored, 0 known\n");
  EXPECT_EQ(Ledger(), booked);
}

TEST_P(ExamplePayments, WhatContradictsTheBooksOrIsNotUnderstoodIsSetAsideForAPerson) {
  for (const char* payment : {"p-1", "p-2", "p-3"}) {
    Authorize(payment);
    Capture(payment);
  }
  const auto booked = Ledger();
  Tell("p-1", R"({"payment_id":"p-1","status":"declined"})");
  Tell("p-2", R"({"payment_id":"p-2","status":7})");
  Tell("p-3", R"(["p-3"])");
  Tell("p-4", PaymentProvider::Answer("p-4").insert(1, R"("payment_id":"p-4",)"));
  Relay();
  EXPECT_EQ(Settle(), "0 applied, 0 ignored, 0 known\n");
  EXPECT_EQ(StatusOf("p-1"), "CAPTURED");
  EXPECT_EQ(Ledger(), booked);
  EXPECT_EQ(books_->Query(fmt::format("SELECT error_code, state FROM {} ORDER BY 1", books_->Table("inbox_parked"))),
            (Rows{{"answer_not_understood", "DEAD"},
                  {"contradiction", "DEAD"},
                  {"unknown_payment", "DEAD"},
                  {"unreadable_payload", "DEAD"}}));
}

TEST_P(ExamplePayments, AnAnswerThatContradictsWhatCameMeanwhileIsAnErrorAndBooksNothing) {
  Authorize("p-1");
  provider_.SetFates([&](const std::string&, int) {
    // A webhook was faster. That this can be written shows that no transaction is open while the provider thinks.
    books_->Execute("UPDATE payment SET status = 'DECLINED' WHERE payment_id = 'p-1'");
    return Fate::kArrives;
  });
  const CommandResult capture = Try({"capture", books_->url(), provider_.url(), "p-1"});
  EXPECT_EQ(capture.code, 1);
  EXPECT_THAT(capture.err, HasSubstr("p-1 is DECLINED, and the provider says otherwise"));
  EXPECT_EQ(Ledger().size(), 0U);
  EXPECT_EQ(EventsOf("p-1", "payment.capture_succeeded"), 0);
}

TEST_P(ExamplePayments, APaymentThatCannotBeCapturedIsAnErrorAndKeepsNoOtherWaiting) {
  for (const char* payment : {"p-1", "p-2", "p-3"}) Authorize(payment);
  provider_.SetFates([&](const std::string& payment, int) {
    if (payment == "p-1") books_->Execute("UPDATE payment SET status = 'DECLINED' WHERE payment_id = 'p-1'");
    return Fate::kArrives;
  });
  const CommandResult capture =
      Try({"capture", books_->url(), provider_.url(), "p-1", "p-2", "nobody-knows-it", "p-3"});
  EXPECT_EQ(capture.code, 1);
  EXPECT_EQ(capture.out, "p-2 CAPTURED\np-3 CAPTURED\n");
  EXPECT_THAT(capture.err, HasSubstr("p-1 is DECLINED, and the provider says otherwise"));
  EXPECT_THAT(capture.err, HasSubstr("there is no payment `nobody-knows-it`"));
  EXPECT_EQ(provider_.RequestsFor("nobody-knows-it"), 0);
  EXPECT_EQ(Ledger().size(), 6U);
}

TEST_P(ExamplePayments, AProviderThatTakesTooLongLeavesTheCaptureUnknown) {
  Authorize("p-1");
  std::atomic<bool> release{false};
  provider_.SetFates([&](const std::string&, int) {
    EXPECT_TRUE(Eventually([&] { return release.load(); }));
    return Fate::kArrives;
  });
  const CommandResult capture = Try({"capture", books_->url(), provider_.url(), "p-1"}, {{"PROVIDER_TIMEOUT", "1"}});
  release = true;
  EXPECT_EQ(capture.code, 0) << capture.err;
  EXPECT_EQ(capture.out, "p-1 CAPTURE_UNKNOWN\n");
  EXPECT_EQ(Ledger().size(), 0U);
  const CommandResult unclear =
      Try({"capture", books_->url(), provider_.url(), "p-1"}, {{"PROVIDER_TIMEOUT", "soon"}});
  EXPECT_EQ(unclear.code, 1);
  EXPECT_THAT(unclear.err, HasSubstr("PROVIDER_TIMEOUT"));
}

TEST_P(ExamplePayments, AReplayBuildsTheReportAgainAndLeavesTheLedgerAlone) {
  provider_.SetFates([](const std::string& payment, int request) {
    return payment.starts_with("lost") && request == 1 ? Fate::kIsLost : Fate::kArrives;
  });
  for (int i = 0; i < 4; ++i) {
    for (const char* kind : {"p", "lost", "poor"}) {
      const std::string payment = fmt::format("{}-{}", kind, i);
      Authorize(payment, 1'000 + i);
      Capture(payment);
    }
  }
  RunTasks();
  Relay();
  EXPECT_EQ(Settle(), "4 applied, 0 ignored, 0 known\n");
  Relay();
  EXPECT_EQ(Report(), "16 applied, 0 ignored, 0 known\n");
  const auto rows =
      "SELECT payment_id, merchant_id, status, amount_minor, net_minor, source_event_id, "
      "source_version FROM merchant_payment ORDER BY payment_id";
  const auto before = report_->Query(rows);
  const auto booked = Ledger();
  ASSERT_EQ(before.size(), 12U);
  ASSERT_EQ(booked.size(), 24U);

  // The same consumer has seen it all; a new one reads the topic from its beginning, into emptied tables.
  EXPECT_EQ(Report(), "0 applied, 0 ignored, 0 known\n");
  report_->Execute("DELETE FROM merchant_payment");
  EXPECT_EQ(Report("merchant-report-2"), "16 applied, 0 ignored, 0 known\n");
  EXPECT_EQ(report_->Query(rows), before);
  // Over what is there, it changes nothing.
  EXPECT_EQ(Report("merchant-report-3"), "0 applied, 16 ignored, 0 known\n");
  EXPECT_EQ(report_->Query(rows), before);

  // A second settlement without any memory of the first: the payments themselves know.
  EXPECT_EQ(Settle("settlement-2"), "0 applied, 4 ignored, 0 known\n");
  EXPECT_EQ(Ledger(), booked);
  EXPECT_THAT(Run({"balance", books_->url()}), HasSubstr("balanced"));
}

TEST_P(ExamplePayments, BooksThatDoNotBalanceAreToldAndFailTheCheck) {
  Authorize("p-1");
  Capture("p-1");
  books_->Execute("UPDATE ledger_posting SET amount_minor = amount_minor + 1 WHERE account = 'fee_income'");
  const CommandResult balance = Try({"balance", books_->url()});
  EXPECT_EQ(balance.code, 1);
  EXPECT_THAT(balance.out, HasSubstr("FAULT p-1 is CAPTURED with 3 postings, off by 1"));
}

INSTANTIATE_TEST_SUITE_P(Places, ExamplePayments, ::testing::Values("sqlite_journal", "postgres_kafka"),
                         [](const auto& place) { return place.param; });

// Of the data layer that the examples share, through one of them. What the server commits before it can say so
// exists, so a caller who is told that nothing does would do it twice.
TEST(ExampleDatabase, AConnectionThatBreaksDuringTheCommitLeavesItInDoubt) {
  const ExampleStore books(true, "examples/payments/schema.sql");
  const SqliteFile place;  // for a folder
  // Holds the commit in its middle.
  books.Execute(
      "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN "
      "NULL; END $$; CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON payment DEFERRABLE INITIALLY DEFERRED FOR EACH "
      "ROW EXECUTE FUNCTION hold()");
  PgSession holder(books.url());
  holder.Exec("SELECT pg_advisory_lock(1)");
  CommandResult result;
  {
    const std::jthread command([&] {
      result = ChildProcess({EXAMPLE_PAYMENTS, "authorize", books.url(), "p-1", "m-1", "EUR", "100", kCard}, {},
                            place.folder())
                   .Finish();
    });
    const std::string committing =
        "pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT' AND wait_event = 'advisory'";
    EXPECT_TRUE(Eventually([&] { return holder.Count(committing) == 1; }));
    holder.Exec("SELECT pg_terminate_backend(pid) FROM " + committing);
  }
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("it may or may not have happened"));
  EXPECT_THAT(result.err, HasSubstr("before doing it again"));
}

}  // namespace
}  // namespace sealane::testing
