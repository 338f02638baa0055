#include "kafka/health_board.hpp"

#include <utility>

#include "kafka/kafka_errors.hpp"

namespace sealane::kafka {

void HealthBoard::OnBrokerError(rd_kafka_resp_err_t error, std::string_view text) {
  if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    Error problem = cause_ ? *cause_ : BrokerProblem(error, text, mechanism_, rd_kafka_version());
    const bool misconfigured = problem.kind() == ErrorKind::kMisconfigured;
    Set(misconfigured ? PublisherHealth::State::kMisconfigured : PublisherHealth::State::kUnreachable,
        std::move(problem));
    return;
  }
  Error problem = BrokerProblem(error, text, mechanism_, rd_kafka_version());
  if (problem.kind() == ErrorKind::kMisconfigured) Set(PublisherHealth::State::kMisconfigured, problem);
  cause_ = std::move(problem);
}

void HealthBoard::OnSilence(Error problem) {
  Set(PublisherHealth::State::kUnreachable, std::move(problem));
}

void HealthBoard::OnMisconfigured(Error problem) {
  Set(PublisherHealth::State::kMisconfigured, std::move(problem));
}

PublisherHealth HealthBoard::Read() const {
  const std::scoped_lock lock(mutex_);
  return health_;
}

void HealthBoard::SetReady() {
  cause_.reset();
  const std::scoped_lock lock(mutex_);
  health_ = {};
  is_ready_.store(true, std::memory_order_relaxed);
}

void HealthBoard::Set(PublisherHealth::State state, Error problem) {
  const std::scoped_lock lock(mutex_);
  health_ = {.state = state, .problem = std::move(problem)};
  is_ready_.store(false, std::memory_order_relaxed);
}

}  // namespace sealane::kafka
