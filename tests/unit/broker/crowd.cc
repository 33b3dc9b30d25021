// The helper processes of the broker's tests, and what is asked of them.
#include "crowd.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker_fixture.h"

namespace verbena::broker {

int send_to_slot(int socket, uint32_t qpn, uint8_t mark) {
  uint8_t bth[16] = {0x04,         0, 0xff, 0xff, 0,   uint8_t(qpn >> 16), uint8_t(qpn >> 8),
                     uint8_t(qpn), 0, 0,    0,    mark};
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return static_cast<int>(
      ::sendto(socket, bth, sizeof(bth), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)));
}

int count_arrivals(int socket, uint8_t slot, int expected, int timeout_ms) {
  int count = 0;
  while (count < expected) {
    pollfd wait{socket, POLLIN, 0};
    if (::poll(&wait, 1, timeout_ms) <= 0) break;
    uint8_t bytes[65536];
    ssize_t n = ::recv(socket, bytes, sizeof(bytes), 0);
    if (n < 16) return -1;
    for (ssize_t at = 0; at + 16 <= n; at += 16) {  // UDP_GRO may merge them
      if (bytes[at + 5] != slot) return -1;
      ++count;
    }
  }
  return count;
}

namespace {

// The next command; "" when there will be none.
std::string hear_keeping(Lease& lease, int socket) {
  while (true) {
    const Lease::Kept kept = lease.keep();
    pollfd fds[2] = {{socket, POLLIN, 0}, kept.line};
    if (::poll(fds, 2, kept.again_ms) <= 0 || fds[0].revents == 0) continue;
    lease.keep();  // what came with the command, and before it
    return lab::hear(socket, 0);
  }
}

}  // namespace

void slot_owner(int socket) {
  Result<std::unique_ptr<Lease>> lease = attach(lab_options());
  if (!lease) return lab::say(socket, "error: " + lease.error().message);
  lab::say(socket, std::to_string((*lease)->slot()));
  while (true) {
    std::string command = hear_keeping(**lease, socket);
    if (command.empty() || command == "leave") break;
    if (command.rfind("count ", 0) == 0) {
      int expected = std::stoi(command.substr(6));
      int n = count_arrivals((*lease)->udp4(), (*lease)->slot(), expected);
      lab::say(socket, std::to_string(n));
    } else if (command.rfind("open ", 0) == 0) {
      auto peer = (*lease)->open_peer(static_cast<uint8_t>(std::stoi(command.substr(5))));
      lab::say(socket, peer ? "open" : "error: " + peer.error().message);
    } else if (command == "die") {
      ::_exit(0);  // without detach
    }
  }
  lease->reset();
  lab::say(socket, "left");
  lab::hear(socket, 60000);
}

Crowd::Crowd(int count) {
  for (int i = 0; i < count; ++i) {
    children.emplace_back(slot_owner);
    slots.push_back(std::atoi(children.back().receive().c_str()));
  }
}

::testing::AssertionResult Crowd::routes_exactly(const std::set<size_t>& except) {
  int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  for (int round = 0; round < 100; ++round) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (except.contains(i)) continue;
      uint32_t qpn = static_cast<uint32_t>(slots[i]) << 16 | (0x10 + round);
      if (send_to_slot(socket, qpn, static_cast<uint8_t>(round)) < 0) break;
    }
  }
  ::close(socket);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (except.contains(i)) continue;
    children[i].send("count 100");
    std::string got = children[i].receive();
    if (got != "100") {
      return ::testing::AssertionFailure() << "slot " << slots[i] << " got " << got;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace verbena::broker
