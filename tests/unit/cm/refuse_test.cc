// Connections that are refused, bounds, and MADs that nobody should have sent.
#include <cerrno>

#include "base/prng.h"
#include "rig.h"

namespace verbena::cm::test {
namespace {

TEST(Refuse, NobodyListens) {
  Rig rig;
  rig.active = *rig.a->connect(rig.now, rig.request());
  rig.exchange();
  const Event event = Rig::next(*rig.a, EventType::kRejected);
  EXPECT_EQ(event.status, 8);
  EXPECT_EQ(event.private_data, std::vector<uint8_t>(148));
  EXPECT_EQ(rig.a->state(rig.active), State::kIdle);
  EXPECT_EQ(rig.b->connection_count(), 0u);
}

TEST(Refuse, NobodyListensForDatagrams) {
  Rig rig;
  rig.a->connect(rig.now, rig.request(PortSpace::kUdp));
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.a, EventType::kSidrResponse).status, 1);
}

TEST(Refuse, TheProgramSaysNoOnce) {
  Rig rig;
  rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  const OutgoingMad req = Rig::taken(*rig.a)[0];
  rig.deliver(*rig.b, req);
  const Handle passive = Rig::next(*rig.b, EventType::kRequest).connection;
  const uint8_t why[] = {7};
  EXPECT_TRUE(rig.b->reject(rig.now, passive, 28, why));
  Rig::taken(*rig.b);        // the REJ is lost
  rig.deliver(*rig.b, req);  // the peer asks again and gets it
  EXPECT_TRUE(rig.b->events().empty());
  rig.exchange();
  const Event event = Rig::next(*rig.a, EventType::kRejected);
  EXPECT_EQ(event.status, 28);
  EXPECT_EQ(event.private_data[0], 7);
  // The queue pair was never connected: a new request of it is welcome at once.
  EXPECT_TRUE(rig.a->connect(rig.now, rig.request()));
  rig.exchange();
  Rig::next(*rig.b, EventType::kRequest);
}

TEST(Refuse, TheActiveSideSaysNo) {
  Rig rig;
  rig.listen();
  rig.to_rep_sent();
  rig.exchange();
  EXPECT_TRUE(rig.a->reject(rig.now, rig.active, 28, {}));
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.b, EventType::kRejected).status, 28);
  EXPECT_EQ(rig.b->counters().retried, 0u);
}

TEST(Refuse, GivenUpBeforeTheAnswer) {
  Rig rig;
  rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  rig.exchange();
  const Handle passive = Rig::next(*rig.b, EventType::kRequest).connection;
  rig.a->destroy(rig.now, rig.active);
  EXPECT_EQ(rig.a->connection_count(), 0u);
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.b, EventType::kRejected).status, 4);
  EXPECT_FALSE(rig.b->accept(rig.now, passive, rig.answer(), {}));
}

TEST(Refuse, RepThatNobodyWaitsFor) {
  Rig rig;
  rig.listen();
  rig.to_rep_sent();
  rig.a->destroy(rig.now, rig.active);
  Rig::taken(*rig.a);
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.b, EventType::kRejected).status, 6);
}

TEST(Refuse, StaleConnection) {
  Rig rig;
  rig.to_established();
  rig.a = std::make_unique<Manager>([] {
    Options other = Rig::options(1);
    other.seed = 99;  // the process was started again
    return other;
  }());
  rig.a->connect(rig.now, rig.request());
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.a, EventType::kRejected).status, 10);
  Rig::next(*rig.b, EventType::kDisconnected);  // its DREQ met the DREP of one who knows nothing
  EXPECT_EQ(rig.b->state(rig.passive), State::kTimewait);
}

// What listens on loopback trusts its own host; the IP header of a request is only a claim.
TEST(Refuse, NoLoopbackFromAnotherHost) {
  static constexpr uint8_t kLoopback[4] = {127, 0, 0, 1};
  const engine::Gid loopback = engine::Gid::from_ipv4(kLoopback);
  for (const bool datagrams : {false, true}) {
    Rig rig;
    const PortSpace space = datagrams ? PortSpace::kUdp : PortSpace::kTcp;
    rig.listen(space);
    ConnectRequest forged = rig.request(space);
    forged.source_address = forged.destination_address = loopback;
    ASSERT_TRUE(rig.a->connect(rig.now, forged));
    rig.exchange();
    EXPECT_TRUE(rig.b->events().empty());
    const EventType answer = datagrams ? EventType::kSidrResponse : EventType::kRejected;
    EXPECT_EQ(Rig::next(*rig.a, answer).status, datagrams ? 1 : kRejInvalidGid);
    // From this host it is welcome.
    ConnectRequest own = forged;
    own.route.source = own.route.destination;
    own.source_port = 43080;
    ASSERT_TRUE(rig.a->connect(rig.now, own));
    for (const OutgoingMad& mad : Rig::taken(*rig.a)) rig.deliver(*rig.b, mad);
    Rig::next(*rig.b, EventType::kRequest);
  }
}

// A client that was killed before it had an answer names no comm id of the listener's; anybody
// could, so nothing that stands ends by it.
TEST(Refuse, RejectionWithoutIdsEndsNothingThatStands) {
  Rig rig;
  rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  const OutgoingMad req = Rig::taken(*rig.a).at(0);
  rig.deliver(*rig.b, req);
  rig.passive = Rig::next(*rig.b, EventType::kRequest).connection;
  EXPECT_TRUE(rig.b->accept(rig.now, rig.passive, rig.answer(), {}));
  rig.exchange();
  Rig::next(*rig.a, EventType::kResponse);
  EXPECT_TRUE(rig.a->establish(rig.now, rig.active));
  rig.exchange();
  Rig::next(*rig.b, EventType::kEstablished);
  const auto header = wire::load<wire::MadHeader>(req.bytes.data());
  const uint32_t id = body_of<wire::CmReq>(req.bytes).local_comm_id;
  rig.deliver(*rig.b, {req.route, make_rej(header.transaction_id, id, 0, 0, kRejTimeout)});
  EXPECT_TRUE(rig.b->events().empty());
  EXPECT_EQ(rig.b->state(rig.passive), State::kEstablished);
}

// A client that is run twice in a row may get the same slot and the same queue pair number.
TEST(Refuse, TheSameQueuePairIsWelcomeInTimewait) {
  Rig rig;
  rig.to_established();
  EXPECT_TRUE(rig.a->disconnect(rig.now, rig.active));
  rig.exchange();
  Rig::next(*rig.b, EventType::kDisconnected);
  EXPECT_TRUE(rig.b->disconnect(rig.now, rig.passive));
  rig.exchange();
  ASSERT_EQ(rig.b->state(rig.passive), State::kTimewait);
  Options other = Rig::options(1);
  other.seed = 99;
  rig.a = std::make_unique<Manager>(other);
  const Handle first = rig.passive;
  rig.to_rep_sent();
  EXPECT_NE(rig.passive, first);
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.a, EventType::kResponse).qp.qpn, 0x020033u);
  EXPECT_TRUE(rig.a->establish(rig.now, rig.active));
  rig.exchange();
  Rig::next(*rig.b, EventType::kEstablished);
  // The first one's end does not take the second one's queue pair away.
  rig.pass(timewait(19));
  Rig::next(*rig.b, EventType::kTimewaitExit);
  rig.a = std::make_unique<Manager>(Rig::options(1));
  rig.a->connect(rig.now, rig.request());
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.a, EventType::kRejected).status, 10) << "that one is connected";
}

// The same comm id too, as of a peer that counts them from one.
TEST(Refuse, TheSameCommIdIsWelcomeInTimewait) {
  for (PortSpace space : {PortSpace::kTcp, PortSpace::kUdp}) {
    Rig rig;
    rig.listen(space);
    rig.active = *rig.a->connect(rig.now, rig.request(space));
    OutgoingMad req = Rig::taken(*rig.a)[0];
    rig.deliver(*rig.b, req);
    EXPECT_TRUE(rig.b->reject(rig.now, Rig::next(*rig.b, EventType::kRequest).connection, 28, {}));
    Rig::taken(*rig.b);
    req.bytes[15] ^= 1;  // another transaction
    rig.deliver(*rig.b, req);
    const Handle second = Rig::next(*rig.b, EventType::kRequest).connection;
    EXPECT_TRUE(rig.b->accept(rig.now, second, rig.answer(), {}));
    rig.pass(seconds(20));  // the first one's end
    rig.deliver(*rig.b, req);
    EXPECT_TRUE(rig.b->events().empty() || space == PortSpace::kUdp);
  }
}

// Only datagram services are looked up, and only the others are connected to.
TEST(Refuse, TheMadMustFitThePortSpace) {
  Rig rig;
  rig.listen(PortSpace::kTcp);
  rig.listen(PortSpace::kUdp);
  rig.listen(PortSpace::kIpoib);
  rig.listen(PortSpace::kIb);
  for (PortSpace space : {PortSpace::kUdp, PortSpace::kIpoib}) {
    rig.b->receive(rig.now, Rig::to_a(), make_req(rig.request(space), Rig::options(1), 5, 6));
    const auto answers = Rig::taken(*rig.b);
    ASSERT_EQ(Rig::attributes(answers), std::vector<uint16_t>{0x12});
    EXPECT_EQ(body_of<wire::CmRej>(answers[0].bytes).reason, kRejInvalidService);
  }
  for (PortSpace space : {PortSpace::kTcp, PortSpace::kIb}) {
    rig.b->receive(rig.now, Rig::to_a(), make_sidr_req(rig.request(space), 5, 6));
    const auto answers = Rig::taken(*rig.b);
    ASSERT_EQ(Rig::attributes(answers), std::vector<uint16_t>{0x18});
    EXPECT_EQ(body_of<wire::CmSidrRep>(answers[0].bytes).status, kSidrUnsupported);
  }
  EXPECT_TRUE(rig.b->events().empty());
  EXPECT_EQ(rig.b->connection_count(), 0u);
}

// However long the peer says that it waits, a refused request is forgotten in 17 s.
TEST(Refuse, RefusedRequestsAreForgottenSoon) {
  Rig rig;
  rig.listen();
  ConnectRequest request = rig.request();
  Options patient = Rig::options(1);
  patient.response_timeout = 31;
  rig.b->receive(rig.now, Rig::to_a(), make_req(request, patient, 5, 6));
  EXPECT_TRUE(rig.b->reject(rig.now, Rig::next(*rig.b, EventType::kRequest).connection, 28, {}));
  EXPECT_EQ(rig.b->next_deadline(), rig.now + nanoseconds(4096 * (int64_t{1} << 22)));
}

TEST(Refuse, HandlesStartWhereAnotherManagerStopped) {
  Rig rig;
  const Handle before = *rig.a->connect(rig.now, rig.request());
  Options options = Rig::options(1);
  options.first_generation = rig.a->next_generation();
  rig.a = std::make_unique<Manager>(options);
  const Handle after = *rig.a->connect(rig.now, rig.request());
  EXPECT_EQ(after.index, before.index);
  EXPECT_EQ(after.generation, before.generation + 1);
  rig.a->destroy(rig.now, before);
  EXPECT_EQ(rig.a->state(after), State::kReqSent);
}

TEST(Refuse, CommIdOfAnother) {
  Rig rig;
  rig.listen();
  rig.a->connect(rig.now, rig.request());
  OutgoingMad req = Rig::taken(*rig.a)[0];
  rig.deliver(*rig.b, req);
  req.bytes[15] ^= 1;  // another transaction
  rig.deliver(*rig.b, req);
  const auto answers = Rig::taken(*rig.b);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(body_of<wire::CmRej>(answers[0].bytes).reason, 30);
}

// As `to` hears it from somebody who is not the peer.
void deliver_from_stranger(Rig& rig, Manager& to, const Mad& mad) {
  Route back = &to == rig.a.get() ? Rig::to_b() : Rig::to_a();
  back.destination = ipv4(9);
  to.receive(rig.now, back, mad);
}

uint32_t comm_id_of(const Manager& manager) {
  return manager.rows().at(0).local_comm_id;
}

// IBA 12.9: both comm ids and the peer's address tell which connection is meant.
TEST(Refuse, StrangersEndNoRequest) {
  Rig rig;
  rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  const auto requests = Rig::taken(*rig.a);
  const uint32_t own = comm_id_of(*rig.a);
  deliver_from_stranger(rig, *rig.a, make_rej(1, 5, own, kOfReq, kRejConsumer));
  deliver_from_stranger(rig, *rig.a, make_mra(1, 5, own, kOfReq));
  deliver_from_stranger(rig, *rig.a, make_rep(1, 5, own, 1, rig.answer(), {}));
  EXPECT_TRUE(rig.a->events().empty());
  EXPECT_EQ(rig.a->state(rig.active), State::kReqSent);
  EXPECT_EQ(rig.a->counters().unknown, 3u);
  const auto answers = Rig::taken(*rig.a);  // to the REP of somebody we never asked
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].route.destination, ipv4(9));
  EXPECT_EQ(body_of<wire::CmRej>(answers[0].bytes).reason, kRejInvalidCommId);
  rig.deliver(*rig.b, requests[0]);
  EXPECT_TRUE(
      rig.b->accept(rig.now, Rig::next(*rig.b, EventType::kRequest).connection, rig.answer(), {}));
  rig.exchange();
  Rig::next(*rig.a, EventType::kResponse);
}

TEST(Refuse, OnlyWhoAskedForTimeAnswers) {
  Rig rig;
  rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  const auto requests = Rig::taken(*rig.a);
  for (int i = 0; i < 2; ++i) rig.deliver(*rig.b, requests[0]);  // the second meets an MRA
  rig.exchange();
  ASSERT_EQ(rig.a->state(rig.active), State::kRepWait);
  const uint32_t own = comm_id_of(*rig.a), other = comm_id_of(*rig.b) ^ 1;
  OutgoingMad mad{Rig::to_a(), make_rej(1, other, own, kOfReq, kRejConsumer)};
  rig.deliver(*rig.a, mad);
  mad.bytes = make_rep(1, other, own, 1, rig.answer(), {});
  rig.deliver(*rig.a, mad);
  EXPECT_TRUE(rig.a->events().empty());
  EXPECT_EQ(rig.a->state(rig.active), State::kRepWait);
  mad.bytes = make_rej(1, 0, own, kOfReq, kRejInvalidService);  // of a host where nobody is left
  rig.deliver(*rig.a, mad);
  EXPECT_EQ(Rig::next(*rig.a, EventType::kRejected).status, kRejInvalidService);
}

TEST(Refuse, StrangersEndNoReply) {
  Rig rig;
  rig.listen();
  rig.to_rep_sent();
  Rig::taken(*rig.b);
  const uint32_t own = comm_id_of(*rig.b), peer = comm_id_of(*rig.a);
  for (const Mad& mad : {make_rej(1, peer, own, kOfRep, kRejConsumer), make_rtu(1, peer, own),
                         make_mra(1, peer, own, kOfRep), make_dreq(1, peer, own, 0x020033)})
    deliver_from_stranger(rig, *rig.b, mad);
  for (const Mad& mad : {make_rej(1, peer ^ 1, own, kOfRep, kRejConsumer),
                         make_rtu(1, peer ^ 1, own), make_mra(1, peer ^ 1, own, kOfRep)})
    rig.deliver(*rig.b, {Rig::to_b(), mad});
  EXPECT_TRUE(rig.b->events().empty());
  EXPECT_EQ(rig.b->state(rig.passive), State::kRepSent);
  Rig::taken(*rig.b);
  const Instant before = rig.b->next_deadline();
  rig.deliver(*rig.b, {Rig::to_b(), make_mra(1, peer, own, kOfRep)});  // the peer itself
  EXPECT_GT(rig.b->next_deadline(), before);
}

TEST(Refuse, StrangersEndNoConnection) {
  Rig rig;
  rig.to_established();
  const uint32_t own = comm_id_of(*rig.a), peer = comm_id_of(*rig.b);
  deliver_from_stranger(rig, *rig.a, make_rej(1, peer, own, kOfNothing, kRejStale));
  deliver_from_stranger(rig, *rig.a, make_dreq(1, peer, own, 0x010027));
  EXPECT_TRUE(rig.a->events().empty());
  EXPECT_EQ(rig.a->state(rig.active), State::kEstablished);
  Rig::taken(*rig.a);
  EXPECT_TRUE(rig.a->disconnect(rig.now, rig.active));
  Rig::taken(*rig.a);
  deliver_from_stranger(rig, *rig.a, make_drep(1, peer, own));
  rig.deliver(*rig.a, {Rig::to_a(), make_drep(1, peer ^ 1, own)});
  EXPECT_EQ(rig.a->state(rig.active), State::kDreqSent);
}

TEST(Refuse, StrangersNameNoService) {
  Rig rig;
  rig.active = *rig.a->connect(rig.now, rig.request(PortSpace::kUdp));
  const auto request = body_of<wire::CmSidrReq>(Rig::taken(*rig.a)[0].bytes);
  const Mad answer =
      make_sidr_rep(1, request.request_id, kSidrValid, request.service_id, rig.answer(), {});
  deliver_from_stranger(rig, *rig.a, answer);
  EXPECT_TRUE(rig.a->events().empty());
  rig.deliver(*rig.a, {Rig::to_a(), answer});
  EXPECT_EQ(Rig::next(*rig.a, EventType::kSidrResponse).qp.qpn, 0x020033u);
}

TEST(Refuse, BacklogIsSilent) {
  Rig rig;
  rig.listen(PortSpace::kTcp, 1);
  rig.a->connect(rig.now, rig.request());
  ConnectRequest second = rig.request();
  second.qp.qpn = 0x010028;
  rig.a->connect(rig.now, second);
  rig.exchange();
  const Handle first = Rig::next(*rig.b, EventType::kRequest).connection;
  EXPECT_TRUE(rig.b->events().empty());
  EXPECT_TRUE(rig.a->events().empty());
  rig.b->request_taken(first);
  rig.pass(response_time(20));
  rig.exchange();
  EXPECT_EQ(rig.b->state(Rig::next(*rig.b, EventType::kRequest).connection), State::kReqReceived);
}

TEST(Refuse, ClosedListener) {
  Rig rig;
  const Handle listener = rig.listen();
  rig.a->connect(rig.now, rig.request());
  rig.exchange();
  rig.b->close_listener(rig.now, listener);
  EXPECT_TRUE(rig.b->events().empty());
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.a, EventType::kRejected).status, 28);
}

TEST(Refuse, RequestThatWasGivenOutOutlivesItsListener) {
  Rig rig;
  const Handle listener = rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  rig.exchange();
  const Handle passive = Rig::next(*rig.b, EventType::kRequest).connection;
  rig.b->close_listener(rig.now, listener);
  EXPECT_TRUE(rig.b->accept(rig.now, passive, rig.answer(), {}));
  rig.exchange();
  Rig::next(*rig.a, EventType::kResponse);
}

TEST(Refuse, AddressesOfListeners) {
  Rig rig;
  const Handle any = rig.listen();
  const Handle exact = *rig.b->bind(PortSpace::kTcp, 7174, ipv4(1), true);
  EXPECT_TRUE(rig.b->listen(exact, 0));
  const Handle other = *rig.b->bind(PortSpace::kTcp, 7174, ipv4(9), true);
  EXPECT_TRUE(rig.b->listen(other, 0));
  rig.a->connect(rig.now, rig.request());
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.b, EventType::kRequest).incoming->listener, exact);
  rig.b->close_listener(rig.now, exact);
  ConnectRequest second = rig.request();
  second.qp.qpn = 0x010028;
  rig.a->connect(rig.now, second);
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.b, EventType::kRequest).incoming->listener, any);
  rig.b->close_listener(rig.now, any);
  EXPECT_TRUE(rig.b->listen(*rig.b->bind(PortSpace::kTcp, 7174, {}, true), 0));  // IPv6 only
  second.qp.qpn = 0x010029;
  rig.a->connect(rig.now, second);
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.a, EventType::kRejected).status, 8);
}

TEST(Refuse, Misuse) {
  Rig rig;
  ConnectRequest request = rig.request();
  request.private_data.resize(57);
  EXPECT_EQ(rig.a->connect(rig.now, request).error().code, EINVAL);
  request.private_data.resize(56);
  const Handle active = *rig.a->connect(rig.now, request);
  EXPECT_EQ(rig.a->establish(rig.now, active).error().code, EINVAL);
  EXPECT_EQ(rig.a->accept(rig.now, active, {}, {}).error().code, EINVAL);
  EXPECT_EQ(rig.a->disconnect(rig.now, active).error().code, EINVAL);
  EXPECT_EQ(rig.a->reject(rig.now, active, 28, {}).error().code, EINVAL);
  rig.a->destroy(rig.now, active);
  rig.a->destroy(rig.now, active);
  EXPECT_EQ(rig.a->establish(rig.now, active).error().code, EINVAL);
  EXPECT_FALSE(rig.a->listen(active, 1));
}

TEST(Refuse, ConnectionsAreBounded) {
  Rig rig;
  ConnectRequest request = rig.request();
  for (uint32_t i = 0; i < kMaxConnections; ++i) ASSERT_TRUE(rig.a->connect(rig.now, request));
  EXPECT_EQ(rig.a->connect(rig.now, request).error().code, ENOMEM);
  EXPECT_LE(rig.a->outgoing().size(), 4096u);
}

TEST(Refuse, Garbage) {
  Rig rig;
  rig.to_established();
  Prng prng(7);
  for (int i = 0; i < 200'000; ++i) {
    Mad mad;
    for (uint8_t& byte : mad) byte = static_cast<uint8_t>(prng.below(4) ? 0 : prng.next());
    mad[0] = 1, mad[1] = 7, mad[2] = 2, mad[3] = 3, mad[16] = 0;
    mad[17] = static_cast<uint8_t>(0x10 + prng.below(11));
    rig.b->receive(rig.now, Rig::to_a(), mad);
  }
  rig.b->receive(rig.now, Rig::to_a(), {});
  EXPECT_EQ(rig.b->counters().malformed, 1u);
  EXPECT_LE(rig.b->outgoing().size(), 4096u);
  EXPECT_LE(rig.b->explanations().size(), 1024u);
  EXPECT_EQ(rig.b->state(rig.passive), State::kEstablished);
}

}  // namespace
}  // namespace verbena::cm::test
