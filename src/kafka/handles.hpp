#pragma once

#include <memory>

#include <librdkafka/rdkafka.h>

namespace sealane::kafka {

/// Gives a handle of librdkafka back with the function that belongs to it.
template <auto Release>
struct Releaser {
  template <class T>
  void operator()(T* handle) const {
    Release(handle);
  }
};

using Conf = std::unique_ptr<rd_kafka_conf_t, Releaser<rd_kafka_conf_destroy>>;
using TopicConf = std::unique_ptr<rd_kafka_topic_conf_t, Releaser<rd_kafka_topic_conf_destroy>>;
using TopicHandle = std::unique_ptr<rd_kafka_topic_t, Releaser<rd_kafka_topic_destroy>>;
using Queue = std::unique_ptr<rd_kafka_queue_t, Releaser<rd_kafka_queue_destroy>>;
using Event = std::unique_ptr<rd_kafka_event_t, Releaser<rd_kafka_event_destroy>>;
using Headers = std::unique_ptr<rd_kafka_headers_t, Releaser<rd_kafka_headers_destroy>>;
using AdminOptions = std::unique_ptr<rd_kafka_AdminOptions_t, Releaser<rd_kafka_AdminOptions_destroy>>;
using NewTopic = std::unique_ptr<rd_kafka_NewTopic_t, Releaser<rd_kafka_NewTopic_destroy>>;
using ConfigResource = std::unique_ptr<rd_kafka_ConfigResource_t, Releaser<rd_kafka_ConfigResource_destroy>>;

struct MetadataReleaser {
  void operator()(const rd_kafka_metadata_t* metadata) const { rd_kafka_metadata_destroy(metadata); }
};
using Metadata = std::unique_ptr<const rd_kafka_metadata_t, MetadataReleaser>;

}  // namespace sealane::kafka
