// The responder's chain of checks, in the order of IBA 9.7.4.1: PSN, opcode sequence, access,
// resources, length, key. The first that objects decides; nothing has changed until then, except
// that a receive work request may have been taken.
#include <cinttypes>

#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "engine/responder.h"

namespace verbena::engine {

namespace {

const char* access_name(uint32_t access) {
  switch (access) {
    case memory::kRemoteWrite:
      return "IBV_ACCESS_REMOTE_WRITE";
    case memory::kRemoteRead:
      return "IBV_ACCESS_REMOTE_READ";
    case memory::kRemoteAtomic:
      return "IBV_ACCESS_REMOTE_ATOMIC";
    case memory::kFlushGlobal:
      return "IBV_ACCESS_FLUSH_GLOBAL";
    default:
      return "IBV_ACCESS_FLUSH_PERSISTENT";
  }
}

// What the operation asks of the queue pair's qp_access_flags and of the key.
uint32_t needed_access(const wire::Packet& packet, const wire::OpcodeInfo& info) {
  switch (info.operation) {
    case wire::Operation::kWrite:
    case wire::Operation::kAtomicWrite:
      return memory::kRemoteWrite;
    case wire::Operation::kReadRequest:
      return memory::kRemoteRead;
    case wire::Operation::kCompareSwap:
    case wire::Operation::kFetchAdd:
      return memory::kRemoteAtomic;
    case wire::Operation::kFlush:
      return ((packet.feth.placement & 1) ? uint32_t{memory::kFlushGlobal} : 0u) |
             ((packet.feth.placement & 2) ? uint32_t{memory::kFlushPersistent} : 0u);
    default:
      return 0;
  }
}

bool is_resource_operation(wire::Operation operation) {
  return operation == wire::Operation::kReadRequest || operation == wire::Operation::kCompareSwap ||
         operation == wire::Operation::kFetchAdd || operation == wire::Operation::kFlush ||
         operation == wire::Operation::kAtomicWrite;
}

}  // namespace

Verdict Responder::deny(Verdict verdict, WcStatus local, std::string why) {
  local_status_ = local;
  why_ = std::move(why);
  return verdict;
}

Verdict Responder::check(const RxPacket& packet, const wire::OpcodeInfo& info) {
  Verdict verdict = check_psn(packet, info);
  if (verdict == Verdict::kExecute) verdict = check_sequence(info);
  if (verdict == Verdict::kExecute) verdict = check_access(packet, info);
  if (verdict == Verdict::kExecute) verdict = check_xrc(packet);
  if (verdict == Verdict::kExecute) verdict = check_resources(info);
  if (verdict == Verdict::kExecute) verdict = check_length(packet, info);
  if (verdict == Verdict::kExecute) verdict = check_key(packet, info);
  return verdict;
}

Verdict Responder::check_psn(const RxPacket& packet, const wire::OpcodeInfo& info) {
  int32_t distance = packet.header.psn.distance(expected_);
  if (distance == 0) return Verdict::kExecute;
  if (!qp_.is_reliable()) {
    // UC has no second chance: a gap ends the message in progress, and the next first or only
    // packet begins anew (IBA 9.8.2.2.1).
    ++qp_.device_.counters().out_of_sequence;
    message_ = Message::kNone;
    if (!info.begins_message()) return Verdict::kDrop;
    expected_ = packet.header.psn;
    return Verdict::kExecute;
  }
  if (distance > 0) {
    ++qp_.device_.counters().out_of_sequence;
    return Verdict::kSequenceNak;
  }
  ++qp_.device_.counters().duplicate_request;
  return Verdict::kDuplicate;
}

// IBA 9.7.4.1.2, table 43.
Verdict Responder::check_sequence(const wire::OpcodeInfo& info) {
  bool fits = false;
  switch (message_) {
    case Message::kNone:
      fits = info.begins_message();
      break;
    case Message::kSend:
      fits = info.operation == wire::Operation::kSend && !info.begins_message();
      break;
    case Message::kWrite:
      fits = info.operation == wire::Operation::kWrite && !info.begins_message();
      break;
  }
  if (fits) return Verdict::kExecute;
  if (!qp_.is_reliable() && info.begins_message()) {
    message_ = Message::kNone;
    return Verdict::kExecute;
  }
  return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
              "opcode out of sequence within a message");
}

Verdict Responder::check_access(const RxPacket& packet, const wire::OpcodeInfo& info) {
  uint32_t missing = needed_access(packet.header, info) & ~qp_.attributes_.access;
  if (missing == 0) return Verdict::kExecute;
  return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
              fmt::format("{} is not in this queue pair's qp_access_flags ({:#x})",
                          access_name(missing & -missing), qp_.attributes_.access));
}

Verdict Responder::check_xrc(const RxPacket& packet) {
  if (qp_.type() != QpType::kXrcRecv) return Verdict::kExecute;
  SharedReceiveQueue* srq = qp_.device_.find_srq(packet.header.xrc_srqn);
  if (!srq || srq->xrc_domain != qp_.init_.xrc_domain)
    return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
                fmt::format("SRQ number {:#x} is not an XRC SRQ of this XRC domain",
                            packet.header.xrc_srqn));
  if (message_ != Message::kNone && srq != xrc_srq_)
    return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
                "the SRQ number changed within a message");
  xrc_srq_ = srq;
  return Verdict::kExecute;
}

Verdict Responder::check_resources(const wire::OpcodeInfo& info) {
  bool takes_receive = (info.operation == wire::Operation::kSend && info.begins_message()) ||
                       (info.operation == wire::Operation::kWrite && info.immediate);
  if (takes_receive && !qp_.take_receive(receive_source())) return Verdict::kRnrNak;
  if (!is_resource_operation(info.operation)) return Verdict::kExecute;
  if (resources_.empty())
    return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
                "READ or atomic, but IBV_QP_MAX_DEST_RD_ATOMIC is 0 here");
  // Every remembered operation but the newest depth - 1 must have been answered once.
  const Resource& oldest = resources_[next_resource_];
  if (oldest.used && !oldest.answered)
    return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
                fmt::format("more READs and atomics outstanding than IBV_QP_MAX_DEST_RD_ATOMIC {}",
                            resources_.size()));
  return Verdict::kExecute;
}

// IBA 9.7.4.1.6 (C9-88, C9-92, C9-94); spec crib 3.
Verdict Responder::check_length(const RxPacket& packet, const wire::OpcodeInfo& info) {
  uint32_t full = qp_.packet_bytes();
  uint32_t length = packet.payload.length;
  auto invalid = [&](std::string why, WcStatus local = WcStatus::kRemInvReqErr) {
    return deny(Verdict::kInvalidRequest, local, std::move(why));
  };
  if (qp_.path_mtu_differs(packet, length))
    return invalid(fmt::format("a packet cut at path MTU {}, path MTU {} here",
                               path_mtu_bytes(packet.path_mtu),
                               path_mtu_bytes(qp_.attributes_.path_mtu)));
  if ((info.first || info.middle) && length != full)
    return invalid(fmt::format("a first or middle packet of {} bytes, path MTU {}", length, full));
  if (length > full) return invalid(fmt::format("a packet of {} bytes, path MTU {}", length, full));
  if (info.last && length == 0) return invalid("a last packet without payload");
  switch (info.operation) {
    case wire::Operation::kSend: {
      uint64_t total = (info.begins_message() ? 0 : offset_) + length;
      if (total > qp_.taken_.length)
        return invalid(fmt::format("the SEND is longer than the receive work request (wr_id {:#x},"
                                   " {} bytes)",
                                   qp_.taken_.wr_id, qp_.taken_.length),
                       WcStatus::kLocLenErr);
      return Verdict::kExecute;
    }
    case wire::Operation::kWrite:
      return check_write_length(packet, info);
    case wire::Operation::kReadRequest:
      if (packet.header.reth.length > kMaxMessageBytes) return invalid("READ above 2^31 bytes");
      return length == 0 ? Verdict::kExecute : invalid("READ request with payload");
    case wire::Operation::kCompareSwap:
    case wire::Operation::kFetchAdd:
      if (packet.header.atomic.address & 7)
        return invalid(fmt::format("atomic address {:#x} is not 8-byte aligned",
                                   packet.header.atomic.address));
      return length == 0 ? Verdict::kExecute : invalid("atomic request with payload");
    case wire::Operation::kAtomicWrite:
      if (length != 8 || packet.header.reth.length != 8 || (packet.header.reth.address & 7))
        return invalid("ATOMIC WRITE that is not 8 aligned bytes");
      return Verdict::kExecute;
    default:
      return Verdict::kExecute;
  }
}

Verdict Responder::check_write_length(const RxPacket& packet, const wire::OpcodeInfo& info) {
  uint32_t length = packet.payload.length;
  uint64_t remaining = info.begins_message() ? packet.header.reth.length : write_.length - offset_;
  bool fits = info.ends_message() ? length == remaining : length < remaining;
  if (fits && remaining <= kMaxMessageBytes) return Verdict::kExecute;
  return deny(Verdict::kInvalidRequest, WcStatus::kRemInvReqErr,
              fmt::format("the WRITE's packets do not add up to the {} bytes of its RETH",
                          info.begins_message() ? packet.header.reth.length : write_.length));
}

Verdict Responder::check_key(const RxPacket& packet, const wire::OpcodeInfo& info) {
  const wire::Packet& header = packet.header;
  uint64_t address = header.reth.address;
  uint32_t rkey = header.reth.rkey;
  uint64_t length = header.reth.length;
  switch (info.operation) {
    case wire::Operation::kWrite:
      if (!info.begins_message()) return Verdict::kExecute;  // checked again where it is written
      break;
    case wire::Operation::kFlush:
      return check_flush_key(header, needed_access(header, info));
    case wire::Operation::kCompareSwap:
    case wire::Operation::kFetchAdd:
      address = header.atomic.address;
      rkey = header.atomic.rkey;
      length = 8;
      break;
    case wire::Operation::kReadRequest:
    case wire::Operation::kAtomicWrite:
      break;
    default:
      return Verdict::kExecute;
  }
  if (length == 0) return Verdict::kExecute;  // C9-88: key and address of nothing are not checked
  uint32_t needed = needed_access(header, info);
  // READ and WRITE touch their bytes packet by packet: a request for 2 GiB costs nothing here.
  bool piecewise =
      info.operation == wire::Operation::kReadRequest || info.operation == wire::Operation::kWrite;
  memory::Grant grant = qp_.device_.keys().check_remote(rkey, domain(), qp_.qpn_, address, length,
                                                        needed, !piecewise);
  if (grant.error == memory::KeyError::kNone) return Verdict::kExecute;
  // A WRITE with immediate has taken a receive: it reports the access as its own side's fault.
  WcStatus local = info.immediate ? WcStatus::kLocAccessErr : WcStatus::kRemAccessErr;
  return deny(Verdict::kRemoteAccess, local,
              fmt::format("rkey {:#x}, address {:#x}, {} bytes: {}", rkey, address, length,
                          memory::describe(grant.error)));
}

// A flush touches no byte, so it asks for the range's two ends only: nothing on demand is made
// present for it. The whole region (selectivity 1): only the key counts, a region's or a window's.
Verdict Responder::check_flush_key(const wire::Packet& header, uint32_t needed) {
  const memory::KeyTable& keys = qp_.device_.keys();
  uint32_t rkey = header.reth.rkey;
  uint64_t first = header.reth.address, last = first + header.reth.length;
  if (header.feth.selectivity & 1) {
    first = 0;
    if (const memory::MemoryRegion* region = keys.find_region(rkey)) first = region->iova;
    const memory::MemoryWindow* window = keys.find_window(rkey);
    if (window && !(window->access & memory::kZeroBased)) first = window->address;
    last = first;
  } else if (header.reth.length == 0) {
    return Verdict::kExecute;  // C9-88
  }
  memory::KeyError error = last < first ? memory::KeyError::kOutOfRange : memory::KeyError::kNone;
  for (uint64_t end : {first, last})
    if (error == memory::KeyError::kNone)
      error = keys.check_remote(rkey, domain(), qp_.qpn_, end, 0, needed).error;
  if (error == memory::KeyError::kNone) return Verdict::kExecute;
  return deny(Verdict::kRemoteAccess, WcStatus::kRemAccessErr,
              fmt::format("FLUSH of rkey {:#x}, address {:#x}, {} bytes: {}", rkey, first,
                          last - first, memory::describe(error)));
}

}  // namespace verbena::engine
