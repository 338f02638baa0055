#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kafka/kafka_options.hpp"

namespace sealane::testing {

/// `kafka://...` of the private Kafka that the tests' fixture started; everybody may do everything there. Empty, and
/// said loudly, when there is none.
std::string KafkaUrl();
/// Its other listener, which asks for a password. The user `relay` with `right-password` may write to the topic
/// `allowed`, may only look at `read-only`, and has no right to `denied`.
std::string KafkaSaslUrl();
/// Options that log in there as `relay`.
KafkaOptions SaslOptions(const std::string& password = "right-password", const std::string& mechanism = "PLAIN");

/// Whether there is a Kafka on this machine that could be started.
bool KafkaIsInstalled();

/// Leaves the test when no Kafka runs: skipped aloud where there is none to start, failed where it should have been
/// started or where the variable CI says that all must run.
#define SEALANE_REQUIRE_KAFKA()                                                                     \
  if (::sealane::testing::KafkaUrl().empty()) {                                                     \
    if (std::getenv("CI") != nullptr) FAIL() << "a build that counts must have Kafka: ./dev setup"; \
    if (::sealane::testing::KafkaIsInstalled()) FAIL() << "Kafka is installed and was not started"; \
    GTEST_SKIP() << "NO KAFKA: this test did not run; ./dev setup gets it";                         \
  }                                                                                                 \
  static_assert(true, "")

/// Makes a topic and waits until every broker of the cluster knows its leaders.
void CreateTopic(const std::string& url, const std::string& name, int partitions = 3,
                 const std::map<std::string, std::string>& config = {});
/// The same under a name that nobody used before.
std::string FreshTopic(const std::string& url, int partitions = 3,
                       const std::map<std::string, std::string>& config = {});
/// A name that nobody used before.
std::string FreshTopicName();
/// Everything that is there, of other tests too.
std::vector<std::string> TopicNames(const std::string& url);
/// Lets the user `relay` write to the topic, or no longer.
void AllowWrite(const std::string& url, const std::string& topic, bool allowed);
/// Removes what is before this offset, as retention does.
void TrimPartition(const std::string& url, const std::string& topic, std::int32_t partition, std::int64_t before);

/// Deletes a topic with everything in it and waits until no broker knows it.
void DeleteTopic(const std::string& url, const std::string& name);
/// Gives the topic more partitions; `partitions` is how many it has then.
void GrowTopic(const std::string& url, const std::string& name, int partitions);
/// Forgets how far a group has committed, as expiry does. Waits until the group has no members.
void DeleteGroup(const std::string& url, const std::string& group);

/// Forgets how far a group has committed one topic. Waits until no member of the group reads it.
void DeleteGroupOffsets(const std::string& url, const std::string& group, const std::string& topic);

struct KafkaRecord {
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  std::string key;
  std::string value;
  std::vector<std::pair<std::string, std::string>> headers;
  std::int64_t timestamp_ms = 0;  ///< the broker's clock in topics with message.timestamp.type=LogAppendTime
};

/// All partitions from their beginning until `count` records are read; fewer when the time is over first. Records of
/// a partition come in its order.
std::vector<KafkaRecord> ReadTopic(const std::string& url, const std::string& topic, std::size_t count,
                                   std::chrono::seconds limit = std::chrono::seconds{30});
/// Every record that the topic holds now, however many more come meanwhile. Only of topics without transactions and
/// without removed records.
std::vector<KafkaRecord> ReadWholeTopic(const std::string& url, const std::string& topic);
/// How many records the topic holds now.
std::size_t CountRecords(const std::string& url, const std::string& topic);
/// How far a group has committed each partition of the topic; those without a position are left out.
std::map<std::int32_t, std::int64_t> CommittedOffsets(const std::string& url, const std::string& group,
                                                      const std::string& topic, int partitions);

/// A Kafka of one test's own, for tests that hurt it. Takes 8 s to start, 17 s with three nodes.
class PrivateKafka {
 public:
  explicit PrivateKafka(int nodes);
  ~PrivateKafka();
  PrivateKafka(const PrivateKafka&) = delete;
  PrivateKafka& operator=(const PrivateKafka&) = delete;

  const std::string& url() const { return url_; }
  /// kill -9.
  void StopNode(int node) const;
  void StartNode(int node) const;
  /// The node neither answers nor goes away.
  void Freeze(int node) const;
  void Thaw(int node) const;

 private:
  void Signal(int node, int signal) const;

  std::string folder_;
  std::string url_;
};

}  // namespace sealane::testing
