#include "support/tcp_proxy.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/eventually.hpp"

namespace sealane::testing {
namespace {

constexpr std::size_t kPendingMax = std::size_t{256} << 10U;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void MakeQuick(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
}

}  // namespace

TcpProxy::TcpProxy(int upstream) : upstream_(upstream) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) {
    std::perror("proxy");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stop_ = true;
  [[maybe_unused]] const ssize_t written = ::write(wake_[1], "x", 1);
  thread_.join();
  for (const Connection& one : connections_) {
    ::close(one.client.socket);
    ::close(one.server.socket);
  }
  for (const int fd : {listener_, wake_[0], wake_[1]}) ::close(fd);
}

void TcpProxy::Point(int upstream, bool cut) {
  upstream_ = upstream;
  if (!cut) return;
  const int wanted = ++cuts_asked_;
  [[maybe_unused]] const ssize_t written = ::write(wake_[1], "x", 1);
  Eventually([&] { return cuts_done_ >= wanted; });
}

void TcpProxy::Accept() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int port = upstream_;
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (port == 0 || ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(client);
    ::close(server);
    return;
  }
  MakeQuick(client);
  MakeQuick(server);
  connections_.push_back({.client = {.socket = client}, .server = {.socket = server}});
}

/// Moves what there is from one side to the other; false when the connection is over.
bool TcpProxy::Pump(Side& from, Side& to, short events_of_from, short events_of_to) {
  if ((events_of_from & (POLLIN | POLLHUP | POLLERR)) != 0 && to.pending.size() < kPendingMax && !from.ended) {
    char block[65536];
    const ssize_t count = ::recv(from.socket, block, sizeof block, 0);
    if (count > 0) to.pending.insert(to.pending.end(), block, block + count);
    if (count == 0) from.ended = true;
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    events_of_to |= POLLOUT;
  }
  if ((events_of_to & POLLOUT) != 0 && !to.pending.empty()) {
    const ssize_t count = ::send(to.socket, to.pending.data(), to.pending.size(), MSG_NOSIGNAL);
    if (count > 0) to.pending.erase(to.pending.begin(), to.pending.begin() + count);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
  }
  return !(from.ended && to.pending.empty());
}

void TcpProxy::Run() {
  std::vector<pollfd> fds;
  while (!stop_) {
    const int asked = cuts_asked_;
    if (asked > cuts_done_) {
      for (const Connection& one : connections_) {
        // The way a server that is gone ends a connection: at once.
        const linger hard{.l_onoff = 1, .l_linger = 0};
        ::setsockopt(one.client.socket, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        ::close(one.client.socket);
        ::close(one.server.socket);
      }
      connections_.clear();
      cuts_done_ = asked;
    }
    fds.assign({{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}});
    const auto wanted = [](const Side& side, const Side& other) {
      const int in = other.pending.size() < kPendingMax && !side.ended ? POLLIN : 0;
      return static_cast<short>(in | (side.pending.empty() ? 0 : POLLOUT));
    };
    for (const Connection& one : connections_) {
      fds.push_back({one.client.socket, wanted(one.client, one.server), 0});
      fds.push_back({one.server.socket, wanted(one.server, one.client), 0});
    }
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    char block[64];
    while (::read(wake_[0], block, sizeof block) > 0) {
    }
    std::vector<Connection> left;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Connection& one = connections_[i];
      const short client = fds[2 + 2 * i].revents;
      const short server = fds[3 + 2 * i].revents;
      if (Pump(one.client, one.server, client, server) && Pump(one.server, one.client, server, client)) {
        left.push_back(std::move(one));
      } else {
        ::close(one.client.socket);
        ::close(one.server.socket);
      }
    }
    connections_ = std::move(left);
    if ((fds[0].revents & POLLIN) != 0) Accept();
  }
}

}  // namespace sealane::testing
