// Protects tests that kill a broker and start it again: it can have its port back at once.

#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/kafka_cluster.hpp"

namespace sealane::testing {
namespace {

/// As a server does it that is started again: connections that are just ending are no hindrance.
bool CanListenOn(int port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool free =
      ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(listener, 1) == 0;
  ::close(listener);
  return free;
}

TEST(PrivateKafkaTest, AStoppedNodeHasLetGoOfItsPort) {
  SEALANE_REQUIRE_KAFKA();
  const PrivateKafka kafka(1);
  const int port = std::stoi(kafka.url().substr(kafka.url().rfind(':') + 1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(CanListenOn(port));
    kafka.StopNode(1);
    EXPECT_TRUE(CanListenOn(port)) << "stop " << i;
    kafka.StartNode(1);
  }
}

}  // namespace
}  // namespace sealane::testing
