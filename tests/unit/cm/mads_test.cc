// Our MADs beside those of Linux's rxe: captures parse, come out the same byte for byte, and what
// we make of the same values differs in nothing but what is chosen freely.
#include <fstream>
#include <iterator>
#include <string>

#include "rig.h"
#include "wire/frame.h"
#include "wire/packet.h"
#include "wire/pcap.h"

namespace verbena::cm::test {
namespace {

using namespace wire;

std::vector<Mad> mads_of(const std::string& name) {
  std::ifstream in(GOLDEN_DIR "/rxe61-prog/" + name + ".pcap", std::ios::binary);
  const std::vector<uint8_t> file{std::istreambuf_iterator<char>(in), {}};
  std::vector<Mad> mads;
  PcapReader reader(file);
  while (const auto record = reader.next()) {
    const auto frame = parse_ethernet(record->data);
    if (!frame) continue;
    const Parsed parsed = parse(frame->udp_payload);
    if (parsed.error != ParseError::kNone || parsed.packet.dest_qpn != 1) continue;
    EXPECT_EQ(parsed.packet.deth.qkey, 0x80010000u);
    Mad& mad = mads.emplace_back();
    EXPECT_EQ(parsed.payload.size(), mad.size());
    std::copy_n(parsed.payload.begin(), mad.size(), mad.begin());
  }
  return mads;
}

uint64_t transaction_of(const Mad& mad) {
  return load<MadHeader>(mad.data()).transaction_id;
}

ConnectRequest request_of(const Incoming& incoming, std::span<const uint8_t> private_data) {
  ConnectRequest request;
  request.route = incoming.route;
  std::swap(request.route.source, request.route.destination);
  request.space = incoming.space;
  request.source_port = incoming.source_port;
  request.destination_port = incoming.destination_port;
  request.transport = incoming.transport;
  request.qp = incoming.qp;
  request.path_mtu = incoming.path_mtu;
  request.ack_timeout = incoming.ack_timeout;
  request.pkey = incoming.pkey;
  request.private_data.assign(private_data.begin() + sizeof(CmIpHeader), private_data.end());
  return request;
}

Route route_of(const CmReq& req) {
  Route back;
  std::copy_n(req.primary.local_gid, 16, back.destination.bytes.data());
  std::copy_n(req.primary.remote_gid, 16, back.source.bytes.data());
  return back;
}

Mad sidr_made_again(const Mad& mad) {
  const uint64_t transaction = transaction_of(mad);
  switch (static_cast<CmAttribute>(static_cast<uint16_t>(load<MadHeader>(mad.data()).attribute))) {
    case CmAttribute::kSidrReq: {
      const auto req = body_of<CmSidrReq>(mad);
      Incoming incoming;
      EXPECT_TRUE(read_ip_header(req.private_data, incoming));
      incoming.route.source = incoming.destination_address;
      incoming.route.destination = incoming.source_address;
      incoming.space = static_cast<PortSpace>(static_cast<uint16_t>(req.service_id >> 16));
      incoming.destination_port = static_cast<uint16_t>(req.service_id);
      incoming.pkey = req.pkey;
      return make_sidr_req(request_of(incoming, req.private_data), req.request_id, transaction);
    }
    case CmAttribute::kSidrRep: {
      const auto rep = body_of<CmSidrRep>(mad);
      QpParameters qp;
      qp.qpn = rep.qpn;
      qp.qkey = rep.qkey;
      return make_sidr_rep(transaction, rep.request_id, rep.status, rep.service_id, qp,
                           rep.private_data);
    }
    default:
      return {};
  }
}

// The same message from its meaning, through the functions that the machine uses.
Mad made_again(const Mad& mad) {
  const uint64_t transaction = transaction_of(mad);
  switch (static_cast<CmAttribute>(static_cast<uint16_t>(load<MadHeader>(mad.data()).attribute))) {
    case CmAttribute::kReq: {
      const auto req = body_of<CmReq>(mad);
      Incoming incoming;
      EXPECT_EQ(read_req(req, route_of(req), incoming), 0);
      EXPECT_EQ(incoming.source_address, incoming.route.destination);
      EXPECT_EQ(incoming.destination_address, incoming.route.source);
      Options options;
      options.ca_guid = req.ca_guid;
      return make_req(request_of(incoming, req.private_data), options, req.local_comm_id,
                      transaction);
    }
    case CmAttribute::kRep: {
      const auto rep = body_of<CmRep>(mad);
      QpParameters qp;
      qp.qpn = rep.qpn;
      qp.starting_psn = rep.starting_psn;
      qp.responder_resources = rep.responder_resources;
      qp.initiator_depth = rep.initiator_depth;
      qp.flow_control = rep.ack_delay & 1;
      qp.rnr_retry_count = rep.rnr_retry >> 5;
      qp.srq = rep.rnr_retry & 0x10;
      return make_rep(transaction, rep.local_comm_id, rep.remote_comm_id, rep.ca_guid, qp,
                      rep.private_data);
    }
    case CmAttribute::kRtu: {
      const auto rtu = body_of<CmRtu>(mad);
      return make_rtu(transaction, rtu.local_comm_id, rtu.remote_comm_id);
    }
    case CmAttribute::kDreq: {
      const auto dreq = body_of<CmDreq>(mad);
      return make_dreq(transaction, dreq.local_comm_id, dreq.remote_comm_id, dreq.remote_qpn);
    }
    case CmAttribute::kDrep: {
      const auto drep = body_of<CmDrep>(mad);
      return make_drep(transaction, drep.local_comm_id, drep.remote_comm_id);
    }
    case CmAttribute::kRej: {
      const auto rej = body_of<CmRej>(mad);
      return make_rej(transaction, rej.local_comm_id, rej.remote_comm_id, rej.message, rej.reason);
    }
    default:
      return sidr_made_again(mad);
  }
}

TEST(Mads, CapturesOfLinuxComeOutTheSame) {
  size_t count = 0;
  for (const char* name : {"rping", "rping_v6", "rping_reject", "ucmatose", "udaddy", "rdma_server",
                           "rdma_xserver", "rstream", "ib_send_bw_cm"}) {
    SCOPED_TRACE(name);
    for (const Mad& mad : mads_of(name)) {
      ASSERT_TRUE(is_cm_mad(mad));
      EXPECT_EQ(made_again(mad), mad);
      ++count;
    }
  }
  EXPECT_EQ(count, 5u + 5 + 2 + 10 + 2 + 5 + 6 + 5 + 10);
}

// A capture's active side played to a manager of ours, whose answers are Linux's but for numbers.
TEST(Mads, LinuxConnectsToUs) {
  const std::vector<Mad> mads = mads_of("rping");
  const auto req = body_of<CmReq>(mads[0]);
  Options options;
  options.ca_guid = body_of<CmRep>(mads[1]).ca_guid;
  Manager manager(options);
  const Handle listener = *manager.bind(PortSpace::kTcp, 7174, {}, false);
  ASSERT_TRUE(manager.listen(listener, 0));
  manager.receive({}, route_of(req), mads[0]);
  const Event request = Rig::next(manager, EventType::kRequest);
  ASSERT_TRUE(request.incoming);
  EXPECT_EQ(request.incoming->ack_timeout, 0x13);
  EXPECT_EQ(request.incoming->path_mtu, 3);
  EXPECT_EQ(request.qp.qpn, 0x27u);
  EXPECT_EQ(request.qp.retry_count, 7);
  QpParameters qp;
  qp.qpn = 0x27;
  qp.starting_psn = 0x6d77bb;
  qp.responder_resources = qp.initiator_depth = 1;
  qp.flow_control = false;
  ASSERT_TRUE(manager.accept({}, request.connection, qp, {}));
  Mad rep = Rig::taken(manager)[0].bytes;
  const auto id = body_of<CmRep>(rep).local_comm_id;
  std::copy_n(mads[1].begin() + 24, 4, rep.begin() + 24);
  EXPECT_EQ(rep, mads[1]);
  Mad rtu = mads[2], dreq = mads[3];
  store(rtu.data() + 28, be32(id));
  store(dreq.data() + 28, be32(id));
  manager.receive({}, route_of(req), rtu);
  Rig::next(manager, EventType::kEstablished);
  manager.receive({}, route_of(req), dreq);
  Rig::next(manager, EventType::kDisconnected);
  ASSERT_TRUE(manager.disconnect({}, request.connection));
  Mad drep = Rig::taken(manager)[0].bytes;
  std::copy_n(mads[4].begin() + 24, 4, drep.begin() + 24);
  EXPECT_EQ(drep, mads[4]);
}

TEST(Mads, NobodyAnswersAsLinux) {
  const std::vector<Mad> mads = mads_of("rping_reject");
  EXPECT_EQ(answer_for_nobody(mads[0]), mads[1]);
  EXPECT_EQ(answer_for_nobody(mads[1]), std::nullopt);
  const auto sidr = answer_for_nobody(mads_of("udaddy")[0]);
  ASSERT_TRUE(sidr);
  EXPECT_EQ(body_of<CmSidrRep>(*sidr).status, 1);
  EXPECT_EQ(answer_for_nobody(mads_of("rping")[3]).value(), mads_of("rping")[4]);
}

TEST(Mads, Destinations) {
  const std::vector<Mad> mads = mads_of("rping_v6");
  const auto request = destination_of(mads[0]);
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->by_service);
  EXPECT_EQ(request->service_id, service_id(PortSpace::kTcp, 7174));
  EXPECT_EQ(request->address.bytes[0], 0xfd);
  EXPECT_EQ(request->address.bytes[15], 1);
  const auto reply = destination_of(mads[1]);
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->by_service);
  EXPECT_EQ(reply->slot, mads[1][28]);
  EXPECT_FALSE(reply->to_all);
  const auto refusal = destination_of(make_rej(1, 5, 7u << 24, kOfRep, kRejConsumer));
  ASSERT_TRUE(refusal);
  EXPECT_FALSE(refusal->to_all);
  EXPECT_EQ(refusal->slot, 7);
  EXPECT_TRUE(destination_of(make_rej(1, 5, 0, kOfNothing, kRejTimeout))->to_all);
  Mad wrong = mads[0];
  wrong[2] = 1;
  EXPECT_FALSE(destination_of(wrong));
  EXPECT_FALSE(destination_of(std::span(mads[0]).first(255)));
}

TEST(Mads, FarewellOfAKilledProcess) {
  Rig rig;
  rig.to_established();
  const auto rows = rig.a->rows();
  ASSERT_EQ(rows.size(), 1u);
  const auto mad = farewell(rows[0]);
  ASSERT_TRUE(mad);
  rig.deliver(*rig.b, {rows[0].route, *mad});
  Rig::next(*rig.b, EventType::kDisconnected);
  EXPECT_FALSE(farewell(Row{}));
}

}  // namespace
}  // namespace verbena::cm::test
