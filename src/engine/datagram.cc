// Unreliable datagrams: one packet per message, no state between them (IBA 9.8.3).
#include <algorithm>

#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "wire/grh.h"

namespace verbena::engine {

namespace {

// What programs read the packet type from: bit 3 UDP, bits 2:0 2 = IPv4, 1 = IPv6.
constexpr uint8_t kServiceLevelIpv4 = 0xa;
constexpr uint8_t kServiceLevelIpv6 = 0x9;

}  // namespace

TransmitState QueuePair::transmit_datagrams(Instant now, PacketSink& sink, uint32_t& budget) {
  while (state() == QpState::kRts && !send_queue_.empty()) {
    if (budget == 0) return TransmitState::kMore;
    SendWork& work = send_queue_.at(send_queue_.head());
    bool blocked = false;
    if (!send_datagram(now, work, sink, blocked))
      return blocked ? TransmitState::kBlocked : TransmitState::kIdle;
    --budget;
  }
  return TransmitState::kIdle;
}

bool QueuePair::send_datagram(Instant now, SendWork& work, PacketSink& sink, bool& blocked) {
  TxPacket packet;
  uint32_t length = work.length;
  bool oversize = length > init_.port_mtu;
  std::string why;
  if (!requester_.gather(work, 0, std::min(length, init_.port_mtu), packet, why)) {
    explain(fmt::format("wr_id {:#x} fails with LOC_PROT_ERR: {}", work.wr_id, why));
    requester_.fail_head(now, WcStatus::kLocProtErr);
    return false;
  }
  packet.route = &work.target.datagram.route;
  packet.path = Path::kAny;
  packet.source_qpn = qpn_;
  packet.header.opcode = work.opcode == WrOpcode::kSendWithImm ? wire::Opcode::kUdSendOnlyImm
                                                               : wire::Opcode::kUdSendOnly;
  packet.header.immediate_be = work.opcode == WrOpcode::kSendWithImm ? work.imm_or_rkey : 0;
  packet.header.solicited = (work.flags & kSolicited) != 0;
  packet.header.dest_qpn = work.target.datagram.qpn;
  packet.header.psn = datagram_psn_;
  packet.header.pad_count = static_cast<uint8_t>(-length & 3);
  // A Q_Key with bit 31 stands for the queue pair's own (IBA 10.2.5).
  packet.header.deth = {
      work.target.datagram.qkey & kPrivilegedQkey ? attributes_.qkey : work.target.datagram.qkey,
      qpn_};
  if (oversize) {  // C10-93.1.1: completes, and nothing is sent
    explain(
        fmt::format("wr_id {:#x}: a datagram of {} bytes is above the port's MTU of {} and was"
                    " not sent",
                    work.wr_id, length, init_.port_mtu));
  } else {
    if (!sink.send(packet)) {
      blocked = true;
      return false;
    }
    datagram_psn_ += 1;
    ++counters_.packets_sent;
    counters_.bytes_sent += length;
    ++device_.counters().port_xmit_packets;
    device_.counters().port_xmit_data += length;
  }
  complete_send(now, work, WcStatus::kSuccess);
  send_queue_.pop();
  return true;
}

// Whether a datagram that takes `needed` bytes is for this queue pair and a receive work request,
// now the taken one, has room for it.
inline bool QueuePair::admit_datagram(const RxPacket& packet, uint64_t needed) {
  const wire::Packet& header = packet.header;
  if (header.deth.qkey != attributes_.qkey) {
    ++device_.counters().qkey_viol_cntr;
    if (explaining())
      explain(fmt::format(
          "datagram from QP {:#08x} ({}) dropped: its Q_Key {:#x} is not this queue pair's"
          " {:#x}",
          header.deth.source_qpn, address_text(packet.source), header.deth.qkey, attributes_.qkey));
    return false;
  }
  if (!take_receive(init_.srq)) {
    ++device_.counters().rx_no_receive;
    if (explaining())
      explain(fmt::format("datagram from QP {:#08x} ({}) dropped: no receive work request",
                          header.deth.source_qpn, address_text(packet.source)));
    return false;
  }
  if (needed > taken_.length) {  // the work request stays for the next datagram
    ++device_.counters().resp_local_length_error;
    if (explaining())
      explain(fmt::format(
          "datagram from QP {:#08x} ({}) dropped: it needs {} bytes (40 for the GRH area),"
          " receive wr_id {:#x} has {}",
          header.deth.source_qpn, address_text(packet.source), needed, taken_.wr_id,
          taken_.length));
    return false;
  }
  return true;
}

void QueuePair::receive_datagram(Instant now, const RxPacket& packet) {
  const wire::Packet& header = packet.header;
  uint64_t needed = uint64_t{packet.payload.length} + wire::kGrhBytes;
  if (!admit_datagram(packet, needed)) return;
  uint8_t area[wire::kGrhBytes];
  auto udp_length =
      static_cast<uint16_t>(wire::opcode_info(header.opcode).header_length + packet.payload.length +
                            header.pad_count + wire::kIcrcBytes);
  wire::fill_grh_area(area, packet.source.bytes, packet.destination.bytes, packet.traffic_class,
                      packet.hop_limit, udp_length);
  memory::Segment segment{area, wire::kGrhBytes};
  Scattered placed = scatter({{&segment, 1}, wire::kGrhBytes, nullptr}, 0);
  if (placed.error == memory::KeyError::kNone) placed = scatter(packet.payload, wire::kGrhBytes);
  if (placed.lost) {
    ++device_.counters().rx_payload_lost;
    return;
  }
  WorkCompletion completion;
  completion.opcode = WcOpcode::kRecv;
  if (placed.error != memory::KeyError::kNone) {
    explain(fmt::format("receive wr_id {:#x} cannot be written: {}", taken_.wr_id,
                        memory::describe(placed.error)));
    completion.status = WcStatus::kLocProtErr;
    complete_receive(now, completion, false);
    enter_error(now, "a receive work request could not be written");
    return;
  }
  completion.byte_len = static_cast<uint32_t>(needed);
  completion.source_qp = header.deth.source_qpn;
  completion.flags = kWcGrh;
  bool ipv4 = packet.source.is_ipv4();
  completion.service_level = ipv4 ? kServiceLevelIpv4 : kServiceLevelIpv6;
  if (wire::opcode_info(header.opcode).immediate) {
    completion.flags |= kWcWithImm;
    completion.imm_or_rkey = header.immediate_be;
  }
  complete_receive(now, completion, header.solicited);
}

}  // namespace verbena::engine
