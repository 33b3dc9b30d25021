// The queue pair as a container: posting, dispatch of what arrives, errors, and the completions
// both halves share.
#include "engine/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "engine/device.h"
#include "memory/fault_guard.h"

namespace verbena::engine {

namespace {

bool opcode_fits(QpType type, WrOpcode opcode) {
  switch (type) {
    case QpType::kRc:
    case QpType::kXrcSend:
      return true;
    case QpType::kUc:
      return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm || is_write(opcode) ||
             is_local(opcode);
    case QpType::kUd:
      return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm;
    case QpType::kXrcRecv:
      return false;
  }
  return false;
}

bool inline_fits(WrOpcode opcode) {
  return is_send(opcode) || is_write(opcode) || opcode == WrOpcode::kAtomicWrite;
}

}  // namespace

QueuePair::QueuePair(Device& device, uint32_t qpn, const QpInit& init)
    : device_(device),
      qpn_(qpn),
      init_(init),
      send_queue_(init.send),
      requester_(*this),
      responder_(*this) {
  uint32_t sges = init.receive_sges;
  if (init.srq) sges = init.srq->queue.max_sges();
  if (init.type == QpType::kXrcRecv) sges = kMaxReceiveSges;  // it meets SRQs of any size
  if (!init.srq && init.type != QpType::kXrcRecv && init.type != QpType::kXrcSend)
    receive_queue_ = std::make_unique<ReceiveQueue>(init.receive_work_requests, sges);
  taken_sges_ = std::make_unique<Sge[]>(std::max(1u, sges));
  taken_.sges = taken_sges_.get();
}

uint32_t QueuePair::packet_bytes() const {
  if (is_reliable() && attributes_.path == Path::kLocal) return kLocalPathMtu;
  return path_mtu_bytes(attributes_.path_mtu);
}

bool QueuePair::path_mtu_differs(const RxPacket& packet, uint64_t bytes) const {
  uint8_t own = attributes_.path_mtu;
  return packet.path_mtu != 0 && packet.path_mtu != own &&
         bytes > path_mtu_bytes(std::min(packet.path_mtu, own));
}

QpAttributes QueuePair::current_attributes() const {
  QpAttributes current = attributes_;
  if (requester_.started())
    current.sq_psn = (type() == QpType::kUd ? datagram_psn_ : requester_.transmit_psn()).value();
  if (responder_.started() && type() != QpType::kUd) current.rq_psn = responder_.expected().value();
  return current;
}

bool QueuePair::explaining() const {
  return device_.explaining();
}

void QueuePair::explain(const std::string& text) const {
  if (explaining()) device_.explain(fmt::format("QP {:#08x} {}: {}", qpn_, name(type()), text));
}

std::string QueuePair::peer() const {
  return fmt::format("QP {:#08x} ({})", attributes_.dest_qpn,
                     address_text(attributes_.route.destination));
}

int QueuePair::refuse(int code, const std::string& why) const {
  explain(why);
  return code;
}

void QueuePair::wake() {
  device_.wake(this);
}

// --- posting

int QueuePair::check_send(const SendRequest& request) const {
  if (state() == QpState::kReset || state() == QpState::kInit || state() == QpState::kRtr)
    return refuse(EINVAL, fmt::format("post_send in state {}; bring the queue pair to RTS first",
                                      name(state())));
  if (!opcode_fits(type(), request.opcode))
    return refuse(EINVAL, fmt::format("post_send: {} is not a work request of this transport",
                                      name(request.opcode)));
  if (send_queue_.full())
    return refuse(ENOMEM, fmt::format("post_send: the send queue's {} slots are all in use; poll"
                                      " completions (a signaled one retires those before it)",
                                      send_queue_.limits().work_requests));
  if (request.sges.size() > send_queue_.limits().sges)
    return refuse(EINVAL, fmt::format("post_send: num_sge {}, max_send_sge is {}",
                                      request.sges.size(), send_queue_.limits().sges));
  if (request.flags & kInline) {
    uint64_t bytes = 0;
    for (const Sge& sge : request.sges) bytes += sge.length;
    if (!inline_fits(request.opcode))
      return refuse(EINVAL, fmt::format("post_send: {} cannot be inline", name(request.opcode)));
    const SendQueueLimits& limits = send_queue_.limits();
    bool own = request.opcode == WrOpcode::kAtomicWrite;
    if (bytes > (own ? limits.inline_stride() : limits.inline_bytes))
      return refuse(EINVAL, fmt::format("post_send: {} inline bytes, max_inline_data is {}", bytes,
                                        limits.inline_bytes));
  }
  return type() == QpType::kUd ? check_datagram(request) : 0;
}

int QueuePair::check_datagram(const SendRequest& request) const {
  if (!request.route) return refuse(EINVAL, "post_send: a UD work request needs wr.ud.ah");
  return 0;
}

int QueuePair::post_send(Instant now, const SendRequest& request) {
  if (int code = check_send(request)) return code;
  post_checked(now, request);
  return 0;
}

void QueuePair::post_checked(Instant now, const SendRequest& request) {
  send_queue_.push(request);
  if (state() != QpState::kErr && state() != QpState::kSqe) {
    wake();
  } else {
    device_.focus(*this);
    requester_.flush(now);
    explain_posted_flush();
  }
}

int QueuePair::post_receive(uint64_t wr_id, std::span<const Sge> sges) {
  if (!receive_queue_)
    return refuse(EINVAL, "post_recv: this queue pair takes receives from a shared receive queue");
  if (state() == QpState::kReset)
    return refuse(EINVAL, "post_recv in state RESET; bring the queue pair to INIT first");
  if (sges.size() > receive_queue_->max_sges())
    return refuse(EINVAL, fmt::format("post_recv: num_sge {}, max_recv_sge is {}", sges.size(),
                                      receive_queue_->max_sges()));
  if (receive_queue_->full())
    return refuse(ENOMEM, fmt::format("post_recv: the receive queue's {} slots are all in use",
                                      receive_queue_->capacity()));
  receive_queue_->push(wr_id, sges);
  if (state() == QpState::kErr) wake();  // to be flushed
  return 0;
}

// --- arriving packets

bool QueuePair::acceptable(const RxPacket& packet) {
  Counters& counters = device_.counters();
  const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
  if (info.transport != transport_of(type())) {
    ++counters.rx_wrong_transport;
    return false;
  }
  // Requests are taken from RTR on, responses from RTS on; ERR, INIT and RESET take nothing.
  bool ready = state() == QpState::kRts || state() == QpState::kSqd || state() == QpState::kSqe ||
               (state() == QpState::kRtr && !info.response);
  if (!ready || (info.response && type() == QpType::kXrcRecv) ||
      (!info.response && type() == QpType::kXrcSend)) {
    ++counters.rx_unknown_qp;
    return false;
  }
  if (type() == QpType::kUd) return true;
  const AddressVector& route = attributes_.route;
  if (packet.source != route.destination || packet.destination != route.source ||
      (is_reliable() && packet.path != attributes_.path)) {
    ++counters.rx_wrong_address;
    return false;
  }
  return true;
}

void QueuePair::receive(Instant now, const RxPacket& packet) {
  if (!acceptable(packet)) return;
  counters_.packets_received += wire_packets(packet.path_mtu, packet.payload.length);
  counters_.bytes_received += packet.payload.length;
  if ((packet.traffic_class & 3) == 3 || packet.telemetry || (notification_ && notification_->owed))
    note_congestion(now, packet);
  if (type() == QpType::kUd) {
    receive_datagram(now, packet);
  } else if (wire::opcode_info(packet.header.opcode).response) {
    requester_.receive(now, packet);
  } else {
    if (state() == QpState::kRtr && !comm_established_) {
      comm_established_ = true;
      device_.report({Event::kQp, AsyncType::kCommEst, nullptr, this, nullptr});
    }
    responder_.receive(now, packet);
  }
  device_.update_timer(this);
}

TransmitState QueuePair::transmit(Instant now, PacketSink& sink, uint32_t budget) {
  TransmitState result;
  flush_posted(now);
  if (type() == QpType::kUd) {
    result = transmit_datagrams(now, sink, budget);
  } else {
    result = responder_.transmit(now, sink, budget);
    if (result == TransmitState::kIdle) result = requester_.transmit(now, sink, budget);
  }
  device_.update_timer(this);
  return result;
}

TransmitState QueuePair::transmit_answers(PacketSink& sink, uint32_t& budget) {
  return responder_.transmit_answers(sink, budget);
}

void QueuePair::sent(Instant now, const TxPacket& packet) {
  uint32_t length = packet.payload.length;
  Counters& counters = device_.counters();
  counters_.packets_sent += wire_packets(packet.path_mtu, length);
  counters_.bytes_sent += length;
  counters.port_xmit_packets += wire_packets(packet.path_mtu, length);
  counters.port_xmit_data += length;
  if (!pacing_) return;
  size_t around = device_.options().frame_overhead_bytes;
  if (around == 0)
    around = wire::opcode_info(packet.header.opcode).header_length + packet.header.pad_count +
             wire::kIcrcBytes;
  pacing_->sent(now, length + static_cast<uint32_t>(around));
}

void QueuePair::congestion(std::unique_ptr<CongestionControl> control) {
  pacing_ =
      control ? std::make_unique<Pacing>(std::move(control), device_.options().port_bits_per_second)
              : nullptr;
  device_.update_timer(this);
}

void QueuePair::on_time(Instant now) {
  requester_.on_time(now);
  responder_.on_time(now);
  if (pacing_ && pacing_->expire(now)) wake();
  device_.update_timer(this);
}

// --- receive work requests

bool QueuePair::take_receive(SharedReceiveQueue* srq) {
  if (has_taken_) return true;  // left over from a message that never became whole
  if (srq) {
    has_taken_ = device_.take_from_srq(srq, taken_);
    taken_srq_ = srq;
    taken_cq_ = srq->completions ? srq->completions : init_.receive_cq;
    taken_domain_ = srq->domain;
  } else if (receive_queue_) {
    has_taken_ = receive_queue_->pop(taken_);
    taken_srq_ = nullptr;
    taken_cq_ = init_.receive_cq;
    taken_domain_ = init_.domain;
  }
  return has_taken_;
}

QueuePair::Scattered QueuePair::scatter(std::span<const Sge> sges,
                                        const memory::ProtectionDomain* domain,
                                        const memory::Payload& payload, uint64_t offset) {
  Scattered done;
  for (; done.sge < sges.size() && done.bytes < payload.length; ++done.sge) {
    const Sge& sge = sges[done.sge];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    size_t n = std::min<size_t>(payload.length - done.bytes, sge.length - offset);
    memory::Grant grant =
        device_.keys().check_local(sge.lkey, domain, sge.address + offset, n, true);
    done.error = grant.error;
    if (grant.error != memory::KeyError::kNone) return done;
    if (grant.backing != memory::Backing::kNull &&
        !payload.copy_out(done.bytes, grant.address, n)) {
      done.lost = memory::present(grant.address, n, true);
      if (!done.lost) done.error = memory::KeyError::kNotPresent;
      return done;
    }
    done.bytes += n;
    offset = 0;
  }
  return done;
}

// --- completions

namespace {

WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return WcOpcode::kRdmaWrite;
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
    case WrOpcode::kSendWithInv:
      return WcOpcode::kSend;
    case WrOpcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case WrOpcode::kAtomicCmpAndSwp:
      return WcOpcode::kCompSwap;
    case WrOpcode::kAtomicFetchAndAdd:
      return WcOpcode::kFetchAdd;
    case WrOpcode::kLocalInv:
      return WcOpcode::kLocalInv;
    case WrOpcode::kBindMw:
      return WcOpcode::kBindMw;
    case WrOpcode::kFlush:
      return WcOpcode::kFlush;
    case WrOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
  }
  return WcOpcode::kSend;
}

// The numbers users already search for: those that mlx5 adapters report beside these statuses.
uint32_t vendor_error(WcStatus status) {
  switch (status) {
    case WcStatus::kRetryExcErr:
      return 0x81;
    case WcStatus::kRemAccessErr:
      return 0x88;
    case WcStatus::kLocProtErr:
      return 0x51;
    case WcStatus::kWrFlushErr:
      return 0xf9;
    default:
      return 0;
  }
}

}  // namespace

void QueuePair::complete_send(Instant now, const SendWork& work, WcStatus status) {
  Counters& counters = device_.counters();
  if (status == WcStatus::kSuccess) {
    if (is_send(work.opcode)) ++counters.rdma_sends;
    if (!work.is_signaled(init_.signal_all)) return;  // only failures always complete (10.7.3.1)
  } else if (status == WcStatus::kWrFlushErr) {
    ++counters.req_cqe_flush_error;
  } else {
    ++counters.req_cqe_error;
    ++counters_.errors;
  }
  ++counters_.completions;
  WorkCompletion completion;
  completion.wr_id = work.wr_id;
  completion.status = status;
  completion.opcode = completion_opcode(work.opcode);
  completion.vendor_error = vendor_error(status);
  completion.byte_len = work.length;
  completion.qp_num = qpn_;
  completion.timestamp = now;
  device_.push_completion(init_.send_cq, completion, status != WcStatus::kSuccess);
}

void QueuePair::complete_receive(Instant now, WorkCompletion completion, bool solicited) {
  Counters& counters = device_.counters();
  if (completion.status == WcStatus::kSuccess) {
    if (completion.opcode == WcOpcode::kRecv) ++counters.rdma_recvs;
  } else if (completion.status == WcStatus::kWrFlushErr) {
    ++counters.resp_cqe_flush_error;
  } else {
    ++counters.resp_cqe_error;
    ++counters_.errors;
  }
  ++counters_.completions;
  completion.wr_id = taken_.wr_id;
  completion.qp_num = qpn_;
  completion.vendor_error = vendor_error(completion.status);
  completion.timestamp = now;
  has_taken_ = false;
  device_.push_completion(taken_cq_, completion,
                          solicited || completion.status != WcStatus::kSuccess);
}

// --- errors and the end

uint32_t QueuePair::flush_receives(Instant now) {
  uint32_t count = 0;
  WorkCompletion flushed;
  flushed.status = WcStatus::kWrFlushErr;
  flushed.opcode = WcOpcode::kRecv;
  for (; has_taken_ || (receive_queue_ && take_receive(nullptr)); ++count)
    complete_receive(now, flushed, false);
  if (receive_queue_) return count;
  if ((init_.srq || type() == QpType::kXrcRecv) && !last_wqe_reported_) {
    last_wqe_reported_ = true;
    device_.report({Event::kQp, AsyncType::kQpLastWqeReached, nullptr, this, nullptr});
  }
  return count;
}

void QueuePair::flush_posted(Instant now) {
  if (state() != QpState::kErr) return;
  device_.focus(*this);
  if (flush_receives(now) > 0) explain_posted_flush();
}

// One line per queue pair and cause, however many flush.
void QueuePair::explain_flush(uint32_t sends, uint32_t receives, const std::string& cause) {
  posted_flush_told_ = false;
  if (!explaining() || sends + receives == 0) return;
  explain(fmt::format("state {}: {} send and {} receive work requests flush (WR_FLUSH_ERR): {}",
                      name(state()), sends, receives, cause));
}

void QueuePair::explain_posted_flush() {
  if (!explaining() || std::exchange(posted_flush_told_, true)) return;
  explain(fmt::format(
      "state {}: work requests posted now flush (WR_FLUSH_ERR); bring the queue"
      " pair to {}",
      name(state()), state() == QpState::kSqe ? "RTS" : "RESET, INIT, RTR and RTS again"));
}

void QueuePair::enter_error(Instant now, const std::string& cause) {
  attributes_.state = QpState::kErr;
  device_.focus(*this);
  device_.report({Event::kLeftService, AsyncType::kQpFatal, nullptr, this, nullptr});
  uint32_t sends = requester_.flush(now);
  responder_.stop();
  explain_flush(sends, flush_receives(now), cause);
  device_.update_timer(this);
  wake();  // a NAK that explains the error may still wait to be sent
}

void QueuePair::enter_send_error(Instant now, const std::string& cause) {
  attributes_.state = QpState::kSqe;
  explain_flush(requester_.flush(now), 0, cause);
  device_.update_timer(this);
}

void QueuePair::forget(const SharedReceiveQueue* srq) {
  if (has_taken_ && taken_srq_ == srq) has_taken_ = false;
  responder_.forget(srq);
}

void QueuePair::reset() {
  device_.report({Event::kLeftService, AsyncType::kQpFatal, nullptr, this, nullptr});
  send_queue_.clear();
  std::destroy_at(&requester_);
  std::construct_at(&requester_, *this);
  std::destroy_at(&responder_);
  std::construct_at(&responder_, *this);
  if (receive_queue_) receive_queue_->clear();
  has_taken_ = false;
  comm_established_ = false;
  last_wqe_reported_ = posted_flush_told_ = false;
  attributes_ = QpAttributes{};
  disorder_ = {};
  pacing_.reset();
  notification_.reset();
  device_.forget_notification(this);
  for (CompletionQueue* cq : {init_.send_cq, init_.receive_cq})
    if (cq) cq->forget(qpn_);
  device_.update_timer(this);
}

}  // namespace verbena::engine
