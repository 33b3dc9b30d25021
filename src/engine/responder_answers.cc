// What the responder owes: a bounded ring of acknowledgements, READ responses and atomic results,
// sent in PSN order, neighbouring acknowledgements merged into one; and the answers to duplicates.
#include <algorithm>

#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "engine/responder.h"

namespace verbena::engine {

namespace {

bool is_plain_ack(uint8_t syndrome) {
  return (syndrome & syndrome::kTypeMask) == syndrome::kAck;
}

wire::Transport transport_of(QpType type) {
  return type == QpType::kRc ? wire::Transport::kRc : wire::Transport::kXrc;
}

}  // namespace

uint8_t Responder::credits() const {
  if (!qp_.receive_queue_) return syndrome::kNoCredits;  // SRQ: shared, so no promise
  return code_of_credits(qp_.receive_queue_->size());
}

// --- queueing

Responder::Response& Responder::push_response() {
  size_t slot = (response_head_ + response_count_++) % responses_.size();
  qp_.wake();
  return responses_[slot] = Response{};
}

void Responder::queue_ack(uint8_t syndrome, Psn psn) {
  if (response_count_ > 0) {
    Response& last = responses_[(response_head_ + response_count_ - 1) % responses_.size()];
    // A later acknowledgement says all an earlier one did.
    if (last.kind == Response::kAcknowledge && is_plain_ack(last.syndrome) &&
        !psn.before(last.psn)) {
      last.syndrome = syndrome;
      last.psn = psn;
      last.msn = msn_;
      return;
    }
  }
  if (queue_full()) return;
  Response& response = push_response();
  response.kind = Response::kAcknowledge;
  response.syndrome = syndrome;
  response.psn = psn;
  response.msn = msn_;
}

void Responder::queue_read(Psn psn, uint64_t address, uint32_t rkey, uint32_t length) {
  if (queue_full()) return;
  Response& response = push_response();
  response.kind = Response::kRead;
  response.psn = psn;
  response.msn = msn_;
  response.address = address;
  response.rkey = rkey;
  response.remaining = length;
  response.domain = domain();
}

void Responder::queue_atomic(Psn psn, uint64_t original) {
  if (queue_full()) return;
  Response& response = push_response();
  response.kind = Response::kAtomic;
  response.psn = psn;
  response.msn = msn_;
  response.original = original;
}

// --- remembered operations

Responder::Resource& Responder::save(wire::Operation operation, Psn first, Psn last) {
  Resource& resource = resources_[next_resource_];
  next_resource_ = (next_resource_ + 1) % resources_.size();
  resource = Resource{};
  resource.used = true;
  resource.operation = operation;
  resource.first = first;
  resource.last = last;
  return resource;
}

Responder::Resource* Responder::find_resource(Psn psn) {
  for (Resource& resource : resources_)
    if (resource.used && psn.distance(resource.first) >= 0 && psn.distance(resource.last) <= 0)
      return &resource;
  return nullptr;
}

// IBA 9.7.5.1.4: a duplicate is never executed again. C9-105: SEND and WRITE repeat the newest
// acknowledgement; a READ is read again; an atomic repeats its saved value.
void Responder::answer_duplicate(const RxPacket& packet, const wire::OpcodeInfo& info) {
  const wire::Packet& header = packet.header;
  if (info.operation == wire::Operation::kSend || info.operation == wire::Operation::kWrite) {
    if (header.ack_request) queue_ack(syndrome::kAck | credits(), expected_ - 1);
    return;
  }
  Resource* saved = find_resource(header.psn);
  if (!saved || saved->operation != info.operation) return;
  switch (info.operation) {
    case wire::Operation::kReadRequest: {
      uint64_t skipped =
          static_cast<uint64_t>(header.psn.distance(saved->first)) * qp_.packet_bytes();
      bool subset = header.reth.rkey == saved->rkey && skipped <= saved->length &&
                    header.reth.address == saved->address + skipped &&
                    header.reth.length <= saved->length - skipped;
      if (subset) queue_read(header.psn, header.reth.address, header.reth.rkey, header.reth.length);
      return;
    }
    case wire::Operation::kCompareSwap:
    case wire::Operation::kFetchAdd:
      return queue_atomic(header.psn, saved->original);
    default:
      return queue_read(header.psn, 0, 0, 0);
  }
}

// --- sending

TransmitState Responder::transmit(Instant now, PacketSink& sink, uint32_t& budget) {
  while (response_count_ > 0) {
    if (budget == 0) return TransmitState::kMore;
    Response& response = responses_[response_head_];
    bool done = true;
    if (response.kind == Response::kRead) {
      bool blocked = false;
      done = send_read(now, response, sink, blocked);
      if (blocked) return TransmitState::kBlocked;
    } else if (!send_answer(response, sink)) {
      return TransmitState::kBlocked;
    }
    --budget;
    if (!done) continue;
    response_head_ = (response_head_ + 1) % static_cast<uint32_t>(responses_.size());
    --response_count_;
  }
  return TransmitState::kIdle;
}

bool Responder::send_answer(const Response& response, PacketSink& sink) {
  TxPacket packet;
  packet.route = &qp_.attributes_.route;
  packet.path = qp_.attributes_.path;
  packet.source_qpn = qp_.qpn_;
  packet.header.dest_qpn = qp_.attributes_.dest_qpn;
  packet.header.psn = response.psn;
  bool atomic = response.kind == Response::kAtomic;
  packet.header.opcode =
      wire::make_opcode(transport_of(qp_.type()),
                        atomic ? wire::Opcode::kRcAtomicAcknowledge : wire::Opcode::kRcAcknowledge);
  packet.header.aeth = {atomic ? syndrome::kAck : response.syndrome, response.msn};
  if (atomic) {
    packet.header.aeth.syndrome |= credits();
    packet.header.atomic_original = response.original;
  }
  if (!sink.send(packet)) return false;
  ++qp_.counters_.packets_sent;
  ++qp_.device_.counters().port_xmit_packets;
  return true;
}

// Sends the next packet of a READ response. True: that was the last one.
bool Responder::send_read(Instant now, Response& response, PacketSink& sink, bool& blocked) {
  uint32_t length = std::min(response.remaining, qp_.packet_bytes());
  bool last = length == response.remaining;
  TxPacket packet;
  memory::Segment segment{};
  std::vector<memory::Segment> zeros;
  if (length > 0) {
    memory::Grant grant = qp_.device_.keys().check_remote(
        response.rkey, response.domain, qp_.qpn_, response.address, length, memory::kRemoteRead);
    if (grant.error != memory::KeyError::kNone) {
      // The region went away between the request and its answer.
      response.kind = Response::kAcknowledge;
      response.syndrome = syndrome::kNakRemoteAccess;
      ++qp_.device_.counters().resp_remote_access_errors;
      if (qp_.explaining())
        qp_.explain(fmt::format("READ response for rkey {:#x}, address {:#x}: {}", response.rkey,
                                response.address, memory::describe(grant.error)));
      qp_.device_.report({Event::kQp, AsyncType::kQpAccessErr, nullptr, &qp_, nullptr});
      if (qp_.state() != QpState::kErr) qp_.enter_error(now);
      return false;
    }
    segment = {grant.address, length};
    packet.payload = {{&segment, 1}, length, nullptr};
    if (grant.backing == memory::Backing::kNull) {
      static const uint8_t kZeros[4096] = {};
      for (uint32_t left = length; left > 0; left -= std::min<uint32_t>(left, sizeof(kZeros)))
        zeros.push_back({const_cast<uint8_t*>(kZeros), std::min<size_t>(left, sizeof(kZeros))});
      packet.payload.segments = zeros;
    }
  }
  using wire::Opcode;
  Opcode opcode = response.started
                      ? (last ? Opcode::kRcReadResponseLast : Opcode::kRcReadResponseMiddle)
                      : (last ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseFirst);
  packet.route = &qp_.attributes_.route;
  packet.path = qp_.attributes_.path;
  packet.by_reference = packet.path == Path::kLocal;
  packet.region_key = response.rkey;
  packet.source_qpn = qp_.qpn_;
  packet.header.opcode = wire::make_opcode(transport_of(qp_.type()), opcode);
  packet.header.dest_qpn = qp_.attributes_.dest_qpn;
  packet.header.psn = response.psn;
  packet.header.pad_count = static_cast<uint8_t>(-length & 3);
  if (wire::opcode_info(opcode).has(wire::Header::kAeth))
    packet.header.aeth = {static_cast<uint8_t>(syndrome::kAck | credits()), response.msn};
  if (!sink.send(packet)) {
    blocked = true;
    return false;
  }
  ++qp_.counters_.packets_sent;
  qp_.counters_.bytes_sent += length;
  ++qp_.device_.counters().port_xmit_packets;
  qp_.device_.counters().port_xmit_data += length;
  response.started = true;
  response.psn += 1;
  response.address += length;
  response.remaining -= length;
  return last;
}

}  // namespace verbena::engine
