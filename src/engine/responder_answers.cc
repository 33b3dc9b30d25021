// What the responder owes: a bounded ring of acknowledgements, READ responses and atomic results,
// sent in PSN order, neighbouring acknowledgements merged into one; and the answers to duplicates.
#include <algorithm>

#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "engine/responder.h"

namespace verbena::engine {

namespace {

constexpr uint32_t kSpareResponses = 8;  // acknowledgements between the READs' answers

}  // namespace

uint8_t Responder::credits() const {
  if (!qp_.receive_queue_) return syndrome::kNoCredits;  // SRQ: shared, so no promise
  return code_of_credits(qp_.receive_queue_->size());
}

// --- queueing

void Responder::resize(uint32_t depth) {
  std::vector<Resource> old = std::move(resources_);
  std::vector<Response> pending;
  for (uint32_t i = 0; i < response_count_; ++i) pending.push_back(response(i));
  resources_.assign(depth, Resource{});
  responses_.assign(size_t{depth} * 2 + kSpareResponses, Response{});
  response_head_ = response_count_ = 0;
  // The newest operations stay answerable, oldest first.
  std::vector<int> moved(old.size(), -1);
  uint32_t skip = old.size() > depth ? static_cast<uint32_t>(old.size()) - depth : 0;
  uint32_t kept = 0;
  for (uint32_t i = skip; i < old.size(); ++i) {
    uint32_t from = (next_resource_ + i) % old.size();
    moved[from] = static_cast<int>(kept);
    resources_[kept++] = old[from];
  }
  next_resource_ = static_cast<uint8_t>(depth ? kept % depth : 0);
  for (Response& r : pending) {
    if (r.kind != Response::kAcknowledge) {
      if (moved[r.resource] < 0) continue;
      r.resource = static_cast<uint8_t>(moved[r.resource]);
    }
    if (response_count_ < responses_.size()) responses_[response_count_++] = r;
  }
}

// A free place behind every response with an earlier PSN; null when the ring is full.
Responder::Response* Responder::insert_response(Psn psn) {
  if (response_count_ == responses_.size()) return nullptr;
  uint32_t at = response_count_++;
  for (; at > 0 && response(at - 1).psn.after(psn); --at) response(at) = response(at - 1);
  response(at) = Response{};
  response(at).psn = psn;
  response(at).msn = msn_;
  return &response(at);
}

Responder::Response* Responder::find_response(uint8_t resource) {
  for (uint32_t i = 0; i < response_count_; ++i)
    if (response(i).kind != Response::kAcknowledge && response(i).resource == resource)
      return &response(i);
  return nullptr;
}

void Responder::erase_response(uint32_t i) {
  for (--response_count_; i < response_count_; ++i) response(i) = response(i + 1);
}

void Responder::queue_ack(uint8_t syndrome, Psn psn, uint8_t missing_behind) {
  Response* to = nullptr;
  if (response_count_ > 0) {
    // What is said later about a later PSN makes an earlier acknowledgement or NAK needless.
    Response& last = response(response_count_ - 1);
    if (last.kind == Response::kAcknowledge && !psn.before(last.psn)) to = &last;
  }
  if (!to) {
    to = insert_response(psn);
    if (!to) return;
    if (qp_.device_.options().acknowledgements_apart)
      qp_.device_.owe_answer(&qp_);
    else
      qp_.wake();
  }
  to->kind = Response::kAcknowledge;
  to->syndrome = syndrome;
  to->missing_behind = missing_behind;
  to->psn = psn;
  to->msn = msn_;
}

// A NAK for a missing packet waits to be sent, the newest of what waits.
bool Responder::owes_sequence_nak() {
  if (response_count_ == 0) return false;
  const Response& last = response(response_count_ - 1);
  return last.kind == Response::kAcknowledge && last.syndrome == syndrome::kNakSequence;
}

void Responder::queue_answer(uint8_t resource, Psn psn, uint32_t offset, uint32_t length) {
  Response* to = insert_response(psn);
  if (!to) return;
  qp_.wake();
  wire::Operation operation = resources_[resource].operation;
  bool atomic =
      operation == wire::Operation::kCompareSwap || operation == wire::Operation::kFetchAdd;
  to->kind = atomic ? Response::kAtomic : Response::kRead;
  to->resource = resource;
  to->offset = offset;
  to->remaining = length;
}

// --- remembered operations

uint8_t Responder::save(wire::Operation operation, Psn first, Psn last) {
  uint8_t index = next_resource_;
  next_resource_ = static_cast<uint8_t>((index + 1u) % resources_.size());
  // The requester went on: it has the old operation's answer, and a repetition that still waits
  // here is of no use.
  for (uint32_t i = response_count_; i-- > 0;)
    if (response(i).kind != Response::kAcknowledge && response(i).resource == index)
      erase_response(i);
  Resource& resource = resources_[index];
  resource = Resource{};
  resource.used = true;
  resource.operation = operation;
  resource.first = first;
  resource.last = last;
  resource.domain = domain();
  return index;
}

int Responder::find_resource(Psn psn) const {
  // Newest first: after 2^24 packets without such an operation an old one has the same PSN.
  for (size_t back = 1; back <= resources_.size(); ++back) {
    size_t i = (next_resource_ + resources_.size() - back) % resources_.size();
    const Resource& resource = resources_[i];
    if (resource.used && psn.distance(resource.first) >= 0 && psn.distance(resource.last) <= 0)
      return static_cast<int>(i);
  }
  return -1;
}

// IBA 9.7.5.1.4: a duplicate is never executed again. C9-105: SEND and WRITE repeat the newest
// acknowledgement; a READ is read again; an atomic repeats its saved value.
void Responder::answer_duplicate(const RxPacket& packet, const wire::OpcodeInfo& info) {
  const wire::Packet& header = packet.header;
  if (info.operation == wire::Operation::kSend || info.operation == wire::Operation::kWrite) {
    if (header.ack_request) queue_ack(syndrome::kAck | credits(), expected_ - 1);
    return;
  }
  int found = find_resource(header.psn);
  if (found < 0 || resources_[static_cast<size_t>(found)].operation != info.operation) return;
  answer_again(static_cast<uint8_t>(found), header);
}

void Responder::answer_again(uint8_t index, const wire::Packet& header) {
  const Resource& saved = resources_[index];
  uint32_t offset = 0, length = 0;
  if (saved.operation == wire::Operation::kReadRequest) {
    uint64_t skipped = static_cast<uint64_t>(header.psn.distance(saved.first)) * qp_.packet_bytes();
    bool subset = header.reth.rkey == saved.rkey && skipped <= saved.length &&
                  header.reth.address == saved.address + skipped &&
                  header.reth.length <= saved.length - skipped;
    if (!subset) return;
    offset = static_cast<uint32_t>(skipped);
    length = header.reth.length;
  }
  Response* waiting = find_response(index);
  if (!waiting) return queue_answer(index, header.psn, offset, length);
  // The answer is still on its way out: go back in it, if it has passed the place asked for, and
  // on to the end asked for.
  uint32_t end = std::max(waiting->offset + waiting->remaining, offset + length);
  if (waiting->psn.after(header.psn)) {
    waiting->psn = header.psn;
    waiting->offset = offset;
    waiting->started = false;
  }
  waiting->remaining = end - waiting->offset;
}

// --- the end

void Responder::stop() {
  bool explained = false;
  if (response_count_ > 0) {
    const Response& last = response(response_count_ - 1);
    explained = last.kind == Response::kAcknowledge && last.syndrome > syndrome::kNakSequence;
  }
  if (!explained) response_count_ = 0;
  message_ = Message::kNone;
  if (reordered_) reordered_->clear();
}

void Responder::forget(const SharedReceiveQueue* srq) {
  if (xrc_srq_ != srq) return;
  xrc_srq_ = nullptr;
}

// --- sending

TransmitState Responder::transmit(Instant now, PacketSink& sink, uint32_t& budget) {
  while (response_count_ > 0) {
    if (budget == 0) return TransmitState::kMore;
    Response& next = responses_[response_head_];
    bool done = true;
    if (next.kind == Response::kRead) {
      if (qp_.paced(now)) return TransmitState::kIdle;
      bool blocked = false;
      done = send_read(now, next, sink, blocked);
      if (blocked) return TransmitState::kBlocked;
    } else if (next.kind == Response::kAcknowledge &&
               qp_.device_.options().acknowledgements_apart) {
      qp_.device_.owe_answer(&qp_);
      return TransmitState::kIdle;
    } else if (!send_answer(next, sink)) {
      return TransmitState::kBlocked;
    }
    --budget;
    if (done) pop_response();
  }
  return TransmitState::kIdle;
}

TransmitState Responder::transmit_answers(PacketSink& sink, uint32_t& budget) {
  while (response_count_ > 0) {
    const Response& next = responses_[response_head_];
    if (next.kind != Response::kAcknowledge) {
      qp_.wake();  // its turn is in the lane; what is behind it comes after it
      return TransmitState::kIdle;
    }
    if (budget == 0) return TransmitState::kMore;
    if (!send_answer(next, sink)) return TransmitState::kBlocked;
    --budget;
    pop_response();
  }
  return TransmitState::kIdle;
}

void Responder::pop_response() {
  const Response& gone = responses_[response_head_];
  if (gone.kind != Response::kAcknowledge) resources_[gone.resource].answered = true;
  response_head_ = (response_head_ + 1) % static_cast<uint32_t>(responses_.size());
  --response_count_;
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
  packet.header.missing_behind = response.missing_behind;
  if (atomic) {
    packet.header.aeth.syndrome |= credits();
    packet.header.atomic_original = resources_[response.resource].original;
  }
  Notification* told = qp_.notification_.get();
  if (told) {
    packet.header.becn = told->echo;
    if (told->telemetry.count > 0) packet.telemetry = &told->telemetry;
  }
  if (!sink.send(packet)) return false;
  if (told) {
    told->echo = false;
    told->telemetry.count = 0;
  }
  ++qp_.counters_.packets_sent;
  ++qp_.device_.counters().port_xmit_packets;
  return true;
}

// The region went away between the request and its answer: the answer becomes a NAK, the last
// thing this queue pair says.
void Responder::fail_read(Instant now, Response& response, memory::KeyError error) {
  response.kind = Response::kAcknowledge;
  response.syndrome = syndrome::kNakRemoteAccess;
  response_count_ = 1;
  ++qp_.counters_.naks_sent;
  ++qp_.device_.counters().resp_remote_access_errors;
  const Resource& saved = resources_[response.resource];
  if (qp_.explaining())
    qp_.explain(fmt::format("READ response to {} for rkey {:#x}, address {:#x}: {}", qp_.peer(),
                            saved.rkey, saved.address + response.offset, memory::describe(error)));
  if (qp_.state() == QpState::kErr) return;
  qp_.device_.report({Event::kQp, AsyncType::kQpAccessErr, nullptr, &qp_, nullptr});
  qp_.enter_error(now, "a READ could not be answered any more");
}

// Sends the next packet of a READ response. True: that was the last one.
bool Responder::send_read(Instant now, Response& response, PacketSink& sink, bool& blocked) {
  const Resource& saved = resources_[response.resource];
  uint32_t length = std::min(response.remaining, qp_.packet_bytes());
  bool last = length == response.remaining;
  TxPacket packet;
  memory::Segment segments[kLocalPathMtu / memory::kZeroBytes];
  if (length > 0) {
    memory::Grant grant = qp_.device_.keys().check_remote(saved.rkey, saved.domain, qp_.qpn_,
                                                          saved.address + response.offset, length,
                                                          memory::kRemoteRead);
    if (grant.error != memory::KeyError::kNone) {
      if (saved.answered) return true;  // a late repetition: nobody waits for it (class D)
      fail_read(now, response, grant.error);
      return false;
    }
    size_t count = 0;
    if (grant.backing == memory::Backing::kNull) {
      count = memory::zero_segments(length, segments);
    } else {
      segments[count++] = {grant.address, length};
      packet.region_key = grant.region_key;  // what the same-host peer may go by: never a window's
    }
    packet.payload = {{segments, count}, length, nullptr};
  }
  using wire::Opcode;
  Opcode opcode = response.started
                      ? (last ? Opcode::kRcReadResponseLast : Opcode::kRcReadResponseMiddle)
                      : (last ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseFirst);
  packet.route = &qp_.attributes_.route;
  packet.path = qp_.attributes_.path;
  packet.by_reference = packet.path == Path::kLocal;
  packet.path_mtu = qp_.attributes_.path_mtu;
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
  qp_.sent(now, packet);
  response.started = true;
  response.psn += 1;
  response.offset += length;
  response.remaining -= length;
  return last;
}

}  // namespace verbena::engine
