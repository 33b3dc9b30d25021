// The adapter as a sans-IO machine: every object a process made on one device, and five verbs -
// post (on the queue pair), receive, on_time, transmit, next_deadline - with time passed in.
// Not thread-safe: whoever drives it holds its lock.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/chain.h"
#include "engine/counters.h"
#include "engine/event.h"
#include "engine/queue_pair.h"

namespace verbena::engine {

struct DeviceOptions {
  uint32_t qpn_base = 0;  // slot << 16; queue pair numbers are base + 1 .. base + 65535
  uint64_t seed = 1;      // of the keys' random bits
  memory::Populate populate = nullptr;
  bool explain = false;
  // Payload that a queue pair has in flight on the wire at most, at first: what the peer's socket
  // buffer holds while it is late.
  uint32_t wire_window_bytes = 256 * 1024;
  // The same in packets, 16..2^22: a fabric that keeps megabytes standing needs more.
  uint32_t max_window_packets = 512;
  // An acknowledgement is asked for after this many packets at the latest; 0: the engine's choice.
  uint32_t ack_interval = 0;
  // A loss halves the window. Off where congestion control alone decides, as in hardware.
  bool loss_window = true;
  // Bytes of a frame around its payload, for pacing; 0: BTH, extension headers and ICRC alone.
  uint32_t frame_overhead_bytes = 0;
  // Rate of the port, bit/s: a queue pair whose congestion control allows as much is not paced, as
  // the port itself is no faster. 0: not known, everyone is paced.
  uint64_t port_bits_per_second = 0;
  // Acknowledgements have a class of their own: transmit() leaves them to transmit_answers().
  bool acknowledgements_apart = false;
  // Whether and how marks that arrive are told to their sender. Nothing: they are only counted.
  std::optional<NpSettings> notification;
};

inline constexpr uint8_t kMaxPorts = 32;  // verbs devices of one process, counted apart

enum class TransmitResult : uint8_t {
  kIdle,     // everything that may be sent was sent
  kMore,     // budget used up: call again after receiving
  kBlocked,  // a link is full: call again soon
};

class Device {
 public:
  explicit Device(const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // --- control: objects. Creation returns null / an Error with errno; destruction EBUSY if used.
  memory::KeyTable& keys() { return keys_; }
  Result<QueuePair*> create_qp(const QpInit& init);
  void destroy_qp(QueuePair* qp);
  QueuePair* find_qp(uint32_t qpn);
  // Gives an XRC SRQ its number, 1..65535, so that packets find it (IBA A14.2); 0 when none is
  // free.
  uint32_t register_srq(SharedReceiveQueue* srq);
  // Takes the number back and drops what queue pairs and events hold of the SRQ.
  void unregister_srq(SharedReceiveQueue* srq);
  SharedReceiveQueue* find_srq(uint32_t number);  // null when nobody has the number
  // Takes one receive work request from `srq` into `to` and raises the limit event when due.
  bool take_from_srq(SharedReceiveQueue* srq, ReceiveWork& to);
  // IBA 11.3.1: `qp` gets a copy of each datagram to `group`. 0 (also when attached already), or
  // EINVAL: not a UD queue pair, or no multicast address.
  int attach_multicast(QueuePair* qp, const Gid& group);
  int detach_multicast(QueuePair* qp, const Gid& group);  // 0, EINVAL when not attached
  // The slot lease of this process. Only while no queue pair exists. `first`: the lower 16 bits of
  // the first number, 1..65535.
  void qpn_base(uint32_t base, uint32_t first = 1) {
    options_.qpn_base = base;
    next_index_ = first;
  }
  void wire_window_bytes(uint32_t bytes) { options_.wire_window_bytes = bytes; }
  // fork: the child keeps domains, regions and completion queues (its memory is a copy), but the
  // parent's queue pairs are not its own. They move to ERR without a completion or a packet and
  // stay there (modify() refuses with EIO); what is posted to them flushes.
  void abandon_queue_pairs();

  // --- data
  void receive(Instant now, const RxPacket& packet);
  void on_time(Instant now);
  // Sends what the queue pairs of the lanes in `lane_mask` have, in turn within a lane, the lowest
  // lane first. With a budget of 1 exactly one packet leaves, of the next queue pair that has one.
  TransmitResult transmit(Instant now, PacketSink& sink, uint32_t budget = 256,
                          uint8_t lane_mask = kAllLanes);
  // Bit n: a queue pair of lane n wants to send.
  uint8_t lanes_ready() const { return lanes_ready_; }
  // Sends at most `budget` CNPs that are owed. transmit() does so first, for whoever gives them no
  // class of their own.
  TransmitResult transmit_notifications(Instant now, PacketSink& sink,
                                        uint32_t budget = UINT32_MAX);
  // With acknowledgements_apart: sends at most `budget` acknowledgements that are owed.
  TransmitResult transmit_answers(Instant now, PacketSink& sink, uint32_t budget = UINT32_MAX);
  bool answers_ready() const { return !answering_.empty(); }
  Instant next_deadline() const;
  void arm(CompletionQueue& cq, bool solicited_only);  // and reports the event if it is due
  bool wants_to_transmit() const { return lanes_ready_ != 0 || !notifying_.empty(); }

  // --- reports. Taken by swapping, after each step.
  std::vector<Event>& events() { return events_; }
  std::vector<std::string>& explanations() { return explanations_; }
  bool explaining() const { return options_.explain; }
  void explain(std::string text);
  void report(const Event& event);
  // Drops queued events that name an object about to be destroyed.
  void forget(const void* object);

  // Of the port whose queue pair was worked on last; port 0 until one has been.
  Counters& counters() { return ports_[port_]; }
  // Of one port, 0..kMaxPorts-1; and of all together.
  const Counters& port_counters(uint8_t port) const { return ports_[port]; }
  Counters total_counters() const;
  Counters& first_port_counters() { return ports_[0]; }  // what belongs to no queue pair
  const DeviceOptions& options() const { return options_; }
  const std::vector<QueuePair*>& queue_pairs() const { return by_index_; }  // null where free

  // Called by queue pairs.
  void wake(QueuePair* qp);
  void owe_answer(QueuePair* qp);
  void owe_notification(QueuePair* qp) { notifying_.push_back(qp); }
  void forget_notification(QueuePair* qp) { notifying_.erase(qp); }
  void update_timer(QueuePair* qp);
  void focus(const QueuePair& qp) { port_ = qp.init().port; }  // whose port counts from here on
  void push_completion(CompletionQueue* cq, const WorkCompletion& completion, bool solicited);

 private:
  struct Attachment {
    Gid group;
    QueuePair* qp;
  };
  using Ready = Chain<QueuePair, &QueuePair::ready_>;
  using Answering = Chain<QueuePair, &QueuePair::answering_>;
  using Notifying = Chain<QueuePair, &QueuePair::notifying_>;
  TransmitResult transmit_lane(Instant now, PacketSink& sink, uint32_t& budget, uint8_t lane);
  void forget_ready(QueuePair* qp);
  QueuePair* first_receiver(const RxPacket& packet);
  void sift_up(size_t slot);
  void sift_down(size_t slot);
  void fail_overrun(Instant now);

  DeviceOptions options_;
  memory::KeyTable keys_;
  std::vector<QueuePair*> by_index_;
  uint32_t next_index_ = 1;  // not reused soon: an old number must not meet a new owner
  std::vector<SharedReceiveQueue*> srqs_;
  std::vector<Attachment> attachments_;
  Ready ready_[kLanes];
  uint8_t lanes_ready_ = 0;         // bit n: ready_[n] is not empty
  Notifying notifying_;             // owe a CNP
  Answering answering_;             // owe an acknowledgement that leaves apart
  std::vector<QueuePair*> timers_;  // binary heap by timer_at_
  std::vector<Event> events_;
  std::vector<std::string> explanations_;
  std::vector<CompletionQueue*> overrun_;
  std::vector<QueuePair*> lost_completions_;  // queue pairs that an overrun queue refused
  Counters ports_[kMaxPorts];
  uint8_t port_ = 0;  // index into ports_
};

}  // namespace verbena::engine
