// What Tasks takes and refuses, and what makes two requests the same.

#include "sealane/tasks.hpp"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/memory_store.hpp"
#include "memory/task_store.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Task ChargeTask() {
  Task task;
  task.target = "billing";
  task.operation = "/charges";
  task.idempotency_key = "charge-1";
  task.request = R"({"amount":5})";
  return task;
}

Task Changed(const std::function<void(Task&)>& change) {
  Task task = ChargeTask();
  change(task);
  return task;
}

/// The field at fault; empty: none.
std::string FaultOf(const std::function<void(Task&)>& change) {
  const auto admitted = Tasks().Admit(Changed(change));
  if (admitted) return "";
  EXPECT_EQ(admitted.error().kind(), ErrorKind::kRejected);
  EXPECT_EQ(admitted.error().code(), "invalid_task");
  EXPECT_FALSE(admitted.error().hint().empty());
  EXPECT_FALSE(admitted.error().message().empty());
  return admitted.error().field();
}

std::string HashOf(const Task& task) {
  return ValueOrThrow(Tasks().Admit(task)).request_hash;
}

TEST(Tasks, AdmitsATaskWithTheRequiredFields) {
  const NewTask admitted = ValueOrThrow(Tasks().Admit(ChargeTask()));
  EXPECT_FALSE(admitted.id.is_nil());
  EXPECT_EQ(admitted.task.request, ChargeTask().request);
  EXPECT_THAT(admitted.request_hash, SizeIs(64));
}

TEST(Tasks, EveryAdmittedTaskHasAnIdOfItsOwn) {
  const Tasks tasks;
  EXPECT_NE(ValueOrThrow(tasks.Admit(ChargeTask())).id, ValueOrThrow(tasks.Admit(ChargeTask())).id);
}

TEST(Tasks, RequiredFieldsMustBeThere) {
  EXPECT_EQ(FaultOf([](Task& task) { task.target.clear(); }), "target");
  EXPECT_EQ(FaultOf([](Task& task) { task.operation.clear(); }), "operation");
  EXPECT_EQ(FaultOf([](Task& task) { task.idempotency_key.clear(); }), "idempotency_key");
  EXPECT_EQ(FaultOf([](Task& task) { task.content_type.clear(); }), "content_type");
}

TEST(Tasks, TextMustBeTextOfALength) {
  const std::string no_utf8 = "\xff";
  const std::string nul("a\0b", 3);
  EXPECT_EQ(FaultOf([&](Task& task) { task.target = no_utf8; }), "target");
  EXPECT_EQ(FaultOf([&](Task& task) { task.target = std::string(256, 'x'); }), "target");
  EXPECT_EQ(FaultOf([&](Task& task) { task.operation = nul; }), "operation");
  EXPECT_EQ(FaultOf([&](Task& task) { task.operation = "/a\r\nHost: b"; }), "operation");
  EXPECT_EQ(FaultOf([&](Task& task) { task.idempotency_key = std::string(1025, 'x'); }), "idempotency_key");
  EXPECT_EQ(FaultOf([&](Task& task) { task.idempotency_key = "a\r\nb"; }), "idempotency_key");
  EXPECT_EQ(FaultOf([&](Task& task) { task.content_type = "text/plain\r\nx: y"; }), "content_type");
  EXPECT_EQ(FaultOf([&](Task& task) { task.tenant = no_utf8; }), "tenant");
  EXPECT_EQ(FaultOf([&](Task& task) { task.correlation_id = no_utf8; }), "correlation_id");
  EXPECT_EQ(FaultOf([&](Task& task) { task.causation_id = nul; }), "causation_id");
  EXPECT_EQ(FaultOf([&](Task& task) { task.traceparent = std::string(5000, 'x'); }), "traceparent");
  EXPECT_EQ(FaultOf([&](Task& task) { task.order_key = no_utf8; }), "order_key");
  EXPECT_EQ(FaultOf([&](Task& task) { task.result_key = no_utf8; }), "result_key");
}

TEST(Tasks, ARequestIsWhatItsContentTypeSays) {
  EXPECT_EQ(FaultOf([](Task& task) { task.request = "{\"amount\":"; }), "request");
  EXPECT_EQ(FaultOf([](Task& task) { task.request.clear(); }), "request");
  EXPECT_EQ(FaultOf([](Task& task) {
              task.content_type = "application/vnd.shop+json";
              task.request = "no";
            }),
            "request");
  EXPECT_EQ(FaultOf([](Task& task) {
              task.content_type = "application/octet-stream";
              task.request = std::string("\x00\xff", 2);
            }),
            "");
}

TEST(Tasks, ARequestHasALimit) {
  const Tasks tasks(TaskLimits{.request_bytes_max = 11});
  const auto refused = tasks.Admit(ChargeTask());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().field(), "request");
  EXPECT_THAT(refused.error().message(), HasSubstr("at most 11"));
}

TEST(Tasks, HeadersAreFewAndHarmless) {
  EXPECT_EQ(FaultOf([](Task& task) { task.headers = {{"x-a", "1"}, {"x-b", "ä"}}; }), "");
  EXPECT_EQ(FaultOf([](Task& task) { task.headers = {{"", "1"}}; }), "headers");
  EXPECT_EQ(FaultOf([](Task& task) { task.headers = {{"a b", "1"}}; }), "headers");
  EXPECT_EQ(FaultOf([](Task& task) { task.headers = {{"a:", "1"}}; }), "headers");
  EXPECT_EQ(FaultOf([](Task& task) { task.headers = {{"a", "1\r\nb: 2"}}; }), "headers");
  EXPECT_EQ(FaultOf([](Task& task) { task.headers = {{"X-A", "1"}, {"x-a", "2"}}; }), "headers");
  EXPECT_EQ(FaultOf([](Task& task) { task.headers = {{"a", std::string(20'000, 'x')}}; }), "headers");
  EXPECT_EQ(FaultOf([](Task& task) {
              for (int i = 0; i < 65; ++i) task.headers.push_back({"x-" + std::to_string(i), ""});
            }),
            "headers");
}

TEST(Tasks, AResultEventThatCouldNotBeAppendedIsRefusedBeforehand) {
  EXPECT_EQ(FaultOf([](Task& task) { task.result_topic = "charges"; }), "");
  EXPECT_EQ(FaultOf([](Task& task) { task.result_topic = "no topic"; }), "result_topic");
  EXPECT_EQ(FaultOf([](Task& task) { task.result_topic = ".."; }), "result_topic");
}

TEST(Tasks, TheHashIsOfWhatTheReceiverSees) {
  const std::string hash = HashOf(ChargeTask());
  EXPECT_EQ(HashOf(ChargeTask()), hash);
  const std::vector<std::function<void(Task&)>> seen = {
      [](Task& task) { task.target = "other"; },
      [](Task& task) { task.operation = "/refunds"; },
      [](Task& task) { task.content_type = "application/vnd.shop+json"; },
      [](Task& task) {
        task.headers = {{"x-a", "1"}};
      },
      [](Task& task) { task.request = "{}"; },
  };
  for (const auto& change : seen) EXPECT_NE(HashOf(Changed(change)), hash);
  const std::vector<std::function<void(Task&)>> unseen = {
      [](Task& task) { task.correlation_id = "c"; },
      [](Task& task) { task.causation_id = "c"; },
      [](Task& task) { task.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"; },
      [](Task& task) { task.result_topic = "charges"; },
      [](Task& task) { task.not_before = Timestamp{std::chrono::seconds{1}}; },
  };
  for (const auto& change : unseen) EXPECT_EQ(HashOf(Changed(change)), hash);
}

TEST(Tasks, PartsThatReadTheSameTogetherHashDifferently) {
  const auto with = [](Headers headers) { return HashOf(Changed([&](Task& task) { task.headers = headers; })); };
  EXPECT_NE(with({{"x", "1y"}}), with({{"x1", "y"}}));
  EXPECT_NE(with({{"x", "1"}, {"y", "2"}}), with({{"x", "11:y1:2"}}));
}

TEST(Tasks, EnqueuesInTheTransactionOfTheCaller) {
  const auto database = memory::MakeDatabase();
  const auto outbox = ValueOrThrow(memory::OpenOutboxStore(database));
  const Tasks tasks;
  EnqueuedTask first;
  testing::InTransaction(*outbox, [&](Transaction& transaction) -> Status {
    SEALANE_ASSIGN_OR_RETURN(first, tasks.Enqueue(transaction, ChargeTask()));
    SEALANE_ASSIGN_OR_RETURN(const EnqueuedTask again, tasks.Enqueue(transaction, ChargeTask()));
    EXPECT_EQ(again, (EnqueuedTask{first.id, true}));
    const auto conflict = tasks.Enqueue(transaction, Changed([](Task& task) { task.request = "{}"; }));
    EXPECT_FALSE(conflict.has_value());
    EXPECT_EQ(conflict.error().code(), "task_conflict");
    const auto refused = tasks.Enqueue(transaction, Changed([](Task& task) { task.target.clear(); }));
    EXPECT_FALSE(refused.has_value());
    return Ok();
  });
  EXPECT_EQ(ValueOrThrow(memory::MakeTaskStore(database)->Count()).pending, 1);
}

}  // namespace
}  // namespace sealane
