#pragma once

#include <utility>

#include "sealane/handler.hpp"

namespace sealane {

/// The transaction as the handler of one event sees it: events and tasks written in it say that this one caused them,
/// unless they say something else.
class CausedTransaction final : public HandlerTransaction {
 public:
  CausedTransaction(HandlerTransaction& inner, const Envelope& cause) : inner_(inner), cause_(cause) {}

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override {
    std::vector<NewEntry> caused(entries.begin(), entries.end());
    for (NewEntry& entry : caused) {
      if (entry.envelope.causation_id.empty()) entry.envelope.causation_id = cause_.id.ToString();
      if (entry.envelope.correlation_id.empty()) entry.envelope.correlation_id = cause_.correlation_id;
      if (entry.envelope.traceparent.empty()) {
        entry.envelope.traceparent = cause_.traceparent;
        entry.envelope.tracestate = cause_.tracestate;
      }
    }
    return inner_.Append(caused);
  }
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override { return inner_.NextVersion(aggregate); }
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override {
    return inner_.AdvanceVersion(aggregate, expected);
  }
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override {
    return inner_.EnsureOnce(scope, key);
  }
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override { return inner_.BeginOnce(claim); }
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override {
    return inner_.CompleteOnce(claim, response);
  }
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override {
    NewTask caused = task;
    if (caused.task.causation_id.empty()) caused.task.causation_id = cause_.id.ToString();
    if (caused.task.correlation_id.empty()) caused.task.correlation_id = cause_.correlation_id;
    if (caused.task.traceparent.empty()) caused.task.traceparent = cause_.traceparent;
    return inner_.EnqueueTask(caused);
  }
  Result<std::int64_t> Execute(const std::string& sql, std::span<const SqlValue> values) override {
    return inner_.Execute(sql, values);
  }
  Status Post(const std::string& sql, std::span<const SqlValue> values) override { return inner_.Post(sql, values); }
  Result<std::vector<std::vector<std::optional<std::string>>>> Query(const std::string& sql,
                                                                     std::span<const SqlValue> values,
                                                                     std::size_t rows_max) override {
    return inner_.Query(sql, values, rows_max);
  }
  Native native() override { return inner_.native(); }
  Status Check() override { return inner_.Check(); }

 private:
  HandlerTransaction& inner_;
  const Envelope& cause_;
};

}  // namespace sealane
