// The sending half of the UDP link. Packets are staged as scatter lists, consecutive ones to one
// destination become one UDP_SEGMENT message, and several messages one sendmmsg call.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/transfer.h"
#include "link/fd.h"

namespace verbena::link {

struct UdpSendCounters {
  uint64_t packets = 0;
  uint64_t bytes = 0;        // UDP payload: BTH .. ICRC
  uint64_t messages = 0;     // sendmsg entries, each of 1 to 64 packets
  uint64_t gso_batches = 0;  // of them, with more than one packet
  uint64_t calls = 0;        // sendmmsg and sendmsg calls
  uint64_t blocked = 0;      // times the socket was full
  uint64_t too_big = 0;      // packets dropped: larger than the path MTU of the route
  uint64_t unreachable = 0;  // packets dropped: no route, host or address
  uint64_t refused = 0;      // packets dropped: any other errno, or a route without addresses
  uint64_t gso_refused = 0;  // 1: the kernel cannot segment here; packets go one by one
  int last_error = 0;        // errno of the latest drop
};

class UdpSender {
 public:
  using InterfaceOf = std::function<uint32_t(const engine::AddressVector&)>;
  static Result<UdpSender> open(uint16_t port, bool ipv6, bool segmentation,
                                InterfaceOf interface_of);

  bool send(const engine::TxPacket& packet);
  bool flush();
  void let_go();
  bool blocked() const { return blocked_; }
  void spoil_next() { spoil_next_ = true; }
  uint16_t source_port(bool ipv4) const { return ipv4 ? source_port4_ : source_port6_; }
  const UdpSendCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kMaxPackets = 256;
  static constexpr size_t kMaxBatches = 128;
  static constexpr size_t kMaxPieces = 2048;       // scatter list entries, all batches
  static constexpr size_t kMaxBatchPieces = 1000;  // UIO_MAXIOV is 1024
  static constexpr size_t kMaxBatchPackets = 64;   // UDP_MAX_SEGMENTS of Linux < 6.9
  static constexpr size_t kMaxBatchBytes = 65000;  // of the 65507 a UDP datagram holds
  static constexpr size_t kCopyBytes = 1 << 20;
  // Staged, a whole window would fall out of the cache before the kernel copies it, and the peer
  // would sleep meanwhile: four full datagrams go at once.
  static constexpr size_t kRipeBytes = 240'000;
  static constexpr size_t kCopyBelow = 512;  // shorter payloads are cheaper copied

  struct Packet {
    uint32_t first_piece = 0;
    uint32_t pieces = 0;
    uint32_t bytes = 0;
    uint8_t* icrc = nullptr;
  };
  union Address {
    sockaddr_in four;
    sockaddr_in6 six;
  };
  struct Batch {
    engine::Gid source, destination;
    uint32_t interface_index = 0;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
    uint8_t slot = 0;  // of the destination QPN: a super-packet is steered by its first
    bool ipv4 = false;
    bool open = true;  // takes more packets
    uint32_t first_packet = 0;
    uint32_t packets = 0;
    int singly_because = 0;  // errno of the whole; its packets go one by one since
    bool lost_some = false;  // of those
    uint32_t segment_bytes = 0;
    uint32_t bytes = 0;
    Address address{};
    size_t control_bytes = 0;
    alignas(cmsghdr) uint8_t control[128];
  };

  UdpSender() = default;
  Result<void> open_socket(int family);
  bool fits(const Batch& batch, const engine::TxPacket& packet, uint32_t bytes,
            uint32_t interface_index) const;
  Batch& batch_for(const engine::TxPacket& packet, uint32_t bytes);
  void begin_batch(Batch& batch, const engine::TxPacket& packet, uint32_t interface_index);
  void stage(Batch& batch, const engine::TxPacket& packet, uint32_t bytes);
  uint32_t begin_icrc(const Batch& batch, uint32_t bytes, uint16_t identification) const;
  uint32_t icrc_of(const Batch& batch, const Packet& packet, uint16_t identification) const;
  void fill_message(Batch& batch, msghdr& message);
  size_t send_run(size_t first, size_t count);
  bool on_error(Batch& batch, int error);
  bool send_singly(Batch& batch);
  bool block();
  void count_drop(int error, uint64_t packets);
  void reset();

  uint8_t* take(size_t bytes);

  Fd socket4_, socket6_;
  uint16_t source_port4_ = 0, source_port6_ = 0;  // random, fixed for the life of the link
  uint16_t port_ = 0;
  bool segmentation_ = true;
  bool blocked_ = false;
  bool spoil_next_ = false;
  InterfaceOf interface_of_;
  UdpSendCounters counters_;

  std::vector<Packet> packets_;
  std::vector<Batch> batches_;
  size_t next_batch_ = 0;  // first that has not been sent
  std::vector<iovec> pieces_;
  std::vector<mmsghdr> messages_;
  std::unique_ptr<uint8_t[]> copies_;  // headers, small payloads, pads and ICRCs
  size_t copied_ = 0;
  size_t staged_bytes_ = 0;
};

}  // namespace verbena::link
