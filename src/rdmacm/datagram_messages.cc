// Datagrams on their two roads, UD and UDP, out and in.
#include <errno.h>
#include <string.h>

#include <algorithm>

#include "rdmacm/datagram.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

constexpr uint32_t kGrhBytes = 40;  // before each UD message (IBA 11.4.1.2)

// A connected socket hears its peer only, one that is shut nobody.
bool wanted(const Datagram& socket, const sockaddr_storage& from) {
  return !socket.read_shut && (!socket.peer || same_peer(*socket.peer, from));
}

void take_data(Datagram& socket, const sockaddr_storage& from, std::span<const uint8_t> data) {
  if (!wanted(socket, from) || socket.copied >= kDatagramReceives) return;
  Arrival arrival;
  arrival.from = from;
  arrival.bytes.assign(data.begin(), data.end());
  arrival.length = static_cast<uint32_t>(data.size());
  socket.arrived.push_back(std::move(arrival));
  ++socket.copied;
}

}  // namespace

void post_buffer(Endpoint& endpoint, uint32_t buffer) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(endpoint.received.get() + buffer * kBufferBytes),
              kGrhBytes + kMaxDatagramBytes, endpoint.received_mr->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = kDatagramReceiveId + buffer;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_post_recv(endpoint.id->qp, &wr, &bad);  // never refused: there are as many as buffers
}

int send_message(const Path& path, const msghdr& message) {
  Endpoint& endpoint = *path.endpoint;
  const uint32_t slot = endpoint.free_slots.back();
  uint8_t* const start = endpoint.slots.get() + size_t{slot} * kMaxDatagramBytes;
  uint8_t* to = start + emit_source(endpoint.own, start);
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& part = message.msg_iov[i];
    if (part.iov_len > 0) memcpy(to, part.iov_base, part.iov_len);
    to += part.iov_len;
  }
  ibv_sge sge{reinterpret_cast<uintptr_t>(start), static_cast<uint32_t>(to - start),
              endpoint.slots_mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud.ah = path.handle;
  wr.wr.ud.remote_qpn = path.qpn;
  wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
  if (int error = ibv_post_send(endpoint.id->qp, &wr, &bad); error != 0) return error;
  endpoint.free_slots.pop_back();
  return 0;
}

ssize_t send_over_udp(Datagram& socket, const Path& path, const sockaddr_storage& peer,
                      Preamble::Op op, const msghdr* message) {
  const Endpoint& endpoint = *path.endpoint;
  Preamble preamble = preamble_of(op, endpoint.id->qp->qp_num, endpoint.own);
  std::vector<iovec> parts{{&preamble, preamble.length}};
  if (message != nullptr)
    parts.insert(parts.end(), message->msg_iov, message->msg_iov + message->msg_iovlen);
  sockaddr_storage to = peer;
  msghdr out{};
  out.msg_name = &to;
  out.msg_namelen = length_of(reinterpret_cast<sockaddr*>(&to));
  out.msg_iov = parts.data();
  out.msg_iovlen = parts.size();
  const ssize_t done = ::sendmsg(socket.udp, &out, MSG_DONTWAIT | MSG_NOSIGNAL);
  return done < 0 ? done : done - preamble.length;
}

void take_message(Datagram& socket, Endpoint& endpoint, const ibv_wc& wc) {
  if (wc.wr_id < kDatagramReceiveId) {  // UD: gone or not, nobody will tell
    endpoint.free_slots.push_back(static_cast<uint32_t>(wc.wr_id));
    return;
  }
  if (wc.status != IBV_WC_SUCCESS) return;
  const auto buffer = static_cast<uint32_t>(wc.wr_id - kDatagramReceiveId);
  const uint8_t* at = endpoint.received.get() + buffer * kBufferBytes + kGrhBytes;
  const uint32_t length = std::max(wc.byte_len, kGrhBytes) - kGrhBytes;
  std::optional<SourceField> source = parse_source({at, length});
  if (!source || !wanted(socket, source->sender)) return post_buffer(endpoint, buffer);
  Arrival arrival;
  arrival.from = as_seen(socket, source->sender);
  const auto gid = gid_of(reinterpret_cast<const sockaddr*>(&arrival.from));
  if (arrival.from.ss_family == AF_INET6 && gid && gid->is_link_local())
    reinterpret_cast<sockaddr_in6&>(arrival.from).sin6_scope_id = of(endpoint.id)->scope;
  arrival.endpoint = &endpoint;
  arrival.buffer = buffer;
  arrival.offset = kGrhBytes + source->length;
  arrival.length = length - source->length;
  socket.arrived.push_back(std::move(arrival));
}

bool take_udp(Datagram& socket) {
  uint8_t bytes[kMaxDatagramBytes];
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  const ssize_t got = ::recvfrom(socket.udp, bytes, sizeof bytes, MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &length);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    socket.error = errno;  // ECONNREFUSED: what a connected peer's host said
    return true;
  }
  const std::span<const uint8_t> datagram(bytes, static_cast<size_t>(got));
  const std::optional<Preamble> preamble = parse_preamble(datagram);
  if (!preamble) return true;
  if (Path* path = path_to(socket, from)) {
    learn(socket, *path, from, preamble->qpn);
    if (preamble->op == Preamble::kData)
      send_over_udp(socket, *path, from, Preamble::kAnswer, nullptr);
  }
  if (preamble->op == Preamble::kData) take_data(socket, from, datagram.subspan(preamble->length));
  return true;
}

const uint8_t* bytes_of(const Arrival& arrival) {
  if (arrival.endpoint == nullptr) return arrival.bytes.data();
  return arrival.endpoint->received.get() + arrival.buffer * kBufferBytes + arrival.offset;
}

void forget(Datagram& socket) {
  const Arrival& first = socket.arrived.front();
  if (first.endpoint != nullptr)
    post_buffer(*first.endpoint, first.buffer);
  else
    --socket.copied;
  socket.arrived.pop_front();
}

}  // namespace verbena::rdmacm
