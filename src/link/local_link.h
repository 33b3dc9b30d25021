// Same host, never through the socket: packets travel in shared-memory rings, small payloads
// inside the record, large ones as addresses that the receiver fetches once (design decision 5).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/transfer.h"
#include "link/foreign_reader.h"
#include "link/function_ref.h"
#include "link/packet_image.h"
#include "link/peers.h"
#include "link/ring.h"
#include "link/staging.h"

namespace verbena::link {

inline constexpr uint32_t kInlineBytes = 8192;     // largest payload inside a record
inline constexpr uint32_t kReferenceAbove = 4096;  // by-reference payloads up to this go inline too
inline constexpr uint32_t kMaxRecordSegments = 64;

struct LocalCounters {
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;  // payload
  uint64_t tx_by_reference = 0;
  uint64_t tx_full = 0;      // refused: ring full
  uint64_t tx_no_peer = 0;   // dropped: nobody has the slot
  uint64_t tx_oversize = 0;  // dropped: neither inline nor by reference
  uint64_t wakeups = 0;      // eventfd writes
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  uint64_t rx_by_reference = 0;
  uint64_t rx_forwarded = 0;  // strays of the UDP link that a neighbour handed on
  uint64_t rx_stale = 0;      // dropped: from a process that no longer has its slot
  uint64_t rx_no_peer = 0;    // dropped: the sender's memory could not be opened
  uint64_t rx_malformed = 0;  // dropped: a record that is no packet
};

class LocalLink : public engine::PacketSink {
 public:
  using Visitor = FunctionRef<void(const engine::RxPacket&)>;

  // `own`, `wakeup` (eventfd) and `directory` belong to the lease and must outlive the link.
  LocalLink(PeerDirectory& directory, LocalArea& own, uint8_t slot, uint32_t generation,
            int wakeup);

  // True when packets to `slot` may carry addresses; both ends compute the same.
  bool eligible(uint8_t slot) const { return local_eligible(directory_.host_page(), slot_, slot); }

  // Opens the ring to `slot` now, on the control path, so that the first packet does not wait for
  // a broker that may not get a processor for milliseconds. False: nobody has the slot, or the
  // broker has not answered within 20 ms.
  bool prepare(uint8_t slot) { return peer(slot, kControlPatienceMs) != nullptr; }
  // Why that failed: this process cannot map the peer's memory.
  bool no_room_for(uint8_t slot) const { return peers_[slot].no_room; }
  // To the process that has the slot of header.dest_qpn; a slot nobody has swallows the packet.
  // False: its ring is full, or the broker has not opened it yet; after 100 ms of that the slot
  // swallows too.
  bool send(const engine::TxPacket& packet) override;
  // Hands on a packet that the kernel delivered to the wrong slot; it arrives as kWire there.
  bool forward(uint8_t slot, const engine::RxPacket& packet);
  // Rings the doorbells of everybody who was sent something since the last flush().
  void flush();

  // Shows at most about `budget` waiting packets; each payload is valid during its call. Returns
  // how many it showed.
  size_t receive(Visitor visit, size_t budget = 256);

  // Before sleeping on `wakeup`: true when peers will write it; false when packets wait already.
  bool prepare_sleep();
  // After sleeping or after deciding not to.
  void finish_sleep();

  // The queue pair can no longer vouch for payload it sent by reference. Before its completions
  // are delivered or its buffers freed.
  void revoke(uint32_t qpn);
  // The rkey is (no longer) valid here. withdraw_key() before the region's memory may be freed.
  void publish_key(uint32_t rkey);
  void withdraw_key(uint32_t rkey);

  // Spends a processor that has nothing better to do on the payload its peers have not fetched yet.
  // False: nothing to do now.
  bool stage() { return stager_.stage(); }

  const LocalCounters& counters() const { return counters_; }
  const ForeignCounters& foreign_counters() const { return reader_.counters(); }
  uint64_t ring_resets() const;

 private:
  // The caller holds the lock of a whole process: a broker that does not run must not stop the
  // timers of other queue pairs. The usual answer takes 0.05 ms.
  static constexpr int kControlPatienceMs = 20;
  static constexpr int kPacketPatienceMs = 2;

  struct Peer {
    PeerArea opened;
    RingWriter writer;
    uint32_t refused_generation = 0;  // could not be opened: do not ask for every packet
    std::optional<std::chrono::steady_clock::time_point> asked_since;  // the broker, in vain so far
    bool no_room = false;
    uint32_t refusals = 0;  // packets since then
    bool rung = true;
  };
  struct Body;  // of a record
  struct Out;

  Peer* peer(uint8_t slot, int patience_ms = kPacketPatienceMs);
  bool awaits(uint8_t slot) const;
  bool write(uint8_t slot, const Out& out, const memory::Payload& payload);
  Body describe(const Out& out, uint32_t payload_bytes, size_t segments) const;
  void visit_record(uint8_t slot, uint32_t kind, std::span<uint8_t> record, Visitor& visit);
  bool refer_to_sender(uint8_t slot, const Body& body, std::span<const uint8_t> pieces,
                       std::span<memory::Segment> segments);
  bool drain(uint8_t slot, Visitor& visit, size_t& budget);

  PeerDirectory& directory_;
  LocalArea& own_;
  const uint8_t slot_;
  const uint32_t generation_;
  const int wakeup_;
  std::array<Peer, kSlots> peers_;
  std::array<RingReader, kSlots> readers_;
  std::array<uint64_t, kSlots / 64> pending_{};  // rings that were not emptied
  std::array<uint8_t, kSlots> dirty_{};          // slots to ring, dirty_count_ of them
  size_t dirty_count_ = 0;
  LocalCounters counters_;
  ForeignReader reader_;
  Stager stager_;
};

}  // namespace verbena::link
