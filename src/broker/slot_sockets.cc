// Socket options are set here once; clients receive ready sockets.
#include "broker/slot_sockets.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/plain_socket.h"
#include "broker/port_holder.h"

namespace verbena::broker {
namespace {

constexpr int kReceiveBufferBytes = 8 << 20;
constexpr size_t kMaxDrained = 1 << 16;  // a flood may go on for ever; a drain does not
constexpr uint32_t kDestQpnOffset = 5;   // of the destination QPN's top byte in a UDP payload

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof(value));
}

int bind_any(int fd, int family, uint16_t port) {
  if (family == AF_INET) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    return ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  return ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
}

link::Fd open_udp(int family) {
  link::Fd fd(plain_socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid() && family == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  return fd;
}

// Unwanted options fail silently: an old kernel without UDP_GRO still receives.
void set_receive_options(int fd, int family) {
  set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  int bytes = kReceiveBufferBytes;
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0) {
    set(fd, SOL_SOCKET, SO_RCVBUF, bytes);
  }
  set(fd, IPPROTO_UDP, UDP_GRO, 1);
  if (family == AF_INET) {
    set(fd, IPPROTO_IP, IP_PKTINFO, 1);
    set(fd, IPPROTO_IP, IP_RECVTOS, 1);
    set(fd, IPPROTO_IP, IP_RECVTTL, 1);
    set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    return;
  }
  set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
  set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
  set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
  // Linux rxe sends UDP checksum 0 over IPv6 (the ICRC protects more); without this it is dropped.
  set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
}

// `before`: how many sockets the group has before slot 0's.
int attach_steering(int fd, uint32_t before) {
  sock_filter code[] = {
      {BPF_LD | BPF_B | BPF_ABS, 0, 0, kDestQpnOffset},
      {BPF_ALU | BPF_ADD | BPF_K, 0, 0, before},
      {BPF_RET | BPF_A, 0, 0, 0},
  };
  sock_fprog program{3, code};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

bool kernel_has_ipv6() {
  link::Fd probe = open_udp(AF_INET6);
  return probe.valid() && bind_any(probe.get(), AF_INET6, 0) == 0;
}

// SO_REUSEPORT would let us join a group that we do not rule; a plain bind meets every holder.
bool port_is_free(int family, uint16_t port) {
  link::Fd probe = open_udp(family);
  return !probe.valid() || bind_any(probe.get(), family, port) == 0 || errno != EADDRINUSE;
}

}  // namespace

Result<void> SocketGroup::open(uint16_t port) {
  port_ = port;
  has_ipv6_ = kernel_has_ipv6();
  if (!port_is_free(AF_INET, port) || (has_ipv6_ && !port_is_free(AF_INET6, port))) {
    return fail(EADDRINUSE, describe_port_holder(port));
  }
  Result<void> grown = grow_to(0);
  return grown ? steer() : grown;
}

Result<void> SocketGroup::open_behind(uint16_t port, std::vector<SlotSockets> former,
                                      uint32_t last) {
  port_ = port;
  has_ipv6_ = kernel_has_ipv6();
  former_ = std::move(former);
  Result<void> grown = grow_to(last);
  return grown ? steer() : grown;
}

Result<void> SocketGroup::steer() {
  const auto count_before = [this](link::Fd SlotSockets::* family) {
    return static_cast<uint32_t>(
        std::count_if(former_.begin(), former_.end(),
                      [family](const SlotSockets& each) { return (each.*family).valid(); }));
  };
  if (attach_steering(sockets_[0].udp4.get(), count_before(&SlotSockets::udp4)) != 0 ||
      (has_ipv6_ &&
       attach_steering(sockets_[0].udp6.get(), count_before(&SlotSockets::udp6)) != 0)) {
    return fail(errno, std::string("the kernel refused the SO_REUSEPORT filter that shares UDP "
                                   "port 4791 between processes: ") +
                           std::strerror(errno));
  }
  return {};
}

Result<SlotSockets> SocketGroup::make_sockets() {
  SlotSockets out;
  for (int family : {AF_INET, AF_INET6}) {
    if (family == AF_INET6 && !has_ipv6_) continue;
    link::Fd fd = open_udp(family);
    if (fd.valid()) {
      set_receive_options(fd.get(), family);
      if (bind_any(fd.get(), family, port_) == 0) {
        (family == AF_INET ? out.udp4 : out.udp6) = std::move(fd);
        continue;
      }
    }
    int error = errno;
    if (error == EADDRINUSE) return fail(error, describe_port_holder(port_));
    return fail(error, "cannot open a UDP socket on port " + std::to_string(port_) + ": " +
                           std::strerror(error));
  }
  return out;
}

Result<void> SocketGroup::grow_to(uint32_t slot) {
  while (sockets_.size() <= slot) {
    Result<SlotSockets> made = make_sockets();
    if (!made) return tl::unexpected<Error>(made.error());
    sockets_.push_back(std::move(*made));
    has_ipv6_ = sockets_[0].udp6.valid();
  }
  return {};
}

size_t SocketGroup::drain(uint32_t slot) {
  size_t dropped = 0;
  char byte;
  for (int fd : {sockets_[slot].udp4.get(), sockets_[slot].udp6.get()}) {
    while (fd >= 0 && dropped < kMaxDrained) {
      if (::recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0) {
        ++dropped;
      } else if (errno != EINTR) {
        break;
      }
    }
  }
  return dropped;
}

}  // namespace verbena::broker
