#pragma once

#include <librdkafka/rdkafka.h>

namespace sealane::kafka {

/// Destroys a client of librdkafka within seconds, whatever the network does. That joins threads, and one of them may
/// be in a slow name lookup: a client that needs longer is left behind to finish alone. `what` names it in the log.
void Destroy(rd_kafka_t* handle, int flags, const char* what);

}  // namespace sealane::kafka
