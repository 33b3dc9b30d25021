// The receiving half of the UDP link: bursts of datagrams, each perhaps several packets that the
// kernel merged (UDP_GRO), every one ICRC-checked and parsed before anybody sees it.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>

#include "engine/transfer.h"
#include "link/function_ref.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbena::link {

struct UdpReceiveCounters {
  uint64_t datagrams = 0;  // reads; more packets than datagrams means GRO works
  uint64_t packets = 0;    // shown to the visitor
  uint64_t bytes = 0;      // their UDP payload
  uint64_t icrc_errors = 0;
  uint64_t solved_ids = 0;                 // accepted with an IPv4 identification other than 0
  uint64_t truncated = 0;                  // longer than any datagram can be, or without addresses
  std::array<uint64_t, 6> parse_errors{};  // by wire::ParseError
  uint64_t strays_forwarded = 0;           // of another slot, handed on
  uint64_t strays_dropped = 0;
  int last_error = 0;  // errno of a failed read other than EAGAIN
};

class UdpReceiver {
 public:
  using Visitor = FunctionRef<void(const engine::RxPacket&)>;
  using Forward = FunctionRef<bool(uint8_t slot, const engine::RxPacket&)>;

  UdpReceiver(int udp4, int udp6, uint8_t slot, uint16_t port);

  size_t receive(Visitor visit, Forward forward, bool thorough);
  const UdpReceiveCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kBurst = 4;  // what they bring stays in the cache until it is copied on
  static constexpr size_t kBufferBytes = 65536;
  static constexpr size_t kControlBytes = 256;
  static constexpr uint32_t kIdleCalls = 256;  // after so many empty reads a socket is "idle" ...
  static constexpr uint32_t kIdleStride = 32;  // ... and read at every 32nd call

  struct Source {
    int fd = -1;
    bool ipv4 = false;
    uint32_t empty_calls = 0;
  };
  struct Datagram {  // what the kernel tells about one read
    engine::Gid source, destination;
    uint16_t source_port = 0;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
    uint32_t segment_bytes = 0;  // 0: one packet
    bool has_destination = false;
    // The ICRC over the IP and UDP headers is the same for every packet of one length.
    size_t begun_for = 0;  // bytes; 0: not computed yet
    uint32_t begun = 0;
  };

  size_t receive_from(Source& source, Visitor& visit, Forward& forward);
  Datagram describe(const msghdr& message, bool ipv4) const;
  void on_datagram(std::span<uint8_t> bytes, Datagram& datagram, bool ipv4, Visitor& visit,
                   Forward& forward);
  void on_packet(std::span<uint8_t> bytes, Datagram& datagram, bool ipv4, Visitor& visit,
                 Forward& forward);
  bool icrc_is_right(std::span<const uint8_t> bytes, Datagram& datagram, bool ipv4);
  bool ipv4_icrc_is_right(std::span<const uint8_t> bytes, uint32_t begun);
  uint32_t begin_ipv4(const Datagram& datagram, size_t bytes, bool dont_fragment) const;
  bool solve(uint32_t difference, size_t bytes_after_id);

  std::array<Source, 2> sources_;
  uint8_t slot_;
  uint16_t port_;
  UdpReceiveCounters counters_;
  wire::IdSolver solver_;
  std::unique_ptr<uint8_t[]> buffers_;
  std::array<mmsghdr, kBurst> messages_{};
  std::array<iovec, kBurst> pieces_{};
  std::array<sockaddr_storage, kBurst> addresses_{};
  struct alignas(cmsghdr) Control {
    uint8_t bytes[kControlBytes];
  };
  std::array<Control, kBurst> controls_{};
};

}  // namespace verbena::link
