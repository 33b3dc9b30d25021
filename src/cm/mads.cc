// Fields of outgoing MADs. Values that RoCE gives no meaning (LIDs, rate) are those Linux sends.
#include "cm/mads.h"

namespace verbena::cm {

using namespace wire;

namespace {

constexpr uint8_t kTargetAckDelay = 15;

void put_address(uint8_t (&to)[16], const engine::Gid& gid) {
  if (gid.is_ipv4()) {
    std::copy_n(gid.bytes.data() + 12, 4, to + 12);
  } else {
    std::copy_n(gid.bytes.data(), 16, to);
  }
}

engine::Gid take_address(const uint8_t (&from)[16], bool ipv4) {
  if (ipv4) return engine::Gid::from_ipv4(from + 12);
  engine::Gid gid;
  std::copy_n(from, 16, gid.bytes.data());
  return gid;
}

void copy_private(uint8_t* to, size_t room, std::span<const uint8_t> from) {
  std::copy_n(from.data(), std::min(room, from.size()), to);
}

uint8_t bits(unsigned value, unsigned mask, unsigned shift) {
  return static_cast<uint8_t>((value & mask) << shift);
}

}  // namespace

CmIpHeader make_ip_header(const ConnectRequest& request) {
  const auto named = [](const engine::Gid& address, const engine::Gid& of_route) {
    return address == engine::Gid{} ? of_route : address;
  };
  CmIpHeader ip{};
  ip.ip_version = request.route.destination.is_ipv4() ? 0x40 : 0x60;
  ip.source_port = request.source_port;
  put_address(ip.source, named(request.source_address, request.route.source));
  put_address(ip.destination, named(request.destination_address, request.route.destination));
  return ip;
}

Mad make_req(const ConnectRequest& request, const Options& options, uint32_t local_id,
             uint64_t transaction_id) {
  const QpParameters& qp = request.qp;
  const auto transport = static_cast<unsigned>(request.transport);
  CmReq req{};
  req.local_comm_id = local_id;
  req.service_id = service_id(request.space, request.destination_port);
  req.ca_guid = options.ca_guid;
  req.qkey = qp.qkey;
  req.qpn = qp.qpn;
  req.responder_resources = qp.responder_resources;
  req.initiator_depth = qp.initiator_depth;
  req.remote_timeout =
      bits(options.response_timeout, 31, 3) | bits(transport, 3, 1) | bits(qp.flow_control, 1, 0);
  req.starting_psn = qp.starting_psn;
  req.local_timeout = bits(options.response_timeout, 31, 3) | bits(qp.retry_count, 7, 0);
  req.pkey = request.pkey;
  req.mtu = bits(request.path_mtu, 15, 4) | bits(qp.rnr_retry_count, 7, 0);
  req.retries = bits(options.max_retries, 15, 4) | bits(qp.srq, 1, 3) |
                bits(request.transport == Transport::kXrc, 1, 0);
  req.primary.local_lid = req.primary.remote_lid = 0xffff;
  std::copy_n(request.route.source.bytes.data(), 16, req.primary.local_gid);
  std::copy_n(request.route.destination.bytes.data(), 16, req.primary.remote_gid);
  req.primary.flow_rate = request.route.flow_label << 12;
  req.primary.traffic_class = request.route.traffic_class;
  req.primary.hop_limit = request.route.hop_limit;
  req.primary.ack_timeout = bits(request.ack_timeout, 31, 3);
  uint8_t* data = store(req.private_data, make_ip_header(request));
  copy_private(data, kReqUserBytes, request.private_data);
  return make_mad(CmAttribute::kReq, transaction_id, req);
}

Mad make_sidr_req(const ConnectRequest& request, uint32_t request_id, uint64_t transaction_id) {
  CmSidrReq req{};
  req.request_id = request_id;
  req.pkey = request.pkey;
  req.service_id = service_id(request.space, request.destination_port);
  uint8_t* data = store(req.private_data, make_ip_header(request));
  copy_private(data, kSidrUserBytes, request.private_data);
  return make_mad(CmAttribute::kSidrReq, transaction_id, req);
}

Mad make_rep(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id, uint64_t ca_guid,
             const QpParameters& qp, std::span<const uint8_t> private_data) {
  CmRep rep{};
  rep.local_comm_id = local_id;
  rep.remote_comm_id = remote_id;
  rep.qkey = qp.qkey;
  rep.qpn = qp.qpn;
  rep.starting_psn = qp.starting_psn;
  rep.responder_resources = qp.responder_resources;
  rep.initiator_depth = qp.initiator_depth;
  rep.ack_delay = bits(kTargetAckDelay, 31, 3) | bits(qp.flow_control, 1, 0);
  rep.rnr_retry = bits(qp.rnr_retry_count, 7, 5) | bits(qp.srq, 1, 4);
  rep.ca_guid = ca_guid;
  copy_private(rep.private_data, sizeof(rep.private_data), private_data);
  return make_mad(CmAttribute::kRep, transaction_id, rep);
}

Mad make_rej(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id, uint8_t message,
             uint16_t reason, std::span<const uint8_t> private_data, uint64_t guid) {
  CmRej rej{};
  rej.local_comm_id = local_id;
  rej.remote_comm_id = remote_id;
  rej.message = message;
  rej.reason = reason;
  if (guid != 0) {
    rej.info_length = bits(sizeof(be64), 127, 1);
    store(rej.info, be64(guid));
  }
  copy_private(rej.private_data, sizeof(rej.private_data), private_data);
  return make_mad(CmAttribute::kRej, transaction_id, rej);
}

Mad make_drep(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id) {
  return make_mad(CmAttribute::kDrep, transaction_id, CmDrep{local_id, remote_id, {}});
}

Mad make_dreq(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id, uint32_t remote_qpn) {
  return make_mad(CmAttribute::kDreq, transaction_id,
                  CmDreq{local_id, remote_id, remote_qpn, 0, {}});
}

Mad make_rtu(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id) {
  return make_mad(CmAttribute::kRtu, transaction_id, CmRtu{local_id, remote_id, {}});
}

Mad make_mra(uint64_t transaction_id, uint32_t local_id, uint32_t remote_id, uint8_t message) {
  CmMra mra{};
  mra.local_comm_id = local_id;
  mra.remote_comm_id = remote_id;
  mra.message = message;
  mra.service_timeout = bits(kMraServiceTimeout, 31, 3);
  return make_mad(CmAttribute::kMra, transaction_id, mra);
}

Mad make_sidr_rep(uint64_t transaction_id, uint32_t request_id, uint8_t status, uint64_t service,
                  const QpParameters& qp, std::span<const uint8_t> private_data) {
  CmSidrRep rep{};
  rep.request_id = request_id;
  rep.status = status;
  rep.qpn = qp.qpn;
  rep.service_id = service;
  rep.qkey = qp.qkey;
  copy_private(rep.private_data, sizeof(rep.private_data), private_data);
  return make_mad(CmAttribute::kSidrRep, transaction_id, rep);
}

bool read_ip_header(const uint8_t* at, Incoming& incoming) {
  const auto ip = load<CmIpHeader>(at);
  const uint8_t version = ip.ip_version >> 4;
  if (ip.version != 0 || (version != 4 && version != 6)) return false;
  incoming.source_port = ip.source_port;
  incoming.source_address = take_address(ip.source, version == 4);
  incoming.destination_address = take_address(ip.destination, version == 4);
  return true;
}

bool read_addresses(const uint8_t* at, const Route& back, Incoming& incoming) {
  if (!read_ip_header(at, incoming)) return false;
  // Who asks from another host is not asked for by a loopback address, whatever the header says:
  // what listens there trusts its own host.
  const bool inside =
      incoming.source_address.is_loopback() || incoming.destination_address.is_loopback();
  return !inside || back.source == back.destination || back.destination.is_loopback();
}

uint16_t read_req(const CmReq& req, const Route& back, Incoming& incoming) {
  const uint64_t service = req.service_id;
  const auto transport = static_cast<uint8_t>(req.remote_timeout >> 1 & 3);
  incoming.route = back;
  incoming.route.flow_label = req.primary.flow_rate >> 12;
  incoming.route.traffic_class = req.primary.traffic_class;
  incoming.route.hop_limit = req.primary.hop_limit;
  incoming.space = static_cast<PortSpace>(static_cast<uint16_t>(service >> 16));
  incoming.destination_port = static_cast<uint16_t>(service);
  incoming.transport = static_cast<Transport>(transport);
  incoming.qp.qpn = req.qpn;
  incoming.qp.qkey = req.qkey;
  incoming.qp.starting_psn = req.starting_psn;
  incoming.qp.responder_resources = req.responder_resources;
  incoming.qp.initiator_depth = req.initiator_depth;
  incoming.qp.retry_count = req.local_timeout & 7;
  incoming.qp.rnr_retry_count = req.mtu & 7;
  incoming.qp.flow_control = req.remote_timeout & 1;
  incoming.qp.srq = req.retries & 8;
  incoming.path_mtu = req.mtu >> 4;
  incoming.ack_timeout = req.primary.ack_timeout >> 3;
  incoming.pkey = req.pkey;
  // RD is no transport of ours; 3 means the extended one, of which 1 is XRC (IBA A14.5).
  if (transport == 2 || (transport == 3 && (req.retries & 7) != 1)) return kRejInvalidTransport;
  if (incoming.path_mtu < 1 || incoming.path_mtu > 5) return kRejInvalidMtu;
  if (!read_addresses(req.private_data, back, incoming)) return kRejInvalidGid;
  return 0;
}

}  // namespace verbena::cm
