// Connections that come about and end as both programs wish.
#include "rig.h"

namespace verbena::cm::test {
namespace {

TEST(Connect, EstablishAndDisconnect) {
  Rig rig;
  const Handle listener = rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  EXPECT_EQ(rig.a->state(rig.active), State::kReqSent);
  rig.exchange();
  const Event request = Rig::next(*rig.b, EventType::kRequest);
  ASSERT_TRUE(request.incoming);
  EXPECT_EQ(request.incoming->listener, listener);
  EXPECT_EQ(request.incoming->source_port, 43079);
  EXPECT_EQ(request.incoming->destination_port, 7174);
  EXPECT_EQ(request.incoming->source_address, ipv4(2));
  EXPECT_EQ(request.incoming->destination_address, ipv4(1));
  EXPECT_EQ(request.incoming->route.destination, ipv4(2));
  EXPECT_EQ(request.incoming->route.flow_label, 0x487a8u);
  EXPECT_EQ(request.qp.qpn, 0x010027u);
  EXPECT_EQ(request.qp.starting_psn, 0xee3033u);
  std::vector<uint8_t> full(56);
  full[0] = 1, full[1] = 2, full[2] = 3;
  EXPECT_EQ(request.private_data, full);
  EXPECT_EQ(rig.b->state(request.connection), State::kReqReceived);

  ASSERT_TRUE(rig.b->accept(rig.now, request.connection, rig.answer(), {}));
  EXPECT_EQ(rig.b->state(request.connection), State::kRepSent);
  rig.exchange();
  const Event response = Rig::next(*rig.a, EventType::kResponse);
  EXPECT_EQ(response.qp.qpn, 0x020033u);
  EXPECT_EQ(response.qp.starting_psn, 0x6d77bbu);
  EXPECT_EQ(response.private_data.size(), 196u);
  ASSERT_TRUE(rig.a->establish(rig.now, rig.active));
  rig.exchange();
  Rig::next(*rig.a, EventType::kEstablished);
  Rig::next(*rig.b, EventType::kEstablished);
  EXPECT_EQ(rig.a->rows().size(), 1u);
  EXPECT_EQ(rig.a->next_deadline(), kNever);
  EXPECT_EQ(rig.b->next_deadline(), kNever);

  ASSERT_TRUE(rig.a->disconnect(rig.now, rig.active));
  EXPECT_EQ(rig.a->state(rig.active), State::kDreqSent);
  rig.exchange();
  Rig::next(*rig.b, EventType::kDisconnected);
  EXPECT_EQ(rig.b->state(request.connection), State::kDreqReceived);
  ASSERT_TRUE(rig.b->disconnect(rig.now, request.connection));
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.a, EventType::kDisconnected).status, 0);
  EXPECT_EQ(rig.a->state(rig.active), State::kTimewait);
  EXPECT_EQ(rig.a->next_deadline(), rig.now + timewait(19));
  EXPECT_EQ(rig.a->rows().size(), 0u);
  rig.pass(timewait(19));
  Rig::next(*rig.a, EventType::kTimewaitExit);
  Rig::next(*rig.b, EventType::kTimewaitExit);
  rig.a->destroy(rig.now, rig.active);
  rig.b->destroy(rig.now, request.connection);
  EXPECT_EQ(rig.a->connection_count(), 0u);
  EXPECT_EQ(rig.b->connection_count(), 0u);
  EXPECT_EQ(rig.a->counters().retried + rig.b->counters().retried, 0u);
  EXPECT_EQ(rig.a->counters().sent, 3u);  // REQ, RTU, DREQ
  EXPECT_EQ(rig.b->counters().sent, 2u);  // REP, DREP
}

TEST(Connect, BothDisconnectAtOnce) {
  Rig rig;
  rig.to_established();
  EXPECT_TRUE(rig.a->disconnect(rig.now, rig.active));
  EXPECT_TRUE(rig.b->disconnect(rig.now, rig.passive));
  rig.exchange();
  Rig::next(*rig.a, EventType::kDisconnected);
  Rig::next(*rig.b, EventType::kDisconnected);
  EXPECT_TRUE(rig.a->events().empty());
  EXPECT_TRUE(rig.b->events().empty());
  EXPECT_EQ(rig.b->state(rig.passive), State::kTimewait);
}

TEST(Connect, DestroyTellsThePeer) {
  Rig rig;
  rig.to_established();
  rig.a->destroy(rig.now, rig.active);
  rig.exchange();
  Rig::next(*rig.b, EventType::kDisconnected);
  rig.b->destroy(rig.now, rig.passive);
  rig.exchange();
  EXPECT_EQ(rig.a->connection_count(), 1u);  // timewait
  rig.pass(timewait(19));
  EXPECT_EQ(rig.a->connection_count() + rig.b->connection_count(), 0u);
  EXPECT_TRUE(rig.a->events().empty());
}

TEST(Connect, TrafficBeforeTheRtu) {
  Rig rig;
  rig.listen();
  rig.to_rep_sent();
  EXPECT_TRUE(rig.b->communication_established(rig.now, rig.passive));
  Rig::next(*rig.b, EventType::kEstablished);
  rig.exchange();
  EXPECT_TRUE(rig.a->establish(rig.now, rig.active));
  rig.exchange();
  EXPECT_TRUE(rig.b->events().empty());
  EXPECT_FALSE(rig.b->communication_established(rig.now, rig.passive));
}

TEST(Connect, DreqProvesALostRtu) {
  Rig rig;
  rig.listen();
  rig.to_rep_sent();
  rig.exchange();
  EXPECT_TRUE(rig.a->establish(rig.now, rig.active));
  EXPECT_EQ(Rig::taken(*rig.a).size(), 1u);  // lost
  EXPECT_TRUE(rig.a->disconnect(rig.now, rig.active));
  rig.exchange();
  Rig::next(*rig.b, EventType::kEstablished);
  Rig::next(*rig.b, EventType::kDisconnected);
}

TEST(Connect, EachToTheOther) {
  Rig rig;
  rig.listen();
  const Handle listener = *rig.a->bind(PortSpace::kTcp, 7174, {}, false);
  EXPECT_TRUE(rig.a->listen(listener, 4));
  EXPECT_TRUE(rig.a->connect(rig.now, rig.request()));
  ConnectRequest back = rig.request();
  back.route = Rig::to_a();
  back.qp.qpn = 0x020044;
  EXPECT_TRUE(rig.b->connect(rig.now, back));
  rig.exchange();
  Rig::next(*rig.a, EventType::kRequest);
  Rig::next(*rig.b, EventType::kRequest);
  EXPECT_EQ(rig.a->connection_count(), 2u);
}

TEST(Connect, WithinOneManager) {
  Rig rig;
  Manager& both = *rig.b;
  rig.listen();
  const Handle active = *both.connect(rig.now, rig.request());
  for (const OutgoingMad& mad : Rig::taken(both)) rig.deliver(both, mad);
  const Handle passive = Rig::next(both, EventType::kRequest).connection;
  EXPECT_TRUE(both.accept(rig.now, passive, rig.answer(), {}));
  for (const OutgoingMad& mad : Rig::taken(both)) rig.deliver(both, mad);
  Rig::next(both, EventType::kResponse);
  EXPECT_TRUE(both.establish(rig.now, active));
  for (const OutgoingMad& mad : Rig::taken(both)) rig.deliver(both, mad);
  EXPECT_EQ(both.state(active), State::kEstablished);
  EXPECT_EQ(both.state(passive), State::kEstablished);
}

TEST(Connect, Datagrams) {
  Rig rig;
  rig.listen(PortSpace::kUdp);
  const Handle asks = *rig.a->connect(rig.now, rig.request(PortSpace::kUdp));
  EXPECT_EQ(rig.a->state(asks), State::kSidrReqSent);
  rig.exchange();
  const Event request = Rig::next(*rig.b, EventType::kRequest);
  EXPECT_TRUE(request.incoming && request.incoming->datagram);
  EXPECT_EQ(request.private_data.size(), 180u);
  QpParameters qp;
  qp.qpn = 0x2b;
  qp.qkey = 0x01234567;
  EXPECT_TRUE(rig.b->accept(rig.now, request.connection, qp, {}));
  rig.exchange();
  const Event response = Rig::next(*rig.a, EventType::kSidrResponse);
  EXPECT_EQ(response.status, 0);
  EXPECT_EQ(response.qp.qpn, 0x2bu);
  EXPECT_EQ(response.qp.qkey, 0x01234567u);
  EXPECT_EQ(response.private_data.size(), 136u);
  EXPECT_EQ(rig.a->state(asks), State::kIdle);
  EXPECT_EQ(rig.a->next_deadline(), kNever);
}

TEST(Connect, ChangedRows) {
  Rig rig;
  rig.to_established();
  ASSERT_EQ(rig.a->changed_rows().size(), 1u);
  EXPECT_EQ(rig.a->changed_rows()[0].row.state, State::kEstablished);
  EXPECT_EQ(rig.a->changed_rows()[0].row.remote_qpn, 0x020033u);
  rig.a->changed_rows().clear();
  rig.a->destroy(rig.now, rig.active);
  ASSERT_EQ(rig.a->changed_rows().size(), 1u);
  EXPECT_EQ(rig.a->changed_rows()[0].row.state, State::kDreqSent);
}

}  // namespace
}  // namespace verbena::cm::test
