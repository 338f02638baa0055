// Protects the dashboard's server: what each address answers, that no payload gets out, that nobody but this machine
// is served, and that neither a store out of reach nor many requests at once keep it from answering.

#include <atomic>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dashboard/dashboard.hpp"
#include "dashboard/web_files.hpp"
#include "memory/memory_store.hpp"
#include "support/eventually.hpp"
#include "support/http_client.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane::cli {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using HttpReply = sealane::testing::HttpAnswer;

/// A dashboard over a store in memory, whose connections can be cut and whose answers can be held back.
class DashboardServer : public ::testing::Test {
 protected:
  void SetUp() override { Open({.look_every = 1s}); }
  void TearDown() override { LetGo(); }

  void Open(DashboardOptions options) {
    dashboard_.reset();
    options.address = {.host = "127.0.0.1", .port = 0};
    options.facts = {.version = "1", .store = "memory", .command_flags = "--store x"};
    dashboard_ = ValueOrThrow(Dashboard::Start(options, Openers(), SystemClock::Instance()));
    const std::string url = dashboard_->url();
    port_ = std::stoi(url.substr(url.rfind(':') + 1));
  }

  HttpReply Get(const std::string& target, const std::string& host = "127.0.0.1", const std::string& more = {},
                const std::string& method = "GET") const {
    HttpConnection connection(port_);
    connection.Send(
        fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\r\n", method, target, host, more));
    return connection.Read();
  }
  json Ask(const std::string& target, int status = 200) const {
    const HttpReply answer = Get(target);
    EXPECT_EQ(answer.status, status) << target << ": " << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  void Append(const std::vector<NewEntry>& entries) {
    const auto store = ValueOrThrow(memory::OpenOutboxStore(database_));
    AppendAndCommit(*store, entries);
  }

  /// Asks for what Hold() holds back, and does not wait for the answer.
  std::unique_ptr<HttpConnection> SendAudit() const {
    auto connection = std::make_unique<HttpConnection>(port_);
    connection->Send("GET /api/v1/audit HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return connection;
  }
  /// How many have come.
  int Requests() const {
    const std::string text = dashboard_->Progress();
    return std::stoi(text.substr(text.rfind(',') + 1));
  }

  /// From now on the store is out of reach.
  void Cut() { cut_ = true; }
  void Mend() { cut_ = false; }
  /// From now on a look at the audit trail takes until LetGo().
  void Hold() { held_ = true; }
  void LetGo() {
    held_ = false;
    held_.notify_all();
  }
  bool is_held() const { return waits_; }

  std::atomic<bool> inbox_fails_ = false;
  std::atomic<std::chrono::milliseconds> inbox_takes_{0ms};
  std::atomic<int> inbox_looks_ = 0;
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase();
  std::unique_ptr<Dashboard> dashboard_;

 private:
  Status Reach() const {
    if (!cut_) return Ok();
    return Error(ErrorKind::kUnavailable, "store_unreachable", "it is gone").WithHint("look for it");
  }

  /// What fails when the store is cut off, and waits where a test says so.
  class FragileRoutes final : public RouteDesk {
   public:
    FragileRoutes(const DashboardServer& test, std::unique_ptr<RouteDesk> real)
        : test_(test), real_(std::move(real)) {}
    Result<RouteReport> Look() override {
      SEALANE_RETURN_IF_ERROR(test_.Reach());
      return real_->Look();
    }
    Status Add(const std::string& route, const RouteStart& start, const OperatorAction& why) override {
      return real_->Add(route, start, why);
    }
    Status Remove(const std::string& route, const OperatorAction& why) override { return real_->Remove(route, why); }
    Result<RebaseReport> PlanRebase() override { return real_->PlanRebase(); }
    Result<RebaseReport> Rebase(const OperatorAction& why) override { return real_->Rebase(why); }

   private:
    const DashboardServer& test_;
    const std::unique_ptr<RouteDesk> real_;
  };

  DeskOpeners Openers() {
    return {.routes = [this]() -> Result<std::unique_ptr<RouteDesk>> {
              SEALANE_RETURN_IF_ERROR(Reach());
              SEALANE_ASSIGN_OR_RETURN(auto real, memory::OpenRouteDesk(database_));
              return std::unique_ptr<RouteDesk>(std::make_unique<FragileRoutes>(*this, std::move(real)));
            },
            .messages = [this]() -> Result<std::unique_ptr<OutboxStore>> {
              SEALANE_RETURN_IF_ERROR(Reach());
              return memory::OpenOutboxStore(database_);
            },
            .letters = [this]() -> Result<std::unique_ptr<DeadLetters>> {
              waits_ = held_.load();
              held_.wait(true);
              SEALANE_RETURN_IF_ERROR(Reach());
              return memory::OpenDeadLetters(database_);
            },
            .inbox = [this]() -> Result<std::unique_ptr<InboxDesk>> {
              if (inbox_fails_) return Error(ErrorKind::kCorrupt, "row_corrupt", "a receipt is damaged");
              ++inbox_looks_;
              if (inbox_takes_.load() == 0ms) return memory::OpenInboxDesk(database_);
              // As a store with very many receipts: it takes its time, and is asked anew next time.
              std::this_thread::sleep_for(inbox_takes_.load());
              return Error(ErrorKind::kUnavailable, "statement_timeout", "it took too long");
            },
            .tasks = [this] { return memory::OpenTaskDesk(database_); }};
  }

  std::atomic<bool> cut_ = false;
  std::atomic<bool> held_ = false;
  std::atomic<bool> waits_ = false;
  int port_ = 0;
};

TEST_F(DashboardServer, ServesThePageUnderEveryViewsAddress) {
  const HttpReply page = Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.headers.at("content-security-policy"), HasSubstr("default-src 'none'; script-src 'self'"));
  EXPECT_EQ(page.headers.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(page.headers.at("referrer-policy"), "no-referrer");
  for (const std::string path : {"/messages", "/messages?key=a", "/messages/018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f",
                                 "/aside", "/consumers", "/tasks", "/tasks/1", "/audit"}) {
    EXPECT_EQ(Get(path).body, page.body) << path;
  }
  for (const std::string path :
       {"/index.html", "/messages/1/2", "/assets", "/assets/", "/assets/../index.html", "/x"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
}

TEST_F(DashboardServer, ServesEveryFileWithATagThatSavesSendingItAgain) {
  std::size_t bytes = 0;
  for (const WebFile& file : WebFiles()) {
    bytes += file.content.size();
    if (!file.path.starts_with("/assets/")) continue;
    const HttpReply answer = Get(std::string(file.path));
    EXPECT_EQ(answer.status, 200) << file.path;
    EXPECT_EQ(answer.body, file.content);
    EXPECT_EQ(answer.headers.at("etag"), file.tag);
    const HttpReply again = Get(std::string(file.path), "localhost", fmt::format("If-None-Match: {}\r\n", file.tag));
    EXPECT_EQ(again.status, 304) << file.path;
    EXPECT_THAT(again.body, IsEmpty());
  }
  EXPECT_LE(bytes, 150'000U) << "a page for somebody on call, maybe on a phone";
}

TEST_F(DashboardServer, LoadsNothingFromElsewhere) {
  for (const WebFile& file : WebFiles()) {
    // Names of XML's own languages are no addresses that anybody fetches.
    std::string text(file.content);
    for (const std::string_view name : {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}) {
      for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name))
        text.erase(at, name.size());
    }
    EXPECT_THAT(text, Not(HasSubstr("http://"))) << file.path;
    EXPECT_THAT(text, Not(HasSubstr("https://"))) << file.path;
    EXPECT_THAT(text, Not(HasSubstr("innerHTML"))) << file.path << ": what events say is text";
  }
}

TEST_F(DashboardServer, AnswersOnlyWhoNamesThisMachine) {
  const HttpReply answer = Get("/api/v1/overview", "evil.example");
  EXPECT_EQ(answer.status, 421);
  EXPECT_EQ(json::parse(answer.body)["error"]["code"], "wrong_host");
  EXPECT_EQ(Get("/", "127.0.0.1.evil.example:80").status, 421);
  EXPECT_EQ(Get("/", "localhost:8377").status, 200);
}

TEST_F(DashboardServer, ListensOnThisMachineOnly) {
  for (const std::string host : {"0.0.0.0", "::", "10.1.2.3"}) {
    const auto started = Dashboard::Start({.address = {.host = host, .port = 0}}, {}, SystemClock::Instance());
    ASSERT_FALSE(started) << host;
    EXPECT_EQ(started.error().code(), "not_loopback");
    EXPECT_THAT(started.error().hint(), HasSubstr("ssh -L"));
  }
}

TEST_F(DashboardServer, CanOnlyBeRead) {
  const HttpReply answer = Get("/api/v1/messages", "localhost", {}, "POST");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(Get("/api/v1/messages", "localhost", {}, "DELETE").status, 405);
}

TEST_F(DashboardServer, TheOverviewFollowsTheStore) {
  Append({SampleEntry("a"), SampleEntry("b")});
  EXPECT_TRUE(Eventually([&] {
    const json document = Ask("/api/v1/overview");
    return document.contains("routes") && document["routes"][0]["pending"] == 2;
  }));
  EXPECT_EQ(Ask("/api/v1/overview")["health"]["level"], "wrong") << "nobody ships them";
}

TEST_F(DashboardServer, ListsAndFindsMessagesWithoutTheirPayloads) {
  const NewEntry secret = WithPayload(SampleEntry("k1"), R"({"card":"4111111111111111"})", "application/json");
  Append({secret, SampleEntry("k2"), SampleEntry("k2"), SampleEntry("<script>")});
  EXPECT_THAT(Ask("/api/v1/messages")["messages"], SizeIs(4));
  const json page = Ask("/api/v1/messages?limit=3");
  EXPECT_THAT(page["messages"], SizeIs(3));
  const auto before = page["next_before"].get<std::int64_t>();
  const json rest = Ask(fmt::format("/api/v1/messages?limit=3&before={}", before));
  EXPECT_THAT(rest["messages"], SizeIs(1));
  EXPECT_FALSE(rest.contains("next_before"));
  EXPECT_EQ(rest["messages"][0]["id"], secret.envelope.id.ToString());
  EXPECT_THAT(Ask("/api/v1/messages?key=k2")["messages"], SizeIs(2));
  EXPECT_EQ(Ask("/api/v1/messages?key=%3Cscript%3E")["messages"][0]["key"], "<script>");
  EXPECT_THAT(Ask("/api/v1/messages?status=PUBLISHED")["messages"], IsEmpty());

  const HttpReply one = Get("/api/v1/messages/" + secret.envelope.id.ToString());
  EXPECT_EQ(one.status, 200);
  EXPECT_EQ(json::parse(one.body)["message"]["payload_size"], 27);
  EXPECT_THAT(one.body, Not(HasSubstr("4111")));
  EXPECT_THAT(Get("/api/v1/messages").body, Not(HasSubstr("4111")));
}

TEST_F(DashboardServer, SaysWhatIsWrongWithAQuestion) {
  const auto code = [&](const std::string& target, int status) {
    return Ask(target, status)["error"]["code"].get<std::string>();
  };
  EXPECT_EQ(code("/api/v1/messages?tpic=x", 400), "bad_parameter");
  EXPECT_EQ(code("/api/v1/messages?limit=0", 400), "bad_parameter");
  EXPECT_EQ(code("/api/v1/messages?limit=201", 400), "bad_parameter");
  EXPECT_EQ(code("/api/v1/messages?since=yesterday", 400), "bad_parameter");
  EXPECT_EQ(code("/api/v1/messages?status=LOST", 400), "bad_parameter");
  EXPECT_EQ(code("/api/v1/messages?key=%ff", 400), "bad_request");
  EXPECT_EQ(code("/api/v1/messages/x", 400), "bad_event_id");
  EXPECT_EQ(code("/api/v1/messages/018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f", 404), "not_found");
  EXPECT_EQ(code("/api/v1/tasks/018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f", 404), "not_found");
  EXPECT_EQ(code("/api/v1/tasks?state=LOST", 400), "bad_parameter");
  EXPECT_EQ(code("/api/v1/receipts?consumer=nobody", 400), "unknown_consumer");
  EXPECT_EQ(code("/api/v1/everything", 404), "not_found");
}

TEST_F(DashboardServer, EveryListIsThereWhenItIsEmpty) {
  const json aside = Ask("/api/v1/aside");
  for (const char* const part : {"relay", "consumers", "tasks"}) EXPECT_THAT(aside[part], IsEmpty());
  EXPECT_EQ(aside["relay_more"], false);
  EXPECT_THAT(Ask("/api/v1/receipts")["receipts"], IsEmpty());
  EXPECT_THAT(Ask("/api/v1/tasks")["tasks"], IsEmpty());
  EXPECT_THAT(Ask("/api/v1/audit")["records"], IsEmpty());
}

TEST_F(DashboardServer, AStoreOutOfReachIsSaidAndComesBack) {
  Append({SampleEntry("a")});
  ASSERT_TRUE(Eventually([&] { return Ask("/api/v1/overview").contains("routes"); }));
  Cut();
  EXPECT_TRUE(Eventually([&] { return Ask("/api/v1/overview").contains("problem"); }));
  const json document = Ask("/api/v1/overview");
  EXPECT_EQ(document["problem"]["code"], "store_unreachable");
  EXPECT_EQ(document["problem"]["hint"], "look for it");
  EXPECT_TRUE(document.contains("routes")) << "what was seen stays";
  EXPECT_EQ(Ask("/api/v1/audit", 503)["error"]["code"], "store_unreachable");
  Mend();
  EXPECT_TRUE(Eventually([&] { return !Ask("/api/v1/overview").contains("problem"); }));
  Ask("/api/v1/audit");
}

TEST_F(DashboardServer, WhatCannotBeSeenOfConsumersHidesNoRoute) {
  inbox_fails_ = true;
  Open({.look_every = 1s});
  Append({SampleEntry("a")});
  ASSERT_TRUE(Eventually([&] {
    const json document = Ask("/api/v1/overview");
    return document.contains("routes") && document["routes"][0]["pending"] == 1;
  }));
  EXPECT_FALSE(Ask("/api/v1/overview").contains("problem"));
  EXPECT_EQ(Ask("/api/v1/overview")["consumers_problem"]["code"], "row_corrupt");
}

TEST_F(DashboardServer, WhatCostsMoreIsLookedAtLessOften) {
  dashboard_.reset();
  inbox_takes_ = 200ms;
  inbox_looks_ = 0;
  Open({.look_every = 1s});
  const auto points = [&] { return Ask("/api/v1/overview")["history"]["points"].size(); };
  ASSERT_TRUE(Eventually([&] { return points() >= 4; }));
  EXPECT_LE(inbox_looks_, 1 + static_cast<int>(points()) / 4) << "after the first one look of 0.2 s in ten seconds";
}

TEST_F(DashboardServer, WhatTakesLongHoldsUpNeitherThePageNorTheOverview) {
  Open({.look_every = 1s, .requests_max = 2});
  ASSERT_TRUE(Eventually([&] { return Ask("/api/v1/overview").contains("routes"); }));
  Hold();
  const auto first = SendAudit();
  ASSERT_TRUE(Eventually([&] { return is_held(); })) << "the store's thread is at the first";
  // Two may wait, the third is one too many.
  const int before = Requests();
  const std::unique_ptr<HttpConnection> others[] = {SendAudit(), SendAudit(), SendAudit()};
  int asked = 0;
  ASSERT_TRUE(Eventually([&] {
    ++asked;
    return Get("/livez").status == 200 && Requests() == before + 3 + asked;
  }));
  EXPECT_EQ(Get("/").status, 200);
  EXPECT_EQ(Get("/api/v1/overview").status, 200);
  LetGo();
  EXPECT_EQ(first->Read().status, 200) << "what waited is answered";
  std::vector<int> statuses;
  for (const auto& other : others) statuses.push_back(other->Read().status);
  EXPECT_THAT(statuses, ::testing::UnorderedElementsAre(200, 200, 503));
}

TEST_F(DashboardServer, EndsWhileARequestWaits) {
  Hold();
  const auto connection = SendAudit();
  ASSERT_TRUE(Eventually([&] { return is_held(); }));
  std::jthread end([&] { dashboard_->Stop(); });
  EXPECT_EQ(connection->Read().status, 0) << "nobody answers any more";
  LetGo();
}

}  // namespace
}  // namespace sealane::cli
