// What a host does with MADs that no connection manager of a process sees: where one belongs, the
// answer when nobody is there, and the last word of a process that was killed.
#include "cm/mads.h"

namespace verbena::cm {

using namespace wire;

namespace {

// Bits 31:24 of a comm id.
Destination by_comm_id(uint32_t id) {
  Destination to;
  to.slot = static_cast<uint8_t>(id >> 24);
  return to;
}

// `private_data`: begins with the IP header; one that cannot be read leaves the address at any.
Destination by_service(uint64_t service, const uint8_t* private_data) {
  Destination to;
  to.by_service = true;
  to.service_id = service;
  Incoming incoming;
  if (read_ip_header(private_data, incoming)) to.address = incoming.destination_address;
  return to;
}

}  // namespace

std::optional<Destination> destination_of(std::span<const uint8_t> mad) {
  if (!is_cm_mad(mad)) return std::nullopt;
  switch (attribute_of(load<MadHeader>(mad.data()))) {
    case CmAttribute::kReq: {
      const auto req = body_of<CmReq>(mad);
      return by_service(req.service_id, req.private_data);
    }
    case CmAttribute::kSidrReq: {
      const auto req = body_of<CmSidrReq>(mad);
      return by_service(req.service_id, req.private_data);
    }
    case CmAttribute::kRej: {
      Destination to = by_comm_id(body_of<CmRej>(mad).remote_comm_id);
      to.to_all = body_of<CmRej>(mad).remote_comm_id == 0;
      return to;
    }
    case CmAttribute::kSidrRep:
      return by_comm_id(body_of<CmSidrRep>(mad).request_id);
    default:  // both comm ids stand first in all others
      return by_comm_id(body_of<CmRtu>(mad).remote_comm_id);
  }
}

std::optional<Mad> answer_for_nobody(std::span<const uint8_t> mad) {
  if (!is_cm_mad(mad)) return std::nullopt;
  const auto header = load<MadHeader>(mad.data());
  const uint64_t transaction = header.transaction_id;
  const auto ids = body_of<CmRtu>(mad);
  switch (attribute_of(header)) {
    case CmAttribute::kReq:
      return make_rej(transaction, 0, ids.local_comm_id, kOfReq, kRejInvalidService);
    case CmAttribute::kRep:
      return make_rej(transaction, ids.remote_comm_id, ids.local_comm_id, kOfRep,
                      kRejInvalidCommId);
    case CmAttribute::kDreq:
      return make_drep(transaction, ids.remote_comm_id, ids.local_comm_id);
    case CmAttribute::kSidrReq: {
      const auto req = body_of<CmSidrReq>(mad);
      return make_sidr_rep(transaction, req.request_id, kSidrUnsupported, req.service_id, {}, {});
    }
    default:
      return std::nullopt;
  }
}

std::optional<Mad> farewell(const Row& row) {
  const auto rej = [&row](uint8_t message, uint16_t reason) {
    return make_rej(row.transaction_id, row.local_comm_id, row.remote_comm_id, message, reason);
  };
  switch (row.state) {
    case State::kReqSent:
    case State::kRepWait:
    case State::kRepSent:
      return rej(kOfNothing, kRejTimeout);
    case State::kReqReceived:
    case State::kMraSent:
      return rej(kOfReq, kRejConsumer);
    case State::kRepReceived:
      return rej(kOfRep, kRejConsumer);
    case State::kEstablished:
    case State::kDreqSent:
      return make_dreq(row.transaction_id, row.local_comm_id, row.remote_comm_id, row.remote_qpn);
    case State::kDreqReceived:
      return make_drep(row.transaction_id, row.local_comm_id, row.remote_comm_id);
    case State::kIdle:
    case State::kTimewait:
    case State::kSidrReqSent:
    case State::kSidrReqReceived:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace verbena::cm
