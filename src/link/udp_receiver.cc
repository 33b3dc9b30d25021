// The IPv4 identification is covered by the ICRC and invisible to a UDP socket: 0 is tried first,
// then the one value that would make the ICRC right (wire::IdSolver).
#include "link/udp_receiver.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <cerrno>
#include <cstring>

#include "base/prefetch.h"
#include "link/slot.h"

namespace verbena::link {
namespace {

constexpr size_t kMinPacketBytes = wire::kBthBytes + wire::kIcrcBytes;

engine::Gid gid_of(const in_addr& address) {
  return engine::Gid::from_ipv4(reinterpret_cast<const uint8_t*>(&address));
}

engine::Gid gid_of(const in6_addr& address) {
  engine::Gid gid;
  std::memcpy(gid.bytes.data(), &address, 16);
  return gid;
}

template <typename T>
T control_value(const cmsghdr* entry) {
  T value{};
  size_t length = entry->cmsg_len - CMSG_LEN(0);
  std::memcpy(&value, CMSG_DATA(entry), length < sizeof(T) ? length : sizeof(T));
  return value;
}

}  // namespace

UdpReceiver::UdpReceiver(int udp4, int udp6, uint8_t slot, uint16_t port)
    : slot_(slot),
      port_(port),
      buffers_(std::make_unique_for_overwrite<uint8_t[]>(kBurst * kBufferBytes)) {
  sources_[0] = {udp4, true, 0};
  sources_[1] = {udp6, false, 0};
}

size_t UdpReceiver::receive(Visitor visit, Forward forward, bool thorough) {
  size_t total = 0;
  for (Source& source : sources_) {
    if (source.fd < 0) continue;
    bool idle = source.empty_calls > kIdleCalls;
    if (!thorough && idle && ++source.empty_calls % kIdleStride != 0) continue;
    size_t n = receive_from(source, visit, forward);
    source.empty_calls = n ? 0 : source.empty_calls + (idle ? 0 : 1);
    total += n;
  }
  return total;
}

size_t UdpReceiver::receive_from(Source& source, Visitor& visit, Forward& forward) {
  for (size_t i = 0; i < kBurst; ++i) {
    pieces_[i] = {buffers_.get() + i * kBufferBytes, kBufferBytes};
    msghdr& message = messages_[i].msg_hdr;
    message.msg_name = &addresses_[i];
    message.msg_namelen = sizeof(addresses_[i]);
    message.msg_iov = &pieces_[i];
    message.msg_iovlen = 1;
    message.msg_control = controls_[i].bytes;
    message.msg_controllen = kControlBytes;
    message.msg_flags = 0;
  }
  int n = ::recvmmsg(source.fd, messages_.data(), kBurst, MSG_DONTWAIT, nullptr);
  if (n <= 0) {
    if (n < 0 && errno != EAGAIN && errno != EINTR) counters_.last_error = errno;
    return 0;
  }
  for (int i = 0; i < n; ++i) {
    const mmsghdr& message = messages_[static_cast<size_t>(i)];
    ++counters_.datagrams;
    Datagram datagram = describe(message.msg_hdr, source.ipv4);
    if ((message.msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || !datagram.has_destination) {
      ++counters_.truncated;
      continue;
    }
    std::span<uint8_t> bytes(buffers_.get() + static_cast<size_t>(i) * kBufferBytes,
                             message.msg_len);
    on_datagram(bytes, datagram, source.ipv4, visit, forward);
  }
  return static_cast<size_t>(n);
}

UdpReceiver::Datagram UdpReceiver::describe(const msghdr& message, bool ipv4) const {
  Datagram out;
  if (ipv4) {
    const sockaddr_in* from = static_cast<const sockaddr_in*>(message.msg_name);
    out.source = gid_of(from->sin_addr);
    out.source_port = ntohs(from->sin_port);
  } else {
    const sockaddr_in6* from = static_cast<const sockaddr_in6*>(message.msg_name);
    out.source = gid_of(from->sin6_addr);
    out.source_port = ntohs(from->sin6_port);
  }
  msghdr& writable = const_cast<msghdr&>(message);  // CMSG_NXTHDR's signature
  for (cmsghdr* c = CMSG_FIRSTHDR(&writable); c; c = CMSG_NXTHDR(&writable, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      out.destination = gid_of(control_value<in_pktinfo>(c).ipi_addr);
      out.has_destination = true;
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      out.traffic_class = control_value<uint8_t>(c);
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) {
      out.hop_limit = static_cast<uint8_t>(control_value<int>(c));
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      out.destination = gid_of(control_value<in6_pktinfo>(c).ipi6_addr);
      out.has_destination = true;
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      out.traffic_class = static_cast<uint8_t>(control_value<int>(c));
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT) {
      out.hop_limit = static_cast<uint8_t>(control_value<int>(c));
    } else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      out.segment_bytes = static_cast<uint32_t>(control_value<int>(c));
    }
  }
  return out;
}

void UdpReceiver::on_datagram(std::span<uint8_t> bytes, Datagram& datagram, bool ipv4,
                              Visitor& visit, Forward& forward) {
  size_t step = datagram.segment_bytes ? datagram.segment_bytes : bytes.size();
  if (bytes.empty()) ++counters_.parse_errors[static_cast<size_t>(wire::ParseError::kTooShort)];
  for (size_t at = 0; at < bytes.size(); at += step) {
    prefetch_to_read(bytes.data() + at + step, step);
    on_packet(bytes.subspan(at, std::min(step, bytes.size() - at)), datagram, ipv4, visit, forward);
  }
}

void UdpReceiver::on_packet(std::span<uint8_t> bytes, Datagram& datagram, bool ipv4, Visitor& visit,
                            Forward& forward) {
  if (bytes.size() < kMinPacketBytes) {
    ++counters_.parse_errors[static_cast<size_t>(wire::ParseError::kTooShort)];
    return;
  }
  if (!icrc_is_right(bytes, datagram, ipv4)) {
    ++counters_.icrc_errors;
    return;
  }
  wire::Parsed parsed = wire::parse(bytes);
  if (parsed.error != wire::ParseError::kNone) {
    ++counters_.parse_errors[static_cast<size_t>(parsed.error)];
    return;
  }
  memory::Segment segment{const_cast<uint8_t*>(parsed.payload.data()), parsed.payload.size()};
  engine::RxPacket packet;
  packet.header = parsed.packet;
  packet.payload.segments = {&segment, 1};
  packet.payload.length = static_cast<uint32_t>(parsed.payload.size());
  packet.source = datagram.source;
  packet.destination = datagram.destination;
  packet.traffic_class = datagram.traffic_class;
  packet.hop_limit = datagram.hop_limit;
  packet.multicast = datagram.destination.is_multicast();
  uint8_t slot = slot_of(packet.header.dest_qpn);
  if (slot != slot_ && !packet.multicast) {
    bool taken = is_process_slot(slot) && forward(slot, packet);
    ++(taken ? counters_.strays_forwarded : counters_.strays_dropped);
    return;
  }
  ++counters_.packets;
  counters_.bytes += bytes.size();
  visit(packet);
}

bool UdpReceiver::icrc_is_right(std::span<const uint8_t> bytes, Datagram& datagram, bool ipv4) {
  if (ipv4) {
    if (datagram.begun_for != bytes.size()) {
      datagram.begun = begin_ipv4(datagram, bytes.size(), true);
      datagram.begun_for = bytes.size();
    }
    return ipv4_icrc_is_right(bytes, datagram.begun) ||
           ipv4_icrc_is_right(bytes, begin_ipv4(datagram, bytes.size(), false));
  }
  uint32_t begun = wire::icrc_begin_ipv6(
      {.source = std::span<const uint8_t, 16>(datagram.source.bytes),
       .destination = std::span<const uint8_t, 16>(datagram.destination.bytes),
       .payload_length = static_cast<uint16_t>(bytes.size() + wire::kUdpHeaderBytes),
       .source_port = datagram.source_port,
       .destination_port = port_});
  uint32_t right = wire::icrc_of_payload(begun, bytes);
  uint32_t carried = wire::icrc_load(bytes.data() + bytes.size() - wire::kIcrcBytes);
  if (carried == right) return true;
  const wire::OpcodeInfo& info = wire::opcode_info(bytes[0]);
  return info.operation == wire::Operation::kFlush && info.header_length <= bytes.size() &&
         carried == wire::icrc_flush_of_linux_6_12(right, bytes.first(info.header_length));
}

uint32_t UdpReceiver::begin_ipv4(const Datagram& datagram, size_t bytes, bool dont_fragment) const {
  return wire::icrc_begin_ipv4(
      {.source = std::span<const uint8_t, 4>(&datagram.source.bytes[12], 4),
       .destination = std::span<const uint8_t, 4>(&datagram.destination.bytes[12], 4),
       .total_length = static_cast<uint16_t>(bytes + wire::kIpv4UdpHeaderBytes),
       .dont_fragment = dont_fragment,
       .source_port = datagram.source_port,
       .destination_port = port_});
}

bool UdpReceiver::ipv4_icrc_is_right(std::span<const uint8_t> bytes, uint32_t begun) {
  const uint32_t right = wire::icrc_of_payload(begun, bytes);
  const uint32_t carried = wire::icrc_load(bytes.data() + bytes.size() - wire::kIcrcBytes);
  if (carried == right) return true;
  const size_t after_id =
      wire::icrc_bytes_after_id(static_cast<uint16_t>(bytes.size() + wire::kIpv4UdpHeaderBytes));
  if (solve(carried ^ right, after_id)) return true;
  const wire::OpcodeInfo& info = wire::opcode_info(bytes[0]);
  if (info.operation != wire::Operation::kFlush || info.header_length > bytes.size()) return false;
  uint32_t other = wire::icrc_flush_of_linux_6_12(right, bytes.first(info.header_length));
  return carried == other || solve(carried ^ other, after_id + info.header_length);
}

bool UdpReceiver::solve(uint32_t difference, size_t bytes_after_id) {
  if (!solver_.solve(difference, bytes_after_id)) return false;
  ++counters_.solved_ids;
  return true;
}

}  // namespace verbena::link
