// Unconnected sockets with IP_MTU_DISCOVER=DO: the kernel then sends IPv4 identification 0 (0, 1,
// 2, ... in the segments of a GSO message), which is what makes the ICRC computable here.
#include "link/udp_sender.h"

#include <netinet/udp.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/plain_socket.h"
#include "base/prefetch.h"
#include "link/slot.h"
#include "memory/fault_guard.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbena::link {
namespace {

constexpr uint16_t kFirstSourcePort = 0xc000;  // RoCE v2 sources: spec crib 14
constexpr int kSendBufferBytes = 4 << 20;
constexpr size_t kMaxSegments = 16;  // payload pieces passed on uncopied

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof(value));
}

template <typename T>
void add_control(uint8_t* control, size_t& used, int level, int type, const T& value) {
  cmsghdr* entry = reinterpret_cast<cmsghdr*>(control + used);
  entry->cmsg_level = level;
  entry->cmsg_type = type;
  entry->cmsg_len = CMSG_LEN(sizeof(value));
  std::memcpy(CMSG_DATA(entry), &value, sizeof(value));
  used += CMSG_SPACE(sizeof(value));
}

}  // namespace

Result<UdpSender> UdpSender::open(uint16_t port, bool ipv6, bool segmentation,
                                  InterfaceOf interface_of) {
  UdpSender out;
  out.port_ = port;
  out.segmentation_ = segmentation;
  out.interface_of_ = std::move(interface_of);
  Result<void> opened = out.open_socket(AF_INET);
  if (opened && ipv6) opened = out.open_socket(AF_INET6);
  if (!opened) return tl::unexpected<Error>(opened.error());
  out.packets_.reserve(kMaxPackets);
  out.batches_.reserve(kMaxBatches);
  out.pieces_.reserve(kMaxPieces);
  out.messages_.resize(kMaxBatches);
  out.copies_ = std::make_unique_for_overwrite<uint8_t[]>(kCopyBytes);
  return out;
}

Result<void> UdpSender::open_socket(int family) {
  Fd fd(plain_socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return fail(errno, std::string("cannot open a UDP socket: ") + std::strerror(errno));
  }
  set(fd.get(), SOL_SOCKET, SO_SNDBUF, kSendBufferBytes);
  set(fd.get(), SOL_SOCKET, SO_RCVBUF, 1);  // nobody sends to this port
  if (family == AF_INET) {
    set(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  } else {
    set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    set(fd.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    set(fd.get(), IPPROTO_IPV6, IPV6_DONTFRAG, 1);
  }
  constexpr int kTries = 128;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    uint16_t port = 0;
    if (::getrandom(&port, sizeof(port), 0) != sizeof(port)) port = static_cast<uint16_t>(attempt);
    port |= kFirstSourcePort;
    Address address{};
    socklen_t length = family == AF_INET ? sizeof(address.four) : sizeof(address.six);
    address.four.sin_family = static_cast<sa_family_t>(family);
    address.four.sin_port = htons(port);  // at the same offset in both
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0) {
      (family == AF_INET ? source_port4_ : source_port6_) = port;
      (family == AF_INET ? socket4_ : socket6_) = std::move(fd);
      return {};
    }
    if (errno != EADDRINUSE) {
      return fail(errno, std::string("cannot bind a UDP source port: ") + std::strerror(errno));
    }
  }
  return fail(EADDRINUSE, "no free UDP source port in 0xC000..0xFFFF");
}

bool UdpSender::send(const engine::TxPacket& packet) {
  if (blocked_ && !flush()) return false;
  const uint32_t header_bytes = wire::opcode_info(packet.header.opcode).header_length;
  const uint32_t bytes =
      header_bytes + packet.payload.length + packet.header.pad_count + uint32_t{wire::kIcrcBytes};
  const engine::AddressVector* route = packet.route;
  if (!route || route->source.is_unspecified() || route->destination.is_unspecified() ||
      route->source.is_ipv4() != route->destination.is_ipv4() || header_bytes == 0 ||
      bytes > kMaxBatchBytes || (!route->source.is_ipv4() && !socket6_.valid())) {
    count_drop(EDESTADDRREQ, 1);
    return true;
  }
  const bool full = packets_.size() == kMaxPackets || batches_.size() == kMaxBatches ||
                    pieces_.size() + kMaxSegments + 2 > kMaxPieces ||
                    copied_ + bytes + 64 > kCopyBytes;
  const bool ripe = staged_bytes_ >= kRipeBytes && batches_.back().bytes + bytes > kMaxBatchBytes;
  if ((full || ripe) && !flush()) return false;
  stage(batch_for(packet, bytes), packet, bytes);
  return true;
}

bool UdpSender::fits(const Batch& batch, const engine::TxPacket& packet, uint32_t bytes,
                     uint32_t interface_index) const {
  const engine::AddressVector& route = *packet.route;
  return segmentation_ && batch.open && bytes <= batch.segment_bytes &&
         batch.packets < kMaxBatchPackets && batch.bytes + bytes <= kMaxBatchBytes &&
         pieces_.size() - packets_[batch.first_packet].first_piece + kMaxSegments + 2 <=
             kMaxBatchPieces &&
         batch.slot == slot_of(packet.header.dest_qpn) && batch.source == route.source &&
         batch.destination == route.destination && batch.traffic_class == route.traffic_class &&
         batch.hop_limit == route.ttl() && batch.interface_index == interface_index;
}

UdpSender::Batch& UdpSender::batch_for(const engine::TxPacket& packet, uint32_t bytes) {
  const engine::AddressVector& route = *packet.route;
  uint32_t interface_index = 0;
  bool scoped = route.destination.is_link_local() ||
                (!route.destination.is_ipv4() && route.destination.is_multicast());
  if (scoped && interface_of_) interface_index = interface_of_(route);
  if (batches_.size() > next_batch_) {
    Batch& last = batches_.back();
    if (fits(last, packet, bytes, interface_index)) return last;
  }
  Batch& batch = batches_.emplace_back();
  batch.segment_bytes = bytes;
  batch.first_packet = static_cast<uint32_t>(packets_.size());
  begin_batch(batch, packet, interface_index);
  return batch;
}

void UdpSender::begin_batch(Batch& batch, const engine::TxPacket& packet,
                            uint32_t interface_index) {
  const engine::AddressVector& route = *packet.route;
  batch.source = route.source;
  batch.destination = route.destination;
  batch.interface_index = interface_index;
  batch.traffic_class = route.traffic_class;
  batch.hop_limit = route.ttl();
  batch.slot = slot_of(packet.header.dest_qpn);
  batch.ipv4 = route.source.is_ipv4();
  const int traffic_class = batch.traffic_class;
  const int hop_limit = batch.hop_limit;
  std::memset(batch.control, 0, sizeof(batch.control));
  if (batch.ipv4) {
    batch.address.four.sin_family = AF_INET;
    batch.address.four.sin_port = htons(port_);
    std::memcpy(&batch.address.four.sin_addr, &route.destination.bytes[12], 4);
    in_pktinfo from{};
    std::memcpy(&from.ipi_spec_dst, &route.source.bytes[12], 4);
    add_control(batch.control, batch.control_bytes, IPPROTO_IP, IP_PKTINFO, from);
    add_control(batch.control, batch.control_bytes, IPPROTO_IP, IP_TOS, traffic_class);
    add_control(batch.control, batch.control_bytes, IPPROTO_IP, IP_TTL, hop_limit);
    return;
  }
  batch.address.six.sin6_family = AF_INET6;
  batch.address.six.sin6_port = htons(port_);
  batch.address.six.sin6_scope_id = interface_index;
  std::memcpy(&batch.address.six.sin6_addr, route.destination.bytes.data(), 16);
  in6_pktinfo from{};
  from.ipi6_ifindex = interface_index;
  std::memcpy(&from.ipi6_addr, route.source.bytes.data(), 16);
  add_control(batch.control, batch.control_bytes, IPPROTO_IPV6, IPV6_PKTINFO, from);
  add_control(batch.control, batch.control_bytes, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
  add_control(batch.control, batch.control_bytes, IPPROTO_IPV6, IPV6_HOPLIMIT, hop_limit);
}

uint8_t* UdpSender::take(size_t bytes) {
  uint8_t* out = copies_.get() + copied_;
  copied_ += (bytes + 7) & ~size_t{7};
  return out;
}

// Header, payload, pad and ICRC in as few pieces as lifetime allows: bytes that may change after
// send() returns are copied, the others are pointed to.
void UdpSender::stage(Batch& batch, const engine::TxPacket& tx, uint32_t bytes) {
  Packet packet;
  packet.first_piece = static_cast<uint32_t>(pieces_.size());
  packet.bytes = bytes;
  const memory::Payload& payload = tx.payload;
  const size_t tail_bytes = tx.header.pad_count + wire::kIcrcBytes;
  const bool copy = !tx.by_reference || payload.foreign || payload.length <= kCopyBelow ||
                    payload.segments.size() > kMaxSegments;
  uint8_t* head = take(copy ? bytes : bytes - payload.length + 8);
  const size_t header_bytes = wire::emit_headers(tx.header, head);
  uint8_t* tail;
  if (copy) {
    if (!payload.copy_out(0, head + header_bytes, payload.length)) {
      // Gone since the engine looked: the packet travels as one that was damaged on the way.
      std::memset(head + header_bytes, 0, payload.length);
      spoil_next_ = true;
    }
    tail = head + header_bytes + payload.length;
    pieces_.push_back({head, bytes});
  } else {
    pieces_.push_back({head, header_bytes});
    size_t left = payload.length;
    for (const memory::Segment& segment : payload.segments) {
      size_t n = std::min(left, segment.length);
      if (n) pieces_.push_back({segment.address, n});
      left -= n;
    }
    tail = head + header_bytes;
    pieces_.push_back({tail, tail_bytes});
    const memory::Segment& last = payload.segments.back();
    prefetch_to_read(last.address + last.length, payload.length);  // most likely the next packet
  }
  std::memset(tail, 0, tail_bytes);
  packet.icrc = tail + tx.header.pad_count;
  packet.pieces = static_cast<uint32_t>(pieces_.size()) - packet.first_piece;
  uint32_t icrc = icrc_of(batch, packet, static_cast<uint16_t>(batch.packets));
  if (spoil_next_) icrc ^= 0x5a5a5a5a;
  spoil_next_ = false;
  wire::icrc_store(packet.icrc, icrc);
  packets_.push_back(packet);
  ++batch.packets;
  batch.bytes += bytes;
  staged_bytes_ += bytes;
  batch.open = bytes == batch.segment_bytes;
}

uint32_t UdpSender::begin_icrc(const Batch& batch, uint32_t bytes, uint16_t identification) const {
  if (batch.ipv4) {
    std::span<const uint8_t, 4> source(&batch.source.bytes[12], 4);
    std::span<const uint8_t, 4> destination(&batch.destination.bytes[12], 4);
    return wire::icrc_begin_ipv4(
        {.source = source,
         .destination = destination,
         .total_length = static_cast<uint16_t>(bytes + wire::kIpv4UdpHeaderBytes),
         .identification = identification,
         .source_port = source_port(batch.ipv4),
         .destination_port = port_});
  }
  return wire::icrc_begin_ipv6(
      {.source = std::span<const uint8_t, 16>(batch.source.bytes),
       .destination = std::span<const uint8_t, 16>(batch.destination.bytes),
       .payload_length = static_cast<uint16_t>(bytes + wire::kUdpHeaderBytes),
       .source_port = source_port(batch.ipv4),
       .destination_port = port_});
}

// Walks the pieces: everything in front of the ICRC's own four bytes. A wrong value when the
// program has unmapped a payload since the engine looked; the kernel then refuses the message.
uint32_t UdpSender::icrc_of(const Batch& batch, const Packet& packet,
                            uint16_t identification) const {
  uint32_t crc = begin_icrc(batch, packet.bytes, identification);
  auto walk = [&] {
    size_t covered = packet.bytes - wire::kIcrcBytes;
    for (uint32_t i = 0; i < packet.pieces; ++i) {
      const iovec& piece = pieces_[packet.first_piece + i];
      std::span<const uint8_t> bytes(static_cast<const uint8_t*>(piece.iov_base),
                                     std::min(covered, piece.iov_len));
      covered -= bytes.size();
      if (i == 0) {
        crc = wire::icrc_bth(crc, bytes.first<wire::kBthBytes>());
        bytes = bytes.subspan(wire::kBthBytes);
      }
      crc = wire::icrc_update(crc, bytes);
    }
  };
  return memory::guarded(walk) ? crc : ~crc;
}

void UdpSender::fill_message(Batch& batch, msghdr& message) {
  message = msghdr{};
  message.msg_name = &batch.address;
  message.msg_namelen = batch.ipv4 ? sizeof(batch.address.four) : sizeof(batch.address.six);
  const Packet& first = packets_[batch.first_packet];
  const Packet& last = packets_[batch.first_packet + batch.packets - 1];
  message.msg_iov = &pieces_[first.first_piece];
  message.msg_iovlen = last.first_piece + last.pieces - first.first_piece;
  message.msg_control = batch.control;
  size_t control_bytes = batch.control_bytes;
  if (batch.packets > 1) {
    uint16_t segment = static_cast<uint16_t>(batch.segment_bytes);
    add_control(batch.control, control_bytes, IPPROTO_UDP, UDP_SEGMENT, segment);
  }
  message.msg_controllen = control_bytes;
}

// Sends batches first .. first+count-1, which share a socket. Returns how many went; fewer than
// all with errno of the next one only when it is the first of a call.
size_t UdpSender::send_run(size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    fill_message(batches_[first + i], messages_[i].msg_hdr);
  }
  int fd = batches_[first].ipv4 ? socket4_.get() : socket6_.get();
  ++counters_.calls;
  int sent =
      ::sendmmsg(fd, messages_.data(), static_cast<unsigned>(count), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent <= 0) return 0;
  for (int i = 0; i < sent; ++i) {
    const Batch& batch = batches_[first + static_cast<size_t>(i)];
    counters_.packets += batch.packets;
    counters_.bytes += batch.bytes;
    counters_.messages += 1;
    counters_.gso_batches += batch.packets > 1;
  }
  return static_cast<size_t>(sent);
}

bool UdpSender::flush() {
  blocked_ = false;
  while (next_batch_ < batches_.size()) {
    Batch& next = batches_[next_batch_];
    if (next.singly_because != 0) {
      if (!send_singly(next)) return block();
      ++next_batch_;
      continue;
    }
    size_t run = 1;
    while (next_batch_ + run < batches_.size() && batches_[next_batch_ + run].ipv4 == next.ipv4) {
      ++run;
    }
    size_t sent = send_run(next_batch_, run);
    next_batch_ += sent;
    if (sent == 0 && !on_error(batches_[next_batch_], errno)) return block();
  }
  reset();
  return true;
}

bool UdpSender::block() {
  ++counters_.blocked;
  blocked_ = true;
  return false;
}

// What to do about the first unsent batch. False: the socket is full, keep it.
bool UdpSender::on_error(Batch& batch, int error) {
  if (error == EINTR) return true;
  if (error == EAGAIN || error == ENOBUFS) return false;
  if (batch.packets > 1 && (error == EIO || error == EINVAL || error == EMSGSIZE)) {
    batch.singly_because = error;
    batch.open = false;
    return true;  // flush() sees to it
  }
  count_drop(error, batch.packets);
  ++next_batch_;
  return true;
}

// The kernel refused the segmented message: because it cannot segment on this route (checksums,
// IPsec), or because the packets do not fit. One by one tells which.
// False: the socket is full; what is left goes on from there.
bool UdpSender::send_singly(Batch& batch) {
  for (; batch.packets > 0; ++batch.first_packet, --batch.packets) {
    Packet& packet = packets_[batch.first_packet];
    wire::icrc_store(packet.icrc, icrc_of(batch, packet, 0));
    msghdr message{};
    message.msg_name = &batch.address;
    message.msg_namelen = batch.ipv4 ? sizeof(batch.address.four) : sizeof(batch.address.six);
    message.msg_iov = &pieces_[packet.first_piece];
    message.msg_iovlen = packet.pieces;
    message.msg_control = batch.control;
    message.msg_controllen = batch.control_bytes;
    int fd = batch.ipv4 ? socket4_.get() : socket6_.get();
    ssize_t sent;
    do {
      ++counters_.calls;
      sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
      if (errno == EAGAIN || errno == ENOBUFS) return false;
      count_drop(errno, 1);
      batch.lost_some = true;
      continue;
    }
    ++counters_.packets;
    ++counters_.messages;
    counters_.bytes += packet.bytes;
  }
  if (!batch.lost_some && batch.singly_because != EMSGSIZE) {
    segmentation_ = false;
    counters_.gso_refused = 1;
  }
  return true;
}

void UdpSender::count_drop(int error, uint64_t packets) {
  counters_.last_error = error;
  switch (error) {
    case EMSGSIZE:
      counters_.too_big += packets;
      return;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
      counters_.unreachable += packets;
      return;
    default:
      counters_.refused += packets;
      return;
  }
}

void UdpSender::let_go() {
  if (flush()) return;
  for (; next_batch_ < batches_.size(); ++next_batch_)
    count_drop(EAGAIN, batches_[next_batch_].packets);
  blocked_ = false;
  reset();
}

void UdpSender::reset() {
  packets_.clear();
  batches_.clear();
  pieces_.clear();
  next_batch_ = 0;
  copied_ = 0;
  staged_bytes_ = 0;
}

}  // namespace verbena::link
