// The roads out of this process: the slot it holds, the UDP link on the slot's sockets, and the
// local link through shared memory. Chooses the road of each packet, takes packets from both, and
// puts the lenses the user asked for (VERBENA_FAULT, VERBENA_PCAP, VERBENA_TRACE) over them.
#pragma once

#include <poll.h>

#include <memory>

#include "base/result.h"
#include "broker/client.h"
#include "broker/manager_line.h"
#include "engine/device.h"
#include "engine/transfer.h"
#include "host/explain_log.h"
#include "host/host_addresses.h"
#include "link/lens_stack.h"
#include "link/local_link.h"
#include "link/udp_link.h"

namespace verbena::host {

class Links : private engine::PacketSink {
 public:
  static constexpr size_t kMaxFds = 3;

  // Takes a slot and opens both links on it. Blocks while a broker starts. `addresses` outlives
  // the links. Errors: broker::attach()'s; EINVAL a lens setting that makes no sense;
  // open()'s errno for a file that a lens cannot write.
  static Result<std::unique_ptr<Links>> open(const broker::AttachOptions& options,
                                             HostAddresses& addresses);
  ~Links() override;

  uint8_t slot() const { return lease_->slot(); }
  // Payload that a peer like this process can have waiting in its socket.
  uint32_t wire_window_bytes() const;
  broker::CountersPage* counters_page() { return &lease_->segment().counters; }
  // For the connection manager: a line to the broker, not yet open, and the rows of the segment.
  std::unique_ptr<broker::ManagerLine> make_line() const {
    return std::make_unique<broker::ManagerLine>(lease_->broker_name(), lease_->token(), slot());
  }
  broker::ConnectionRows& connection_rows() { return lease_->segment().connections; }
  // Whether packets to this queue pair may go through shared memory.
  bool eligible(uint32_t qpn) const;
  // Opens the road to it ahead of the first packet. Control path: asks the broker.
  // ENOMEM: this process cannot map the peer's memory, so nothing would arrive there.
  Result<void> prepare(uint32_t qpn);

  // Where the engine sends; valid until the next call.
  engine::PacketSink& sink(Instant now);
  // Rings the bells of the neighbours that were sent something.
  void ring() { local_->flush(); }
  // The same, and gives the kernel what was staged for the wire. False: its queue is full, try
  // again soon.
  bool flush();
  // Helps same-host peers that are slower than this process. False: nothing to do now.
  bool stage() { return local_->stage(); }
  size_t pending() const { return staged_; }  // packets staged

  // When on_time() has something to do (a delayed packet); kNever mostly.
  Instant next_deadline() const { return lenses_ ? lenses_->next_deadline() : kNever; }
  void on_time(Instant now);

  struct Taken {
    uint32_t local = 0;
    uint32_t wire = 0;
    bool drained = true;  // no more wait on the links that were looked at
  };
  // Hands what has arrived to the engine, at most one burst of each link. `thorough`: the caller
  // sleeps next; a polling one lets the UDP link look less often at a socket long idle.
  Taken receive(engine::Device& engine, Instant now, bool look_at_wire, bool thorough);

  // Sleeping: after prepare_to_sleep() returned true, a peer that sends rings the local bell.
  // False: something has arrived already. awake(): no bells, somebody looks often.
  bool prepare_to_sleep();
  void awake();
  // Writes the descriptors to sleep on, the local bell first; returns how many (at most kMaxFds).
  size_t fill(pollfd* fds) const;

  // See Lease::keep. The one call here that needs no lock.
  broker::Lease::Kept keep_lease() { return lease_->keep(); }

  // Same-host peers' view of what they may read (see Process).
  void revoke(uint32_t qpn);
  void publish_key(uint32_t key);
  void withdraw_key(uint32_t key);

  int join(const engine::Gid& group, uint32_t interface_index);  // 0 or errno
  int leave(const engine::Gid& group, uint32_t interface_index);

 private:
  explicit Links(HostAddresses& addresses);
  Result<void> open_lenses();

  bool send(const engine::TxPacket& packet) override;
  bool goes_local(const engine::TxPacket& packet);
  void count_drops(engine::Device& engine);
  void explain_losses(engine::Device& engine, Instant now);

  HostAddresses& addresses_;
  std::unique_ptr<broker::Lease> lease_;
  std::unique_ptr<link::UdpLink> udp_;
  std::unique_ptr<link::LocalLink> local_;
  std::unique_ptr<link::LensStack> lenses_;  // null: none
  ExplainLog trace_;
  Instant now_;  // of the transmit() in progress
  size_t staged_ = 0;
  bool bell_on_ = false;  // peers ring when they send
  uint64_t counted_icrc_errors_ = 0, counted_malformed_ = 0;
  uint64_t reported_losses_ = 0;
  Instant reported_ = kLongAgo;
};

}  // namespace verbena::host
