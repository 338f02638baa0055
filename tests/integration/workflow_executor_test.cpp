// Protects the start of process instances: the request that a cluster gets, and that an attempt after an unclear one
// looks for the instance before it starts another.

#include "http/workflow_executor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/http_receiver.hpp"
#include "support/sample_events.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using nlohmann::json;
using std::chrono::milliseconds;
using Answer = HttpReceiver::Answer;
using Request = HttpReceiver::Request;

constexpr const char* kSearch = "/v2/process-instances/search";

ClaimedTask Start(const std::string& variables = R"({"amount":5})", std::int32_t attempt = 1) {
  ClaimedTask claimed;
  claimed.id = FreshId();
  claimed.task = {
      .target = "camunda", .operation = "ship-order", .idempotency_key = "order \"1\"", .request = variables};
  claimed.attempt = attempt;
  claimed.tries = attempt;
  return claimed;
}

/// A cluster that remembers what was started, and answers searches from that.
class Workflow : public ::testing::Test {
 protected:
  Workflow() {
    receiver_.SetHandler([this](const Request& request) { return Serve(request); });
  }
  Answer Serve(const Request& request) {
    const json body = json::parse(request.body);
    if (request.target == kSearch) {
      if (search_status_ != 200) return {.status = search_status_};
      json items = json::array();
      const json& wanted = body["filter"]["variables"][0];
      for (const json& instance : instances_) {
        const json& variables = instance["variables"];
        const std::string name = wanted["name"];
        if (instance["processDefinitionId"] == body["filter"]["processDefinitionId"] && variables.contains(name) &&
            variables[name].dump() == wanted["value"].get<std::string>()) {
          items.push_back({{"processInstanceKey", instance["processInstanceKey"]}});
        }
      }
      return {.body = json{{"items", items}, {"page", {{"totalItems", items.size()}}}}.dump()};
    }
    json instance = body;
    instance["processInstanceKey"] = std::to_string(100 + instances_.size());
    instances_.push_back(instance);
    return {.status = start_status_, .hang_up = lose_answer_, .body = instance.dump()};
  }
  AttemptReport Attempt(const ClaimedTask& task, const std::string& key_variable = "businessKey") const {
    const auto executor =
        ValueOrThrow(OpenWorkflowExecutor({.caller = {.url = receiver_.url("")}, .key_variable = key_variable}));
    return executor->Execute(task, {});
  }

  std::vector<json> instances_;
  int search_status_ = 200;
  int start_status_ = 200;
  bool lose_answer_ = false;
  HttpReceiver receiver_;
};

TEST_F(Workflow, StartsAnInstanceThatCarriesTheKey) {
  const AttemptReport report = Attempt(Start());
  EXPECT_EQ(report.verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(json::parse(report.response)["processInstanceKey"], "100");
  ASSERT_EQ(receiver_.requests().size(), 1U) << "a first attempt has nothing to look for";
  const Request request = receiver_.requests()[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v2/process-instances");
  EXPECT_EQ(request.Header("content-type"), "application/json");
  EXPECT_EQ(json::parse(request.body), (json{{"processDefinitionId", "ship-order"},
                                             {"variables", {{"amount", 5}, {"businessKey", "order \"1\""}}}}));
}

TEST_F(Workflow, TakesAnyObjectOfVariables) {
  for (const std::string variables : {"{}", " { } ", "", R"({"businessKey":"order \"1\""})"}) {
    EXPECT_EQ(Attempt(Start(variables)).verdict, AttemptVerdict::kSucceeded) << variables;
    EXPECT_EQ(json::parse(receiver_.requests().back().body)["variables"], (json{{"businessKey", "order \"1\""}}));
  }
  for (const std::string variables :
       {"[1]", "5", "{", "{\"a\":}", R"({"businessKey":"another"})", R"({"businessKey":1})"}) {
    const AttemptReport report = Attempt(Start(variables));
    EXPECT_EQ(report.verdict, AttemptVerdict::kRefused) << variables;
    EXPECT_EQ(report.code, "invalid_request") << variables;
  }
  EXPECT_EQ(instances_.size(), 4U);
}

TEST_F(Workflow, FindsTheInstanceOfAnAttemptWhoseAnswerWasLost) {
  lose_answer_ = true;
  const AttemptReport lost = Attempt(Start());
  EXPECT_EQ(lost.verdict, AttemptVerdict::kUnknown);
  EXPECT_GE(lost.retry_after, milliseconds{10'000}) << "the search lags behind";
  lose_answer_ = false;
  const AttemptReport found = Attempt(Start(R"({"amount":5})", 2));
  EXPECT_EQ(found.verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(json::parse(found.response)["processInstanceKey"], "100");
  EXPECT_EQ(instances_.size(), 1U);
}

TEST_F(Workflow, LooksAlsoWhenOnlyTheStoreIsInDoubt) {
  Attempt(Start());
  ClaimedTask again = Start();
  again.in_doubt = true;
  EXPECT_EQ(Attempt(again).verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(instances_.size(), 1U);
}

TEST_F(Workflow, StartsOneWhenTheSearchFindsNone) {
  Attempt(Start(R"({})", 1), "otherVariable");
  EXPECT_EQ(Attempt(Start(R"({})", 2)).verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(instances_.size(), 2U);
  EXPECT_EQ(receiver_.requests()[1].target, kSearch);
}

TEST_F(Workflow, StartsNothingWhileItCannotLook) {
  for (const int status : {404, 500, 503}) {
    search_status_ = status;
    const AttemptReport report = Attempt(Start(R"({})", 2));
    EXPECT_EQ(report.verdict, AttemptVerdict::kRetry) << status;
    EXPECT_EQ(report.code, "search_failed") << status;
  }
  search_status_ = 401;
  EXPECT_EQ(Attempt(Start(R"({})", 2)).code, "not_authorised");
  receiver_.SetHandler([](const Request&) { return Answer{.body = "<html>"}; });
  EXPECT_EQ(Attempt(Start(R"({})", 2)).code, "search_failed");
  EXPECT_TRUE(instances_.empty());
}

TEST_F(Workflow, JudgesAsEveryHttpTargetDoes) {
  const std::map<int, AttemptVerdict> expected = {{400, AttemptVerdict::kRefused},
                                                  {404, AttemptVerdict::kRefused},
                                                  {503, AttemptVerdict::kRetry},
                                                  {504, AttemptVerdict::kUnknown}};
  for (const auto& [status, verdict] : expected) {
    start_status_ = status;
    EXPECT_EQ(Attempt(Start()).verdict, verdict) << status;
  }
}

TEST_F(Workflow, LimitsLookingAndStartingTogether) {
  const auto executor =
      ValueOrThrow(OpenWorkflowExecutor({.caller = {.url = receiver_.url(""), .timeout = milliseconds{1'500}}}));
  EXPECT_EQ(executor->time_limit(), milliseconds{3'000});
}

}  // namespace
}  // namespace sealane
