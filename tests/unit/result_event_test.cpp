// What the event about the end of a task says.

#include "tasks/result_event.hpp"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/task_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;

ClaimedTask Claimed() {
  ClaimedTask claimed;
  const NewTask task = FullTask();
  claimed.id = task.id;
  claimed.task = task.task;
  claimed.attempt = 4;
  return claimed;
}

TaskEnd Done() {
  return {TaskState::kSucceeded, SucceededReport(), Timestamp{std::chrono::seconds{1'700'000'000}}};
}

nlohmann::json PayloadOf(const TaskEnd& end, std::size_t response_max = 1'000) {
  return nlohmann::json::parse(ResultEvent(Claimed(), end, response_max).payload);
}

TEST(ResultEvent, IsAboutTheTaskAndItsCause) {
  const ClaimedTask task = Claimed();
  const Event event = ResultEvent(task, Done(), 1'000);
  EXPECT_EQ(event.type, "TaskSucceeded");
  EXPECT_EQ(event.topic, "charges");
  EXPECT_EQ(event.key, "result-key");
  EXPECT_EQ(event.tenant, "acme");
  EXPECT_EQ(event.aggregate, (Aggregate{"task", task.id.ToString(), std::nullopt}));
  EXPECT_EQ(event.causation_id, "causation-1");
  EXPECT_EQ(event.correlation_id, "correlation-1");
  EXPECT_EQ(event.traceparent, task.task.traceparent);
  EXPECT_EQ(event.occurred_at, Done().at);
}

TEST(ResultEvent, HasTheIdempotencyKeyWhereThereIsNoResultKey) {
  ClaimedTask task = Claimed();
  task.task.result_key.clear();
  EXPECT_EQ(ResultEvent(task, Done(), 1'000).key, "full-1");
}

TEST(ResultEvent, TellsHowItEnded) {
  const nlohmann::json payload = PayloadOf(Done());
  EXPECT_TRUE(payload.contains("task_id"));
  EXPECT_EQ(payload.at("target"), "billing");
  EXPECT_EQ(payload.at("operation"), FullTask().task.operation);
  EXPECT_EQ(payload.at("idempotency_key"), "full-1");
  EXPECT_EQ(payload.at("state"), "SUCCEEDED");
  EXPECT_EQ(payload.at("attempts"), 4);
  EXPECT_EQ(payload.at("verdict"), "succeeded");
  EXPECT_EQ(payload.at("status"), 201);
  EXPECT_FALSE(payload.contains("code"));
  EXPECT_EQ(payload.at("response"), R"({"charge":"c-1"})");
  EXPECT_EQ(payload.at("response_type"), "application/json");
  EXPECT_EQ(payload.at("response_cut"), false);
  EXPECT_EQ(payload.at("ended_at").get<std::string>().substr(0, 19), "2023-11-14T22:13:20");
}

TEST(ResultEvent, TellsWhyATaskIsDead) {
  const TaskEnd end{TaskState::kDead, UnknownReport(), Done().at};
  EXPECT_EQ(ResultEvent(Claimed(), end, 1'000).type, "TaskDead");
  const nlohmann::json payload = PayloadOf(end);
  EXPECT_EQ(payload.at("state"), "DEAD");
  EXPECT_EQ(payload.at("verdict"), "unknown");
  EXPECT_EQ(payload.at("code"), "timeout");
  EXPECT_EQ(payload.at("message"), "it said no");
  EXPECT_FALSE(payload.contains("status"));
  EXPECT_FALSE(payload.contains("response"));
}

TEST(ResultEvent, CarriesBytesAsBase64) {
  TaskEnd end = Done();
  end.report.response = "\xff\xfe";
  const nlohmann::json payload = PayloadOf(end);
  EXPECT_EQ(payload.at("response_base64"), "//4=");
  EXPECT_FALSE(payload.contains("response"));
}

TEST(ResultEvent, CutsAResponseBetweenCharacters) {
  TaskEnd end = Done();
  end.report.response = "aäb";
  const nlohmann::json payload = PayloadOf(end, 2);
  EXPECT_EQ(payload.at("response"), "a");
  EXPECT_EQ(payload.at("response_cut"), true);
  EXPECT_EQ(PayloadOf(end, 3).at("response"), "aä");
  EXPECT_EQ(PayloadOf(end, 4).at("response_cut"), false);
}

TEST(ResultEvent, AResponseThatWasCutInsideACharacterIsStillText) {
  TaskEnd end = Done();
  end.report.response = "text \xc3";
  end.report.response_cut = true;
  const nlohmann::json payload = PayloadOf(end);
  EXPECT_EQ(payload.at("response"), "text ");
  EXPECT_EQ(payload.at("response_cut"), true);
}

}  // namespace
}  // namespace sealane
