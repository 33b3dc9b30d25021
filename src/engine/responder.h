// The responder half of a connected queue pair: a straight chain of checks, one verdict, one
// switch that acts (IBA 9.7.4, 9.7.5.2, 9.9), and the queue of responses it owes.
#pragma once

#include <string>
#include <vector>

#include "base/psn.h"
#include "engine/reorder.h"
#include "engine/transfer.h"
#include "engine/verbs.h"
#include "engine/work_queue.h"
#include "memory/region.h"

namespace verbena::engine {

class QueuePair;
struct SharedReceiveQueue;
enum class TransmitState : uint8_t;

// What the chain of checks decided about one request packet.
enum class Verdict : uint8_t {
  kExecute,
  kDrop,             // silently (counted)
  kDuplicate,        // PSN behind the expected one
  kSequenceNak,      // PSN ahead of the expected one
  kRnrNak,           // no receive work request
  kInvalidRequest,   // NAK 0x61, class C
  kRemoteAccess,     // NAK 0x62
  kRemoteOperation,  // NAK 0x63: the responder's own receive buffer is at fault
  kPayloadLost,      // same-host payload vanished: as if the packet had been lost
};

namespace syndrome {
inline constexpr uint8_t kAck = 0x00;
inline constexpr uint8_t kRnrNak = 0x20;
inline constexpr uint8_t kNakSequence = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccess = 0x62;
inline constexpr uint8_t kNakRemoteOperation = 0x63;
inline constexpr uint8_t kTypeMask = 0xe0;
inline constexpr uint8_t kValueMask = 0x1f;
inline constexpr uint8_t kNoCredits = 0x1f;
}  // namespace syndrome

class Responder {
 public:
  explicit Responder(QueuePair& qp) : qp_(qp) {}

  void start(Psn expected, uint32_t depth);  // INIT -> RTR; depth = max_dest_rd_atomic
  void resize(uint32_t depth);               // SQD: max_dest_rd_atomic changed
  void receive(Instant now, const RxPacket& packet);
  // Asks for what has been missing too long.
  void on_time(Instant now);
  Instant deadline() const { return reordered_ ? reordered_->gap.deadline() : kNever; }
  TransmitState transmit(Instant now, PacketSink& sink, uint32_t& budget);
  // The acknowledgements before the first response of another kind.
  TransmitState transmit_answers(PacketSink& sink, uint32_t& budget);
  // The queue pair is in error: nothing more is answered, except up to the NAK that says why.
  void stop();
  // `srq` is going away; a message on its way into it has lost its place.
  void forget(const SharedReceiveQueue* srq);

  bool started() const { return started_; }
  Psn expected() const { return expected_; }

 private:
  // A READ, atomic, FLUSH or ATOMIC WRITE that was executed, kept so that a duplicate can be
  // answered: a READ is read again, an atomic repeats its saved value (C9-150).
  struct Resource {
    bool used = false;
    bool answered = false;  // its last response packet was sent at least once
    wire::Operation operation{};
    Psn first;
    Psn last;
    uint32_t rkey = 0;
    uint32_t length = 0;
    uint64_t address = 0;
    uint64_t original = 0;
    memory::ProtectionDomain* domain = nullptr;
  };
  struct Response {
    enum Kind : uint8_t { kAcknowledge, kRead, kAtomic } kind = kAcknowledge;
    uint8_t syndrome = 0;        // kAcknowledge
    uint8_t resource = 0;        // kRead, kAtomic: whose answer it is
    uint8_t missing_behind = 0;  // kAcknowledge, a sequence NAK: as in wire::Packet
    bool started = false;        // kRead: a packet of it was sent
    Psn psn;                     // of the (next) packet
    uint32_t msn = 0;
    uint32_t offset = 0;  // kRead: bytes before the next packet, from the saved operation's start
    uint32_t remaining = 0;
  };

  // --- responder_checks.cc: the chain, in order; each link is a pure question
  Verdict check(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict check_psn(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict check_sequence(const wire::OpcodeInfo& info);
  Verdict check_access(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict check_xrc(const RxPacket& packet);
  Verdict check_resources(const wire::OpcodeInfo& info);
  Verdict check_length(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict check_write_length(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict check_key(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict check_flush_key(const wire::Packet& header, uint32_t needed);
  Verdict deny(Verdict verdict, WcStatus local, std::string why);
  Verdict deny_absent(uint64_t address, uint64_t length);

  // --- responder_reorder.cc: packets that overtook others
  void hold(Instant now, const RxPacket& packet);
  void release(Instant now, Psn before);
  void ask_for_missing(Instant now);

  // --- responder.cc: execution
  void judge(Instant now, const RxPacket& packet);
  Verdict execute(Instant now, const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict execute_send(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict execute_write(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict execute_read(const RxPacket& packet);
  Verdict execute_atomic(const RxPacket& packet, const wire::OpcodeInfo& info);
  Verdict execute_atomic_write(const RxPacket& packet);
  void finish_message(Instant now, const RxPacket& packet, const wire::OpcodeInfo& info);
  bool invalidate(uint32_t rkey);
  void act(Instant now, const RxPacket& packet, Verdict verdict);
  void act_unreliable(Instant now, const RxPacket& packet, Verdict verdict);
  void refuse(Instant now, const RxPacket& packet, uint8_t syndrome);
  SharedReceiveQueue* receive_source() const;
  memory::ProtectionDomain* domain() const;
  uint32_t response_packets(uint32_t length) const;

  // --- responder_answers.cc: what is owed to the requester
  void answer_duplicate(const RxPacket& packet, const wire::OpcodeInfo& info);
  void answer_again(uint8_t resource, const wire::Packet& header);
  bool owes_sequence_nak();
  void queue_ack(uint8_t syndrome, Psn psn, uint8_t missing_behind = 0);
  void queue_answer(uint8_t resource, Psn psn, uint32_t offset, uint32_t length);
  Response& response(uint32_t i) { return responses_[(response_head_ + i) % responses_.size()]; }
  Response* insert_response(Psn psn);
  Response* find_response(uint8_t resource);
  void erase_response(uint32_t i);
  uint8_t save(wire::Operation operation, Psn first, Psn last);
  int find_resource(Psn psn) const;
  uint8_t credits() const;
  void pop_response();  // the first was sent to its end
  bool send_answer(const Response& response, PacketSink& sink);
  bool send_read(Instant now, Response& response, PacketSink& sink, bool& blocked);
  void fail_read(Instant now, Response& response, memory::KeyError error);

  QueuePair& qp_;
  bool started_ = false;
  Psn expected_;
  uint32_t msn_ = 0;
  Psn dropped_ahead_;      // the last one dropped since the NAK
  bool nak_sent_ = false;  // one NAK until the expected PSN arrives
  // The message in progress.
  enum class Message : uint8_t { kNone, kSend, kWrite } message_ = Message::kNone;
  uint64_t offset_ = 0;                    // bytes placed so far
  wire::Reth write_{};                     // of the WRITE in progress
  SharedReceiveQueue* xrc_srq_ = nullptr;  // of the message in progress
  std::string why_;                        // the cause, for the explain log
  WcStatus local_status_ = WcStatus::kSuccess;

  std::unique_ptr<ReorderedRequests> reordered_;  // null: go-back-N

  std::vector<Resource> resources_;
  uint8_t next_resource_ = 0;
  std::vector<Response> responses_;  // a ring, in PSN order
  uint32_t response_head_ = 0;
  uint32_t response_count_ = 0;
};

}  // namespace verbena::engine
