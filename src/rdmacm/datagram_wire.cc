// Fields and preambles of datagram rsockets, between bytes and meaning.
#include "rdmacm/datagram_wire.h"

#include <string.h>

namespace verbena::rdmacm {
namespace {

template <typename T>
std::optional<T> front(std::span<const uint8_t> bytes) {
  T out;
  if (bytes.size() < sizeof out) return std::nullopt;
  memcpy(&out, bytes.data(), sizeof out);
  return out;
}

template <typename Address>
Address as(const sockaddr_storage& storage) {
  Address out;
  memcpy(&out, &storage, sizeof out);
  return out;
}

}  // namespace

uint32_t emit_source(const sockaddr_storage& sender, uint8_t* to) {
  if (sender.ss_family == AF_INET) {
    const auto in = as<sockaddr_in>(sender);
    Source4 field;
    field.port = ntohs(in.sin_port);
    memcpy(field.address, &in.sin_addr, sizeof field.address);
    memcpy(to, &field, sizeof field);
    return sizeof field;
  }
  const auto in6 = as<sockaddr_in6>(sender);
  Source6 field;
  field.port = ntohs(in6.sin6_port);
  field.flow_info = ntohl(in6.sin6_flowinfo);
  memcpy(field.address, &in6.sin6_addr, sizeof field.address);
  memcpy(to, &field, sizeof field);
  return sizeof field;
}

std::optional<SourceField> parse_source(std::span<const uint8_t> message) {
  SourceField out;
  const auto four = front<Source4>(message);
  if (four && four->version == Source4::kVersion && four->length == sizeof(Source4)) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(four->port);
    memcpy(&in.sin_addr, four->address, sizeof four->address);
    memcpy(&out.sender, &in, sizeof in);
    out.length = sizeof *four;
    return out;
  }
  const auto six = front<Source6>(message);
  if (!six || six->version != Source6::kVersion || six->length != sizeof(Source6))
    return std::nullopt;
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(six->port);
  in6.sin6_flowinfo = htonl(six->flow_info);
  memcpy(&in6.sin6_addr, six->address, sizeof six->address);
  memcpy(&out.sender, &in6, sizeof in6);
  out.length = sizeof *six;
  return out;
}

Preamble preamble_of(Preamble::Op op, uint32_t qpn, const sockaddr_storage& own) {
  Preamble out;
  out.op = op;
  out.qpn = qpn & 0xffffff;
  if (own.ss_family == AF_INET) {
    const auto in = as<sockaddr_in>(own);
    memcpy(out.address, &in.sin_addr, sizeof in.sin_addr);
    return out;
  }
  const auto in6 = as<sockaddr_in6>(own);
  out.version = Source6::kVersion;
  out.length = Preamble::kBytes6;
  memcpy(out.address, &in6.sin6_addr, sizeof in6.sin6_addr);
  return out;
}

std::optional<Preamble> parse_preamble(std::span<const uint8_t> datagram) {
  if (datagram.size() < Preamble::kBytes4) return std::nullopt;
  Preamble out;
  memcpy(static_cast<void*>(&out), datagram.data(), Preamble::kBytes4);
  const bool four = out.version == Source4::kVersion;
  if (out.tag != Preamble::kTag || (!four && out.version != Source6::kVersion)) return std::nullopt;
  const uint32_t length = four ? Preamble::kBytes4 : Preamble::kBytes6;
  if (out.length != length || datagram.size() < length) return std::nullopt;
  memcpy(static_cast<void*>(&out), datagram.data(), length);
  out.qpn = out.qpn & 0xffffff;
  return out;
}

}  // namespace verbena::rdmacm
