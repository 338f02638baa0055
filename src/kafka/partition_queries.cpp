#include "kafka/partition_queries.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "kafka/consumer_errors.hpp"
#include "kafka/kafka_errors.hpp"
#include "kafka/properties.hpp"

namespace sealane::kafka {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAskAgainAfter{50};
constexpr milliseconds kPeekStep{100};

/// Until when an answer is waited for.
class Deadline {
 public:
  explicit Deadline(milliseconds limit) : at_(steady_clock::now() + limit) {}
  bool is_over() const { return steady_clock::now() >= at_; }
  milliseconds left() const {
    return std::max(std::chrono::ceil<milliseconds>(at_ - steady_clock::now()), milliseconds{1});
  }

 private:
  const steady_clock::time_point at_;
};

Error Unanswered(std::string text) {
  return Error(ErrorKind::kUnavailable, "broker_unreachable", std::move(text))
      .WithHint("check the network and whether the brokers run; it is asked again");
}

Error UnknownTopic(const Partition& partition) {
  return Error(ErrorKind::kUnavailable, "unknown_topic",
               fmt::format("there is no partition {} of topic {}", partition.number,
                           EscapeForTerminal(partition.topic)))
      .WithHint("make the topic, or correct its name");
}

/// Nothing when asking again may help.
std::optional<Error> LastingTrouble(rd_kafka_resp_err_t error, const Partition& partition) {
  switch (TroubleOf(error)) {
    case ReadingTrouble::kMissing:
      return UnknownTopic(partition);
    case ReadingTrouble::kFinal:
      return FinalError(error, fmt::format("topic {}, partition {}: {}", partition.topic, partition.number,
                                           rd_kafka_err2str(error)));
    case ReadingTrouble::kNone:
    case ReadingTrouble::kPasses:
      break;
  }
  return std::nullopt;
}

using Offsets = std::map<Partition, std::int64_t>;

/// Asks with `ask(list, wait)`, which fills a list of the partitions in, until there is an answer for each of them.
template <class Ask>
Result<Offsets> AskUntil(std::span<const Partition> partitions, std::int64_t offset, const Deadline& deadline,
                         const Ask& ask) {
  while (true) {
    PartitionList list;
    for (const Partition& partition : partitions) list.Add(partition, offset);
    const rd_kafka_resp_err_t failed = ask(list, deadline.left());
    rd_kafka_resp_err_t passing = failed;
    Offsets offsets;
    for (int i = 0; i < list.get()->cnt; ++i) {
      const rd_kafka_topic_partition_t& entry = list.get()->elems[i];
      const Partition partition = PartitionOf(entry);
      if (auto trouble = LastingTrouble(entry.err, partition)) return *std::move(trouble);
      if (entry.err != RD_KAFKA_RESP_ERR_NO_ERROR) passing = entry.err;
      offsets[partition] = entry.offset;
    }
    if (auto trouble = LastingTrouble(failed, partitions.front())) return *std::move(trouble);
    if (passing == RD_KAFKA_RESP_ERR_NO_ERROR) return offsets;
    if (deadline.is_over()) return Unanswered(rd_kafka_err2str(passing)).WithNative(std::string(NameOf(passing)));
    std::this_thread::sleep_for(std::min(kAskAgainAfter, deadline.left()));
  }
}

/// `time`: milliseconds since 1970, or RD_KAFKA_OFFSET_BEGINNING or RD_KAFKA_OFFSET_END. Below 0 where there is none.
Result<Offsets> OffsetsAt(Consumer& consumer, std::span<const Partition> partitions, std::int64_t time,
                          const Deadline& deadline) {
  return AskUntil(partitions, time, deadline,
                  [&](const PartitionList& list, milliseconds wait) { return consumer.OffsetsForTimes(list, wait); });
}

using TopicIds = std::map<std::string, std::string>;

#if RD_KAFKA_VERSION >= 0x020300ff
using TopicCollection = std::unique_ptr<rd_kafka_TopicCollection_t, Releaser<rd_kafka_TopicCollection_destroy>>;

Event AskForTopics(rd_kafka_t* handle, const std::set<std::string>& topics, milliseconds wait) {
  std::vector<const char*> names;
  for (const std::string& topic : topics) names.push_back(topic.c_str());
  const TopicCollection collection(rd_kafka_TopicCollection_of_topic_names(names.data(), names.size()));
  const AdminOptions options(rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS));
  const int timeout = static_cast<int>(wait.count());
  rd_kafka_AdminOptions_set_request_timeout(options.get(), timeout, nullptr, 0);
  const Queue queue(rd_kafka_queue_new(handle));
  rd_kafka_DescribeTopics(handle, collection.get(), options.get(), queue.get());
  return Event(rd_kafka_queue_poll(queue.get(), timeout));
}

Result<TopicIds> TopicIdsOf(Consumer& consumer, const std::set<std::string>& topics, const Deadline& deadline) {
  const Event event = AskForTopics(consumer.handle(), topics, deadline.left());
  if (event == nullptr) return Unanswered("the ids of the topics were not told in time");
  if (const auto error = rd_kafka_event_error(event.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return Unanswered(rd_kafka_event_error_string(event.get())).WithNative(std::string(NameOf(error)));
  }
  std::size_t count = 0;
  const rd_kafka_TopicDescription_t** const found =
      rd_kafka_DescribeTopics_result_topics(rd_kafka_event_DescribeTopics_result(event.get()), &count);
  TopicIds ids;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string topic = rd_kafka_TopicDescription_name(found[i]);
    if (const rd_kafka_error_t* const refused = rd_kafka_TopicDescription_error(found[i]);
        refused != nullptr && rd_kafka_error_code(refused) != RD_KAFKA_RESP_ERR_NO_ERROR) {
      const rd_kafka_resp_err_t error = rd_kafka_error_code(refused);
      if (auto trouble = LastingTrouble(error, {topic, 0})) return *std::move(trouble);
      return Unanswered(rd_kafka_error_string(refused)).WithNative(std::string(NameOf(error)));
    }
    const rd_kafka_Uuid_t* const id = rd_kafka_TopicDescription_topic_id(found[i]);
    // Zero: the broker does not know it.
    if (id == nullptr ||
        (rd_kafka_Uuid_most_significant_bits(id) == 0 && rd_kafka_Uuid_least_significant_bits(id) == 0)) {
      continue;
    }
    ids[topic] = rd_kafka_Uuid_base64str(id);
  }
  return ids;
}
#else
Result<TopicIds> TopicIdsOf(Consumer&, const std::set<std::string>&, const Deadline&) {
  return TopicIds{};
}
#endif

/// Reads one message of each of some places.
class Peek final : private Consumer::Listener {
 public:
  void Add(const PartitionOffset& place) { wanted_[place.partition] = place.offset; }

  Status Run(const rd_kafka_conf_t& conf, const Deadline& deadline) {
    if (wanted_.empty()) return Ok();
    SEALANE_ASSIGN_OR_RETURN(consumer_, Consumer::Make(Conf(rd_kafka_conf_dup(&conf)), {}, *this));
    PartitionList list;
    for (const auto& [partition, offset] : wanted_) list.Add(partition, offset);
    if (const auto error = consumer_->Assign(list); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return Unanswered(rd_kafka_err2str(error)).WithNative(std::string(NameOf(error)));
    }
    while (!wanted_.empty()) {
      if (deadline.is_over()) return Unanswered(problem_.empty() ? "no message was read in time" : problem_);
      const MessageHandle message = consumer_->Poll(std::min(deadline.left(), kPeekStep));
      if (message != nullptr) SEALANE_RETURN_IF_ERROR(Look(*message));
    }
    return Ok();
  }

  std::optional<ReceivedMessage> Take(const Partition& partition) {
    const auto found = messages_.find(partition);
    return found == messages_.end() ? std::nullopt : std::optional(std::move(found->second));
  }

 private:
  Status Look(const rd_kafka_message_t& message) {
    const auto wanted = wanted_.find(PartitionOf(message));
    if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (wanted == wanted_.end() || message.offset < wanted->second) return Ok();
      if (message.offset == wanted->second) messages_[wanted->first] = CopyOf(message);
      Done(wanted);
      return Ok();
    }
    const bool nothing_there = message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF ||
                               message.err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
                               message.err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE;
    if (nothing_there) {
      if (wanted != wanted_.end()) Done(wanted);
      return Ok();
    }
    if (auto trouble = LastingTrouble(message.err, PartitionOf(message))) return *std::move(trouble);
    problem_ = EscapeForTerminal(rd_kafka_message_errstr(&message));
    return Ok();
  }

  void Done(std::map<Partition, std::int64_t>::iterator wanted) {
    PartitionList list;
    list.Add(wanted->first);
    wanted_.erase(wanted);
    if (!wanted_.empty()) consumer_->Pause(list);  // others are still to be fetched
  }

  void OnAssigned(std::vector<Partition>) override {}
  void OnRevoked(bool) override {}
  void OnBrokerError(rd_kafka_resp_err_t, std::string_view text) override { problem_ = EscapeForTerminal(text); }

  std::map<Partition, std::int64_t> wanted_;
  std::map<Partition, ReceivedMessage> messages_;
  std::string problem_;                 // the last one
  std::unique_ptr<Consumer> consumer_;  // last: it calls back while it lives
};

}  // namespace

Result<std::vector<PartitionFacts>> FactsOf(Consumer& consumer, std::span<const Partition> partitions,
                                            milliseconds limit) {
  std::vector<PartitionFacts> facts;
  if (partitions.empty()) return facts;
  const Deadline deadline(limit);
  std::set<std::string> topics;
  for (const Partition& partition : partitions) topics.insert(partition.topic);
  SEALANE_ASSIGN_OR_RETURN(TopicIds ids, TopicIdsOf(consumer, topics, deadline));
  SEALANE_ASSIGN_OR_RETURN(Offsets oldest, OffsetsAt(consumer, partitions, RD_KAFKA_OFFSET_BEGINNING, deadline));
  SEALANE_ASSIGN_OR_RETURN(Offsets ends, OffsetsAt(consumer, partitions, RD_KAFKA_OFFSET_END, deadline));
  SEALANE_ASSIGN_OR_RETURN(Offsets group, AskUntil(partitions, RD_KAFKA_OFFSET_INVALID, deadline,
                                                   [&](const PartitionList& list, milliseconds wait) {
                                                     return consumer.Committed(list, wait);
                                                   }));
  for (const Partition& partition : partitions) {
    const std::int64_t committed = group[partition];
    if (oldest[partition] < 0 || ends[partition] < 0) return UnknownTopic(partition);
    facts.push_back({.partition = partition,
                     .topic_id = ids[partition.topic],
                     .oldest = oldest[partition],
                     .end = ends[partition],
                     .group = committed < 0 ? std::nullopt : std::optional(committed)});
  }
  return facts;
}

Result<std::int64_t> OffsetAt(Consumer& consumer, const Partition& partition, Timestamp time, milliseconds limit) {
  const Deadline deadline(limit);
  const std::span<const Partition> one(&partition, 1);
  // Below 0 a broker would take it for the beginning or the end.
  const auto since = std::max(std::chrono::ceil<milliseconds>(time.time_since_epoch()), milliseconds{0});
  SEALANE_ASSIGN_OR_RETURN(Offsets found, OffsetsAt(consumer, one, since.count(), deadline));
  if (found[partition] >= 0) return found[partition];
  SEALANE_ASSIGN_OR_RETURN(Offsets ends, OffsetsAt(consumer, one, RD_KAFKA_OFFSET_END, deadline));
  if (ends[partition] < 0) return UnknownTopic(partition);
  return ends[partition];
}

Status FetchLittle(rd_kafka_conf_t& conf) {
  // A broker always sends the first batch of messages whole, however large it is.
  SEALANE_RETURN_IF_ERROR(SetProperty(conf, "max.partition.fetch.bytes", "65536"));
  return SetProperty(conf, "queued.min.messages", "1");
}

Result<std::vector<std::optional<ReceivedMessage>>> MessagesAt(Consumer& consumer, const rd_kafka_conf_t& conf,
                                                               std::span<const PartitionOffset> places,
                                                               milliseconds limit) {
  std::vector<std::optional<ReceivedMessage>> messages;
  if (places.empty()) return messages;
  const Deadline deadline(limit);
  std::vector<Partition> partitions;
  for (const PartitionOffset& place : places) partitions.push_back(place.partition);
  // Asked first, because a client that reads takes long to tell that a topic is missing.
  SEALANE_ASSIGN_OR_RETURN(Offsets oldest, OffsetsAt(consumer, partitions, RD_KAFKA_OFFSET_BEGINNING, deadline));
  SEALANE_ASSIGN_OR_RETURN(Offsets ends, OffsetsAt(consumer, partitions, RD_KAFKA_OFFSET_END, deadline));
  Peek peek;
  for (const PartitionOffset& place : places) {
    if (place.offset >= std::max<std::int64_t>(oldest[place.partition], 0) && place.offset < ends[place.partition]) {
      peek.Add(place);
    }
  }
  SEALANE_RETURN_IF_ERROR(peek.Run(conf, deadline));
  for (const PartitionOffset& place : places) messages.push_back(peek.Take(place.partition));
  return messages;
}

}  // namespace sealane::kafka
