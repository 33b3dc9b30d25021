// Two managers and the road between them, which a test can cut, for the unit tests of the room.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "cm/mads.h"
#include "cm/manager.h"

namespace verbena::cm::test {

inline engine::Gid ipv4(uint8_t last) {
  const uint8_t address[4] = {10, 77, 0, last};
  return engine::Gid::from_ipv4(address);
}

struct Rig {
  Rig() {
    Options other = options(2);
    b = std::make_unique<Manager>(other);
    a = std::make_unique<Manager>(options(1));
  }
  static Options options(uint8_t slot) {
    Options o;
    o.slot = slot;
    o.seed = slot;
    o.ca_guid = 0x1000 + slot;
    return o;
  }
  static Route to_b() { return {ipv4(2), ipv4(1), 0, 64, 0x487a8}; }
  static Route to_a() { return {ipv4(1), ipv4(2), 0, 64, 0}; }

  ConnectRequest request(PortSpace space = PortSpace::kTcp) const {
    ConnectRequest r;
    r.route = to_b();
    r.space = space;
    r.source_port = 43079;
    r.destination_port = 7174;
    r.qp.qpn = 0x010027;
    r.qp.starting_psn = 0xee3033;
    r.qp.responder_resources = 1;
    r.qp.initiator_depth = 2;
    r.private_data = {1, 2, 3};
    return r;
  }
  Handle listen(PortSpace space = PortSpace::kTcp, uint32_t backlog = 0) {
    const Handle handle = *b->bind(space, 7174, {}, false);
    EXPECT_TRUE(b->listen(handle, backlog));
    return handle;
  }
  static uint16_t attribute(const OutgoingMad& mad) {
    return wire::load<wire::MadHeader>(mad.bytes.data()).attribute;
  }
  // What a manager has to send, taken.
  static std::vector<OutgoingMad> taken(Manager& from) {
    std::vector<OutgoingMad> mads;
    mads.swap(from.outgoing());
    return mads;
  }
  static std::vector<uint16_t> attributes(const std::vector<OutgoingMad>& mads) {
    std::vector<uint16_t> all;
    for (const OutgoingMad& mad : mads) all.push_back(attribute(mad));
    return all;
  }
  void deliver(Manager& to, const OutgoingMad& mad) {
    Route back = mad.route;
    std::swap(back.source, back.destination);
    to.receive(now, back, mad.bytes);
  }
  // Carries MADs to and fro until nobody has any.
  void exchange() {
    for (int i = 0; i < 20; ++i) {
      for (const OutgoingMad& mad : taken(*a)) deliver(*b, mad);
      for (const OutgoingMad& mad : taken(*b)) deliver(*a, mad);
    }
  }
  // The next event, which has to be this one.
  static Event next(Manager& of, EventType type) {
    if (of.events().empty()) {
      ADD_FAILURE() << "no event, wanted " << static_cast<int>(type);
      return {};
    }
    Event event = of.events().front();
    of.events().erase(of.events().begin());
    EXPECT_EQ(static_cast<int>(event.type), static_cast<int>(type));
    return event;
  }
  QpParameters answer() const {
    QpParameters qp;
    qp.qpn = 0x020033;
    qp.starting_psn = 0x6d77bb;
    return qp;
  }
  // Both ends of a connection through accept().
  void to_rep_sent() {
    active = *a->connect(now, request());
    for (const OutgoingMad& mad : taken(*a)) deliver(*b, mad);
    passive = next(*b, EventType::kRequest).connection;
    const uint8_t data[] = {9, 8};
    EXPECT_TRUE(b->accept(now, passive, answer(), data));
  }
  void to_established() {
    listen();
    to_rep_sent();
    exchange();
    next(*a, EventType::kResponse);
    EXPECT_TRUE(a->establish(now, active));
    exchange();
    next(*a, EventType::kEstablished);
    next(*b, EventType::kEstablished);
  }
  void pass(Duration time) {
    now = now + time;
    a->on_time(now);
    b->on_time(now);
  }

  Instant now;
  std::unique_ptr<Manager> a;  // connects
  std::unique_ptr<Manager> b;  // listens
  Handle active;
  Handle passive;
};

}  // namespace verbena::cm::test
