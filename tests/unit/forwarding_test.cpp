// Protects what an event looks like to a receiver that knows nothing of us.

#include "daemon/forwarding.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/admission.hpp"

#include "http/http_headers.hpp"

namespace sealane::cli {
namespace {

std::string HeaderOf(const Task& task, std::string_view name) {
  for (const Header& header : task.headers) {
    if (header.name == name) return header.value;
  }
  return "<none>";
}

Envelope SomeEvent() {
  Envelope event;
  event.id = *EventId::Parse("01890a5d-ac96-774b-bcce-b302099a8057");
  event.type = "OrderPlaced";
  event.topic = "orders";
  event.key = "o 1";
  event.tenant = "acme";
  event.payload = R"({"id":1})";
  event.content_type = "application/json";
  event.correlation_id = "c-1";
  event.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  event.headers = {{"region", "eu"}};
  return event;
}

TEST(Forwarding, ATaskCarriesTheWholeEvent) {
  const Task task = ForwardTask(SomeEvent(), "erp", "/events");
  EXPECT_EQ(task.target, "erp");
  EXPECT_EQ(task.operation, "/events");
  EXPECT_EQ(task.idempotency_key, "01890a5d-ac96-774b-bcce-b302099a8057");
  EXPECT_EQ(task.request, R"({"id":1})");
  EXPECT_EQ(task.tenant, "acme");
  EXPECT_EQ(task.order_key, "orders/o 1");
  EXPECT_EQ(task.content_type, "application/json");
  EXPECT_EQ(task.correlation_id, "c-1");
  EXPECT_EQ(task.causation_id, "01890a5d-ac96-774b-bcce-b302099a8057");
  EXPECT_EQ(task.traceparent, SomeEvent().traceparent);
  EXPECT_EQ(HeaderOf(task, "ce-id"), "01890a5d-ac96-774b-bcce-b302099a8057");
  EXPECT_EQ(HeaderOf(task, "ce-type"), "OrderPlaced");
  EXPECT_EQ(HeaderOf(task, "ce-tenantid"), "acme");
  EXPECT_EQ(HeaderOf(task, "Sealane-Topic"), "orders");
  EXPECT_EQ(HeaderOf(task, "Sealane-Key"), "o%201");
  EXPECT_EQ(HeaderOf(task, "region"), "eu");
  // Those have fields of their own.
  EXPECT_EQ(HeaderOf(task, "content-type"), "<none>");
  EXPECT_EQ(HeaderOf(task, "traceparent"), "<none>");
}

TEST(Forwarding, EveryHeaderThatTheOutboxTakesIsCarried) {
  Envelope event = SomeEvent();
  event.content_type = "text/plain;\tcharset=utf-8";
  event.headers = {{"order id", "1"},  {"größe", "groß"},     {"note", "a\tb\r\nHost: evil"}, {"Region", "eu"},
                   {"region", "us"},   {"percent%20", "50%"}, {std::string(255, '('), ""},    {"host", "own.example"},
                   {"trailing", " x "}};
  ASSERT_TRUE(CheckAdmission(event, Limits{}).has_value());
  const Task task = ForwardTask(event, "erp", "/events");
  const auto admitted = Tasks(ForwardLimits()).Admit(task);
  ASSERT_TRUE(admitted.has_value()) << admitted.error().ToString();
  EXPECT_EQ(task.content_type, "text/plain;%09charset=utf-8");
  EXPECT_EQ(HeaderOf(task, "order%20id"), "1");
  EXPECT_EQ(HeaderOf(task, "gr%C3%B6%C3%9Fe"), "gro%C3%9F");
  EXPECT_EQ(HeaderOf(task, "note"), "a%09b%0D%0AHost:%20evil");
  EXPECT_EQ(HeaderOf(task, "Region"), "eu, us");
  EXPECT_EQ(HeaderOf(task, "region"), "<none>");
  EXPECT_EQ(HeaderOf(task, "percent%2520"), "50%");
  EXPECT_EQ(HeaderOf(task, "host"), "own.example") << "gets its own- when it is sent";
  EXPECT_EQ(HeaderOf(task, "trailing"), "%20x%20");

  ClaimedTask claimed;
  claimed.id = event.id;
  claimed.task = task;
  EXPECT_THAT(http::TaskHeaderLines(claimed, {}),
              ::testing::IsSupersetOf({"order%20id: 1", "gr%C3%B6%C3%9Fe: gro%C3%9F", "Region: eu, us",
                                       "percent%2520: 50%", "own-host: own.example"}))
      << "encoded once";
}

TEST(Forwarding, TheLargestEventThatTheOutboxTakesIsCarried) {
  const auto filled = [](std::size_t bytes) { return std::string(bytes, '"'); };
  Envelope event = SomeEvent();
  const Limits limits;
  event.type = filled(limits.name_max);
  event.topic = std::string(limits.topic_max, 't');
  event.key = filled(limits.key_max);
  event.tenant = filled(limits.name_max);
  event.producer = filled(limits.name_max);
  event.schema_id = filled(limits.name_max);
  event.content_type = filled(limits.name_max);
  event.aggregate = {.type = filled(limits.name_max), .id = filled(limits.key_max), .version = 1};
  event.correlation_id = filled(limits.trace_max);
  event.causation_id = filled(limits.trace_max);
  event.traceparent = filled(limits.trace_max);
  event.tracestate = filled(limits.trace_max);
  event.headers.clear();
  for (std::size_t i = 0; i < limits.headers_max; ++i) event.headers.push_back({fmt::format("({}", i), filled(240)});
  ASSERT_TRUE(CheckAdmission(event, limits).has_value()) << CheckAdmission(event, limits).error().ToString();
  const auto admitted = Tasks(ForwardLimits()).Admit(ForwardTask(event, "erp", "/events"));
  EXPECT_TRUE(admitted.has_value()) << admitted.error().ToString();
}

TEST(Forwarding, WhatIsNamedAsOursIsToldApart) {
  Envelope event = SomeEvent();
  event.headers = {
      {"Sealane-Key", "theirs"}, {"ce-id", "theirs"}, {"sealane_topic", "theirs"}, {"x-note", "a"}, {"X_Note", "b"}};
  const Task task = ForwardTask(event, "erp", "/events");
  EXPECT_TRUE(Tasks(ForwardLimits()).Admit(task).has_value());
  EXPECT_EQ(HeaderOf(task, "Sealane-Key"), "o%201");
  EXPECT_EQ(HeaderOf(task, "own-Sealane-Key"), "theirs");
  EXPECT_EQ(HeaderOf(task, "own-ce-id"), "theirs");
  EXPECT_EQ(HeaderOf(task, "sealane_topic"), "<none>") << "many servers take it for Sealane-Topic";
  EXPECT_EQ(HeaderOf(task, "own-sealane_topic"), "theirs");
  EXPECT_EQ(HeaderOf(task, "x-note"), "a, b");
  EXPECT_EQ(HeaderOf(task, "X_Note"), "<none>");
}

TEST(Forwarding, AnOrderIsATopicAndAKey) {
  const auto order = [](std::string topic, std::string key) {
    Envelope event = SomeEvent();
    event.topic = std::move(topic);
    event.key = std::move(key);
    const Task task = ForwardTask(event, "erp", "/events");
    EXPECT_TRUE(Tasks(ForwardLimits()).Admit(task).has_value());
    return task.order_key;
  };
  EXPECT_EQ(order("orders", "42"), order("orders", "42"));
  EXPECT_NE(order("orders", "42"), order("mail", "42"));
  EXPECT_NE(order("a", "b/c"), order("b", "a/c"));
  const std::string topic(249, 't');
  EXPECT_NE(order(topic, std::string(1'024, 'x')), order(topic, std::string(1'023, 'x') + "y"));
  EXPECT_NE(order(topic, std::string(1'024, 'x')), order("u", std::string(1'024, 'x')));
  EXPECT_EQ(order("orders", ""), "") << "without a key there is no order";
}

TEST(Forwarding, TheSameEventGivesTheSameTask) {
  EXPECT_EQ(ForwardTask(SomeEvent(), "erp", "/e").headers, ForwardTask(SomeEvent(), "erp", "/e").headers);
}

TEST(Forwarding, TakesAUrlApart) {
  const auto parts = [](std::string_view url) {
    const auto parsed = ParseForwardUrl(url);
    return parsed ? parsed->origin + " " + parsed->operation : parsed.error().code();
  };
  EXPECT_EQ(parts("https://erp.example.org/events?x=1"), "https://erp.example.org /events?x=1");
  EXPECT_EQ(parts("http://127.0.0.1:8080"), "http://127.0.0.1:8080 /");
  EXPECT_EQ(parts("http://h?x"), "http://h /?x");
  EXPECT_EQ(parts("https://u:p@h/a/b"), "https://u:p@h /a/b");
  for (const std::string_view bad :
       {"", "ftp://h/x", "https://", "https:///x", "h/x", "http://h/a b", "http://h/#f"}) {
    EXPECT_EQ(parts(bad), "bad_forward_url") << bad;
  }
  for (const std::string_view unusable : {"https://erp/a/../b", "https://erp/%2e%2E", "https://erp/.",
                                          "http://h/café", "http://h/a\\b", "http://h/x?y=\x01"}) {
    EXPECT_EQ(parts(unusable), "bad_forward_url") << unusable;
  }
  EXPECT_EQ(parts("https://erp/a..b/...?p=../x"), "https://erp /a..b/...?p=../x");
  EXPECT_EQ(parts("http://h/" + std::string(1'024, 'x')), "bad_forward_url");
  const std::string longest = "/" + std::string(1'023, 'x');
  EXPECT_EQ(parts("http://h" + longest), "http://h " + longest);
  EXPECT_TRUE(Tasks(ForwardLimits()).Admit(ForwardTask(SomeEvent(), "erp", longest)).has_value());
  EXPECT_EQ(ParseForwardUrl("ftp://u:hunter2@h/").error().message().find("hunter2"), std::string::npos);
}

TEST(Forwarding, ReadsHeadersAndWhatTheyPointTo) {
  const std::map<std::string, std::string> variables = {{"TOKEN", "t-1"}};
  EXPECT_EQ(ParseForwardHeader("A=text=x", variables)->value, "text=x");
  EXPECT_EQ(ParseForwardHeader("Authorization=env:TOKEN", variables)->value, "t-1");
  EXPECT_EQ(ParseForwardHeader("Authorization=env:OTHER", variables).error().code(), "secret_not_set");
  EXPECT_FALSE(ParseForwardHeader("Authorization=file:/not/there", variables).has_value());
  EXPECT_EQ(ParseForwardHeader("A", variables).error().code(), "bad_header");
  EXPECT_EQ(ParseForwardHeader("=x", variables).error().code(), "bad_header");
}

}  // namespace
}  // namespace sealane::cli
