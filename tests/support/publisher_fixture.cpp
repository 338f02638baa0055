#include "support/publisher_fixture.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include "base/hex.hpp"
#include "http/http_publisher.hpp"
#include "journal/journal_publisher.hpp"
#include "journal/journal_reader.hpp"
#include "kafka/kafka_publisher.hpp"
#include "memory/memory_broker.hpp"
#include "stdio/stdout_publisher.hpp"
#include "support/http_receiver.hpp"
#include "support/kafka_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;

class MemoryFixture final : public PublisherFixture {
 public:
  std::unique_ptr<Publisher> Open(const HoldLimits& limits) override { return broker_.Connect(limits); }
  std::vector<ArrivedMessage> Arrived(std::size_t) override {
    std::vector<ArrivedMessage> arrived;
    for (MemoryRecord& record : broker_.records()) {
      arrived.push_back({std::move(record.key), std::move(record.value), std::move(record.headers)});
    }
    return arrived;
  }
  void BeginOutage() override { broker_.BeginOutage(); }
  void EndOutage() override { broker_.EndOutage(); }

 private:
  MemoryBroker broker_;
};

class JournalFixture final : public PublisherFixture {
 public:
  JournalFixture() {
    options_.path = file_.folder() + "/journal.db";
    options_.busy_patience = milliseconds{2'000};
    Open({});  // makes the file
    options_.busy_patience = milliseconds{20};
  }
  std::unique_ptr<Publisher> Open(const HoldLimits& limits) override {
    JournalOptions options = options_;
    options.hold = limits;
    return ValueOrThrow(OpenJournalPublisher(options, SystemClock::Instance()));
  }
  std::vector<ArrivedMessage> Arrived(std::size_t) override {
    const auto reader = ValueOrThrow(JournalReader::Open(options_, SystemClock::Instance()));
    std::vector<ArrivedMessage> arrived;
    for (const JournalPartition& partition : ValueOrThrow(reader->Partitions(topic()))) {
      for (std::int64_t next = 0; next < partition.next_offset;) {
        for (JournalMessage& message : ValueOrThrow(reader->Read(topic(), partition.partition, next))) {
          next = message.offset + 1;
          arrived.push_back({std::move(message.key), std::move(message.value), std::move(message.headers)});
        }
      }
    }
    return arrived;
  }
  void BeginOutage() override {
    writer_ = std::make_unique<SqliteHandle>(options_.path, SQLITE_OPEN_READWRITE);
    writer_->Execute("BEGIN IMMEDIATE");
  }
  void EndOutage() override { writer_->Execute("ROLLBACK"); }

 private:
  SqliteFile file_;
  JournalOptions options_;
  std::unique_ptr<SqliteHandle> writer_;
};

std::string PercentDecoded(const std::string& text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = text[i] == '%' ? FromHex(std::string_view(text).substr(i + 1, 2)) : std::nullopt;
    decoded += byte ? *byte : text.substr(i, 1);
    if (byte) i += 2;
  }
  return decoded;
}

/// A receiver that keeps Idempotency-Keys, as it should.
class HttpFixture final : public PublisherFixture {
 public:
  std::unique_ptr<Publisher> Open(const HoldLimits& limits) override {
    return ValueOrThrow(OpenHttpPublisher({.url = receiver_.url(),
                                           .connections_max = 8,
                                           .retry_min = milliseconds{5},
                                           .retry_max = milliseconds{20},
                                           .hold = limits},
                                          SystemClock::Instance()));
  }
  std::vector<ArrivedMessage> Arrived(std::size_t) override {
    std::vector<ArrivedMessage> arrived;
    std::set<std::string> seen;
    for (const HttpReceiver::Request& request : receiver_.requests()) {
      if (!seen.insert(request.Header("idempotency-key")).second) continue;
      EXPECT_EQ(request.Header("sealane-topic"), topic());
      ArrivedMessage message{PercentDecoded(request.Header("sealane-key")), request.body, {}};
      for (const auto& [name, value] : request.headers) message.headers.push_back({name, PercentDecoded(value)});
      arrived.push_back(std::move(message));
    }
    return arrived;
  }
  void BeginOutage() override { receiver_.Stop(); }
  void EndOutage() override { receiver_.Start(); }

 private:
  HttpReceiver receiver_;
};

/// A pipe that somebody reads, unless there is an outage: then it is full and stays so.
class StdoutFixture final : public PublisherFixture {
 public:
  StdoutFixture() {
    EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0);
    StartReader();
  }
  ~StdoutFixture() override {
    reader_ = {};
    for (const int end : ends_) ::close(end);
  }
  std::unique_ptr<Publisher> Open(const HoldLimits& limits) override {
    return MakeStdoutPublisher({.descriptor = ends_[1], .hold = limits}, SystemClock::Instance());
  }
  std::vector<ArrivedMessage> Arrived(std::size_t count) override {
    std::unique_lock lock(mutex_);
    read_more_.wait_for(lock, std::chrono::seconds{30}, [&] { return arrived_.size() >= count; });
    return arrived_;
  }
  void BeginOutage() override {
    reader_ = {};
    const int flags = ::fcntl(ends_[1], F_GETFL);
    ::fcntl(ends_[1], F_SETFL, flags | O_NONBLOCK);
    while (::write(ends_[1], "\n", 1) == 1) {  // empty lines, which readers skip
    }
    ::fcntl(ends_[1], F_SETFL, flags);
  }
  void EndOutage() override { StartReader(); }
  bool tells_outage() const override { return false; }  // a reader may take its time

 private:
  void StartReader() {
    reader_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd input{ends_[0], POLLIN, 0};
        constexpr int kLookForStopMs = 20;
        if (::poll(&input, 1, kLookForStopMs) > 0) ReadSome();
      }
    });
  }
  void ReadSome() {
    std::array<char, 4096> block{};
    const ssize_t count = ::read(ends_[0], block.data(), block.size());
    if (count <= 0) return;
    text_.append(block.data(), static_cast<std::size_t>(count));
    for (std::size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      if (end > 0) Add(nlohmann::json::parse(text_.substr(0, end)));
      text_.erase(0, end + 1);
    }
  }
  void Add(const nlohmann::json& line) {
    EXPECT_EQ(line["topic"], topic());
    ArrivedMessage message{line["key"], {}, {}};
    message.value = line.contains("value") ? line["value"].get<std::string>()
                                           : FromBase64(line["value_base64"].get<std::string>()).value_or("?");
    if (line.contains("headers")) {
      for (const auto& [name, value] : line["headers"].items()) message.headers.push_back({name, value});
    }
    {
      const std::lock_guard lock(mutex_);
      arrived_.push_back(std::move(message));
    }
    read_more_.notify_all();
  }

  std::array<int, 2> ends_ = {-1, -1};
  std::string text_;  // of the reader
  std::mutex mutex_;
  std::condition_variable read_more_;
  std::vector<ArrivedMessage> arrived_;  // guarded by mutex_
  std::jthread reader_;
};

/// A topic of its own in the Kafka that all tests share. Outages are the business of the Kafka tests.
class KafkaFixture final : public PublisherFixture {
 public:
  std::unique_ptr<Publisher> Open(const HoldLimits& limits) override {
    return ValueOrThrow(OpenKafkaPublisher(
        {.url = url_, .messages_max = limits.messages_max, .bytes_max = limits.bytes_max}, SystemClock::Instance()));
  }
  std::string topic() const override { return topic_; }
  std::vector<ArrivedMessage> Arrived(std::size_t count) override {
    std::vector<ArrivedMessage> arrived;
    for (KafkaRecord& record : ReadTopic(url_, topic_, count)) {
      ArrivedMessage message{std::move(record.key), std::move(record.value), {}};
      for (auto& [name, value] : record.headers) message.headers.push_back({std::move(name), std::move(value)});
      arrived.push_back(std::move(message));
    }
    EXPECT_EQ(CountRecords(url_, topic_), arrived.size());
    return arrived;
  }
  void BeginOutage() override { ADD_FAILURE() << "this Kafka is shared"; }
  void EndOutage() override {}

 private:
  const std::string url_ = KafkaUrl();
  const std::string topic_ = FreshTopic(url_);
};

}  // namespace

std::vector<std::string> PublisherKinds() {
  return {"memory", "journal", "http", "stdout", "kafka"};
}

std::vector<std::string> PublisherKindsWithOutage() {
  return {"memory", "journal", "http", "stdout"};
}

std::unique_ptr<PublisherFixture> MakePublisherFixture(const std::string& kind) {
  if (kind == "memory") return std::make_unique<MemoryFixture>();
  if (kind == "journal") return std::make_unique<JournalFixture>();
  if (kind == "http") return std::make_unique<HttpFixture>();
  if (kind == "stdout") return std::make_unique<StdoutFixture>();
  EXPECT_EQ(kind, "kafka");
  if (KafkaUrl().empty()) return nullptr;
  return std::make_unique<KafkaFixture>();
}

}  // namespace sealane::testing
