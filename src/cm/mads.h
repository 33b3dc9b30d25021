// Whole MADs made of what the machine knows, and the numbers of IBA chapter 12 that it uses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "cm/manager.h"
#include "cm/reasons.h"
#include "wire/cm_mad.h"

namespace verbena::cm {

using Mad = std::array<uint8_t, kMadBytes>;

// What a REJ rejects, and an MRA acknowledges: bits 7:6.
inline constexpr uint8_t kOfReq = 0 << 6, kOfRep = 1 << 6, kOfNothing = 2 << 6;

inline constexpr size_t kReqUserBytes =
    sizeof(wire::CmReq::private_data) - sizeof(wire::CmIpHeader);
inline constexpr size_t kSidrUserBytes =
    sizeof(wire::CmSidrReq::private_data) - sizeof(wire::CmIpHeader);

template <typename Body>
Mad make_mad(wire::CmAttribute attribute, uint64_t transaction_id, const Body& body) {
  static_assert(sizeof(Body) == wire::kCmBodyBytes);
  wire::MadHeader header{};
  header.base_version = wire::MadHeader::kBaseVersion;
  header.management_class = wire::MadHeader::kClassCm;
  header.class_version = wire::MadHeader::kCmVersion;
  header.method = wire::MadHeader::kMethodSend;
  header.transaction_id = transaction_id;
  header.attribute = static_cast<uint16_t>(attribute);
  Mad mad;
  wire::store(wire::store(mad.data(), header), body);
  return mad;
}

// The body of a MAD whose size is_cm_mad() has checked.
template <typename Body>
Body body_of(std::span<const uint8_t> mad) {
  return wire::load<Body>(mad.data() + sizeof(wire::MadHeader));
}

wire::CmIpHeader make_ip_header(const ConnectRequest& request);
Mad make_req(const ConnectRequest& request, const Options& options, uint32_t local_id,
             uint64_t transaction_id);
Mad make_sidr_req(const ConnectRequest& request, uint32_t request_id, uint64_t transaction_id);
Mad make_rep(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id, uint64_t ca_guid,
             const QpParameters& qp, std::span<const uint8_t> private_data);
// `guid`: additional information of a time-out, whose receiver may know no comm id; 0: none.
Mad make_rej(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id, uint8_t message,
             uint16_t reason, std::span<const uint8_t> private_data = {}, uint64_t guid = 0);
Mad make_drep(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id);
Mad make_dreq(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id, uint32_t remote_qpn);
Mad make_rtu(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id);
Mad make_mra(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id, uint8_t message);
Mad make_sidr_rep(uint64_t transaction_id, uint32_t request_id, uint8_t status, uint64_t service,
                  const QpParameters& qp, std::span<const uint8_t> private_data);

// What an IP header says; false: not one of rdma_cm.
bool read_ip_header(const uint8_t* at, Incoming& incoming);
// The same, and whether a packet that came by `back` may speak of these addresses.
bool read_addresses(const uint8_t* at, const Route& back, Incoming& incoming);
// Fills what a REQ says of the peer, but for the listener. The reason to reject it, or 0.
uint16_t read_req(const wire::CmReq& req, const Route& back, Incoming& incoming);

// 4.096 us * 2^n with n held to low .. high, so that no peer can make a timer spin or last.
constexpr Duration code_time(uint8_t code, uint8_t low, uint8_t high) {
  return nanoseconds(4096) * (int64_t{1} << std::clamp(code, low, high));
}
// Time that a peer is given to answer: 1 ms, as Linux's shortest, to 275 s.
constexpr Duration response_time(uint8_t code) {
  return code_time(code, 8, 26);
}
// For which a refusal is repeated to the peer that repeats its request: until it has asked twice
// more, at most 17 s, so that nobody fills the table with refused requests for minutes.
constexpr Duration linger_time(uint8_t code) {
  return code_time(code, 8, 21) * 2;
}
// Twice a packet's life time, of a path with this ACK timeout; at most 17 s.
constexpr Duration timewait(uint8_t ack_timeout) {
  return code_time(ack_timeout, 0, 22);
}
// An MRA's service time; ours as Linux's.
inline constexpr uint8_t kMraServiceTimeout = 24;

}  // namespace verbena::cm
