// The responder: the verdict of the checks, what is executed, and the switch that acts.
#include "engine/responder.h"

#include <atomic>

#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "memory/fault_guard.h"

namespace verbena::engine {

void Responder::start(Psn expected, uint32_t depth) {
  started_ = true;
  expected_ = expected;
  resize(depth);
  if (qp_.reorders()) reordered_ = std::make_unique<ReorderedRequests>(qp_.disorder());
}

SharedReceiveQueue* Responder::receive_source() const {
  return qp_.type() == QpType::kXrcRecv ? xrc_srq_ : qp_.init_.srq;
}

// XRC targets have no domain of their own: keys are judged by the SRQ's (IBA A14.3.3).
memory::ProtectionDomain* Responder::domain() const {
  if (qp_.type() == QpType::kXrcRecv) return xrc_srq_ ? xrc_srq_->domain : nullptr;
  return qp_.init_.domain;
}

uint32_t Responder::response_packets(uint32_t length) const {
  uint32_t bytes = qp_.packet_bytes();
  return length <= bytes ? 1 : length / bytes + (length % bytes != 0);
}

void Responder::receive(Instant now, const RxPacket& packet) {
  if (!reordered_) return judge(now, packet);
  if (packet.header.psn.after(expected_)) return hold(now, packet);
  Psn before = expected_;
  judge(now, packet);
  release(now, before);
}

void Responder::judge(Instant now, const RxPacket& packet) {
  const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
  Verdict verdict = check(packet, info);
  if (verdict == Verdict::kExecute) verdict = execute(now, packet, info);
  if (verdict == Verdict::kDuplicate)
    answer_duplicate(packet, info);
  else if (verdict != Verdict::kExecute)
    act(now, packet, verdict);
}

// --- execution

// The key was right, the memory behind it is gone.
Verdict Responder::deny_absent(uint64_t address, uint64_t length) {
  return deny(Verdict::kRemoteOperation, WcStatus::kLocAccessErr,
              fmt::format("address {:#x}, {} bytes: {}", address, length,
                          memory::describe(memory::KeyError::kNotPresent)));
}

Verdict Responder::execute(Instant now, const RxPacket& packet, const wire::OpcodeInfo& info) {
  Verdict verdict = Verdict::kExecute;
  uint32_t packets = 1;
  switch (info.operation) {
    case wire::Operation::kSend:
      verdict = execute_send(packet, info);
      break;
    case wire::Operation::kWrite:
      verdict = execute_write(packet, info);
      break;
    case wire::Operation::kReadRequest:
      packets = response_packets(packet.header.reth.length);
      verdict = execute_read(packet);
      break;
    case wire::Operation::kCompareSwap:
    case wire::Operation::kFetchAdd:
      verdict = execute_atomic(packet, info);
      break;
    case wire::Operation::kAtomicWrite:
      verdict = execute_atomic_write(packet);
      break;
    case wire::Operation::kFlush:
      // Memory here is coherent and not persistent beyond the process: a flush is ordering only,
      // and everything before it has been placed.
      msn_ = (msn_ + 1) & kPsnMask;
      queue_answer(save(info.operation, packet.header.psn, packet.header.psn), packet.header.psn, 0,
                   0);
      break;
    default:
      return Verdict::kDrop;
  }
  if (verdict != Verdict::kExecute) return verdict;
  nak_sent_ = false;
  expected_ += packets;
  if (info.ends_message()) finish_message(now, packet, info);
  if (qp_.state() == QpState::kErr) return Verdict::kExecute;  // a refused invalidate ended it
  bool answered =
      info.operation != wire::Operation::kSend && info.operation != wire::Operation::kWrite;
  if (!answered && packet.header.ack_request && qp_.is_reliable()) {
    // The missing packet came before its NAK left. What came ahead of it was dropped all the same.
    nak_sent_ = !reordered_ && owes_sequence_nak() && !expected_.after(dropped_ahead_);
    if (nak_sent_)
      queue_ack(syndrome::kNakSequence, expected_);
    else
      queue_ack(syndrome::kAck | credits(), packet.header.psn);
  }
  return Verdict::kExecute;
}

Verdict Responder::execute_send(const RxPacket& packet, const wire::OpcodeInfo& info) {
  if (info.begins_message()) offset_ = 0;
  QueuePair::Scattered placed = qp_.scatter(packet.payload, offset_);
  if (placed.lost) return Verdict::kPayloadLost;
  if (placed.error != memory::KeyError::kNone)
    return deny(Verdict::kRemoteOperation, WcStatus::kLocProtErr,
                fmt::format("receive wr_id {:#x} cannot be written: {}", qp_.taken_.wr_id,
                            memory::describe(placed.error)));
  offset_ += packet.payload.length;
  qp_.counters_.bytes_delivered += packet.payload.length;
  message_ = info.ends_message() ? Message::kNone : Message::kSend;
  return Verdict::kExecute;
}

Verdict Responder::execute_write(const RxPacket& packet, const wire::OpcodeInfo& info) {
  if (info.begins_message()) {
    offset_ = 0;
    write_ = packet.header.reth;
    ++qp_.device_.counters().rx_write_requests;
  }
  uint32_t length = packet.payload.length;
  if (length > 0) {
    memory::Grant grant = qp_.device_.keys().check_remote(
        write_.rkey, domain(), qp_.qpn_, write_.address + offset_, length, memory::kRemoteWrite);
    if (grant.error != memory::KeyError::kNone)
      return deny(Verdict::kRemoteAccess, WcStatus::kLocAccessErr,
                  fmt::format("rkey {:#x}, address {:#x}, {} bytes: {}", write_.rkey,
                              write_.address + offset_, length, memory::describe(grant.error)));
    if (grant.backing != memory::Backing::kNull &&
        !packet.payload.copy_out(0, grant.address, length)) {
      if (memory::present(grant.address, length, true)) return Verdict::kPayloadLost;
      return deny_absent(write_.address + offset_, length);
    }
  }
  offset_ += length;
  qp_.counters_.bytes_delivered += length;
  message_ = info.ends_message() ? Message::kNone : Message::kWrite;
  return Verdict::kExecute;
}

Verdict Responder::execute_read(const RxPacket& packet) {
  const wire::Reth& reth = packet.header.reth;
  ++qp_.device_.counters().rx_read_requests;
  Psn first = packet.header.psn;
  uint8_t index =
      save(wire::Operation::kReadRequest, first, first + (response_packets(reth.length) - 1));
  resources_[index].address = reth.address;
  resources_[index].rkey = reth.rkey;
  resources_[index].length = reth.length;
  msn_ = (msn_ + 1) & kPsnMask;  // C9-148: when the request is accepted
  queue_answer(index, first, 0, reth.length);
  return Verdict::kExecute;
}

Verdict Responder::execute_atomic(const RxPacket& packet, const wire::OpcodeInfo& info) {
  const wire::AtomicEth& atomic = packet.header.atomic;
  ++qp_.device_.counters().rx_atomic_requests;
  memory::Grant grant = qp_.device_.keys().check_remote(atomic.rkey, domain(), qp_.qpn_,
                                                        atomic.address, 8, memory::kRemoteAtomic);
  if (grant.error != memory::KeyError::kNone)
    return deny(Verdict::kRemoteAccess, WcStatus::kRemAccessErr, memory::describe(grant.error));
  if (reinterpret_cast<uintptr_t>(grant.address) & 7)
    return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
                "the atomic's memory is not 8-byte aligned (the region starts unaligned)");
  uint64_t original = 0;
  if (grant.backing != memory::Backing::kNull) {
    bool done = memory::guarded([&] {
      std::atomic_ref<uint64_t> value(*reinterpret_cast<uint64_t*>(grant.address));
      if (info.operation == wire::Operation::kFetchAdd) {
        original = value.fetch_add(atomic.swap_add);
      } else {
        original = atomic.compare;
        value.compare_exchange_strong(original, atomic.swap_add);
      }
    });
    if (!done) return deny_absent(atomic.address, 8);
  }
  uint8_t index = save(info.operation, packet.header.psn, packet.header.psn);
  resources_[index].original = original;
  msn_ = (msn_ + 1) & kPsnMask;
  queue_answer(index, packet.header.psn, 0, 0);
  return Verdict::kExecute;
}

Verdict Responder::execute_atomic_write(const RxPacket& packet) {
  const wire::Reth& reth = packet.header.reth;
  memory::Grant grant = qp_.device_.keys().check_remote(reth.rkey, domain(), qp_.qpn_, reth.address,
                                                        8, memory::kRemoteWrite);
  if (grant.error != memory::KeyError::kNone)
    return deny(Verdict::kRemoteAccess, WcStatus::kRemAccessErr, memory::describe(grant.error));
  if (reinterpret_cast<uintptr_t>(grant.address) & 7)
    return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
                "the ATOMIC WRITE's memory is not 8-byte aligned");
  uint64_t value = 0;
  if (!packet.payload.copy_out(0, reinterpret_cast<uint8_t*>(&value), sizeof(value)))
    return Verdict::kPayloadLost;
  auto store = [&] {
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(grant.address)).store(value);
  };
  if (grant.backing != memory::Backing::kNull && !memory::guarded(store))
    return deny_absent(reth.address, 8);
  ++qp_.device_.counters().rx_atomic_requests;
  uint8_t index = save(wire::Operation::kAtomicWrite, packet.header.psn, packet.header.psn);
  msn_ = (msn_ + 1) & kPsnMask;
  queue_answer(index, packet.header.psn, 0, 0);
  return Verdict::kExecute;
}

// The last packet of a SEND or WRITE was placed (the others count where they are executed).
void Responder::finish_message(Instant now, const RxPacket& packet, const wire::OpcodeInfo& info) {
  if (info.operation != wire::Operation::kSend && info.operation != wire::Operation::kWrite) return;
  msn_ = (msn_ + 1) & kPsnMask;
  if (info.operation == wire::Operation::kWrite && !info.immediate) return;
  WorkCompletion completion;
  completion.opcode =
      info.operation == wire::Operation::kSend ? WcOpcode::kRecv : WcOpcode::kRecvRdmaWithImm;
  completion.byte_len = static_cast<uint32_t>(offset_);
  completion.source_qp = qp_.attributes_.dest_qpn;
  if (info.immediate) {
    completion.flags |= kWcWithImm;
    completion.imm_or_rkey = packet.header.immediate_be;
  }
  if (info.invalidate) {
    if (!invalidate(packet.header.invalidate_rkey)) {
      deny(Verdict::kRemoteAccess, WcStatus::kRemInvReqErr,
           fmt::format("SEND with invalidate: rkey {:#x} is no type 2 memory window bound on this"
                       " queue pair",
                       packet.header.invalidate_rkey));
      refuse(now, packet, syndrome::kNakRemoteAccess);
      return;
    }
    completion.flags |= kWcWithInv;
    completion.imm_or_rkey = packet.header.invalidate_rkey;
  }
  qp_.complete_receive(now, completion, packet.header.solicited);
}

bool Responder::invalidate(uint32_t rkey) {
  memory::MemoryWindow* window = qp_.device_.keys().find_window(rkey);
  if (!window || window->type != 2 || !window->region || window->domain != domain() ||
      window->qpn != qp_.qpn_)
    return false;
  window->unbind();
  return true;
}

// --- acting on a refusal

void Responder::act(Instant now, const RxPacket& packet, Verdict verdict) {
  Counters& counters = qp_.device_.counters();
  if (!qp_.is_reliable()) return act_unreliable(now, packet, verdict);
  switch (verdict) {
    case Verdict::kExecute:
    case Verdict::kDuplicate:
    case Verdict::kDrop:
      return;
    case Verdict::kPayloadLost:
      ++counters.rx_payload_lost;
      return;
    case Verdict::kSequenceNak:
      if (nak_sent_ && packet.header.psn.after(dropped_ahead_)) dropped_ahead_ = packet.header.psn;
      if (nak_sent_) return;
      nak_sent_ = true;
      dropped_ahead_ = packet.header.psn;
      ++qp_.counters_.naks_sent;
      if (qp_.explaining())
        qp_.explain(
            fmt::format("PSN {:#x} arrived where {:#x} was due ({} packets missing): NAK"
                        " PSN sequence error to {}",
                        packet.header.psn.value(), expected_.value(),
                        packet.header.psn.distance(expected_), qp_.peer()));
      queue_ack(syndrome::kNakSequence, expected_);
      return;
    case Verdict::kRnrNak:
      nak_sent_ = true;  // what follows the refused message is silently dropped
      if (reordered_) reordered_->clear();
      ++counters.send_rnr_err;
      ++qp_.counters_.rnr_sent;
      if (qp_.explaining())
        qp_.explain(
            fmt::format("no receive work request for PSN {:#x} of {}: RNR NAK,"
                        " it may try again in {} us; post receives before the peer sends",
                        packet.header.psn.value(), qp_.peer(),
                        rnr_timeout(qp_.attributes_.min_rnr_timer).ps / 1'000'000));
      queue_ack(syndrome::kRnrNak | qp_.attributes_.min_rnr_timer, packet.header.psn);
      return;
    case Verdict::kInvalidRequest:
      ++counters.resp_remote_invalid_request;
      counters.resp_local_length_error += local_status_ == WcStatus::kLocLenErr;
      return refuse(now, packet, syndrome::kNakInvalidRequest);
    case Verdict::kRemoteAccess:
      ++counters.resp_remote_access_errors;
      return refuse(now, packet, syndrome::kNakRemoteAccess);
    case Verdict::kRemoteOperation:
      ++counters.resp_remote_op_errors;
      return refuse(now, packet, syndrome::kNakRemoteOperation);
  }
}

// UC answers nothing: the message is lost (IBA 9.8.2.2). A receive work request that cannot be
// written ends the queue pair (class A); one of an SRQ that is too short comes back (class E).
void Responder::act_unreliable(Instant now, const RxPacket& packet, Verdict verdict) {
  qp_.device_.counters().rx_no_receive += verdict == Verdict::kRnrNak;
  if (verdict != Verdict::kDrop && verdict != Verdict::kRnrNak) qp_.explain("dropped: " + why_);
  message_ = Message::kNone;
  expected_ = packet.header.psn + 1;
  bool faulty = verdict == Verdict::kRemoteOperation && local_status_ == WcStatus::kLocProtErr;
  bool too_short = verdict == Verdict::kInvalidRequest && local_status_ == WcStatus::kLocLenErr;
  if (!qp_.has_taken_ || !(faulty || (too_short && qp_.init_.srq))) return;
  WorkCompletion completion;
  completion.status = local_status_;
  completion.opcode = WcOpcode::kRecv;
  qp_.complete_receive(now, completion, false);
  if (faulty) qp_.enter_error(now, "a receive work request could not be written");
}

// NAKs the packet and ends the queue pair: class C errors and their kin (IBA 9.9.3). The error
// goes to the receive work request if one is involved, else to an affiliated async event.
void Responder::refuse(Instant now, const RxPacket& packet, uint8_t syndrome) {
  ++qp_.counters_.naks_sent;
  if (qp_.explaining())
    qp_.explain(fmt::format("refused {} from {} at PSN {:#x}: {}",
                            wire::opcode_info(packet.header.opcode).name(), qp_.peer(),
                            packet.header.psn.value(), why_));
  queue_ack(syndrome, packet.header.psn);
  if (qp_.has_taken_) {
    WorkCompletion completion;
    completion.status = local_status_;
    completion.opcode = WcOpcode::kRecv;
    qp_.complete_receive(now, completion, false);
  } else {
    AsyncType type =
        syndrome == syndrome::kNakRemoteAccess ? AsyncType::kQpAccessErr : AsyncType::kQpReqErr;
    qp_.device_.report({Event::kQp, type, nullptr, &qp_, nullptr});
  }
  message_ = Message::kNone;
  qp_.enter_error(now, "a request of the peer was refused");
}

}  // namespace verbena::engine
