// Fuzz: bytes as MADs of 256, one after the other, of two peers by turns, to a manager that listens
// at one port, is bound to another and listens there late, and has asked for a connection; its
// program accepts whatever comes, and time passes. Nothing may grow past its
// bound, and nothing may be left when the program ends.
#include "base/check.h"
#include "cm/manager.h"

using namespace verbena;
using namespace verbena::cm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const uint8_t here[] = {10, 77, 0, 1}, there[] = {10, 77, 0, 2}, other[] = {10, 77, 0, 3};
  Route back;
  back.source = engine::Gid::from_ipv4(here);
  back.destination = engine::Gid::from_ipv4(there);
  Manager manager(Options{});
  for (PortSpace space : {PortSpace::kTcp, PortSpace::kUdp})
    CHECK(manager.listen(*manager.bind(space, 7174, {}, false), 4));
  // The corpus's requests are for 7174: that port of the other spaces waits for its listen().
  const Handle late[] = {*manager.bind(PortSpace::kIb, 7174, {}, false),
                         *manager.bind(PortSpace::kIpoib, 7174, {}, false),
                         *manager.bind(PortSpace::kTcp, 7175, {}, true)};
  Instant now;
  ConnectRequest request;
  request.route = back;
  std::vector<Handle> mine = {*manager.connect(now, request)};
  for (int turn = 0; size > 0; ++turn) {
    back.destination = engine::Gid::from_ipv4(turn % 4 == 3 ? other : there);
    if (turn % 8 == 7)
      for (const Handle& listener : late) CHECK(manager.listen(listener, 4));
    const size_t length = std::min(size, kMadBytes);
    std::array<uint8_t, kMadBytes> mad;
    std::copy_n(data, length, mad.begin());
    manager.receive(now, back, std::span(mad).first(length));
    static_cast<void>(destination_of(std::span(mad).first(length)));
    static_cast<void>(answer_for_nobody(std::span(mad).first(length)));
    data += length;
    size -= length;
    now = now + milliseconds(300);
    manager.on_time(now);
    CHECK(manager.next_deadline() > now);
    for (const Event& event : std::vector<Event>(manager.events())) {
      if (event.type != EventType::kRequest) continue;
      mine.push_back(event.connection);
      static_cast<void>(manager.accept(now, event.connection, {}, {}));
    }
    manager.events().clear();
    for (const Row& row : manager.rows()) static_cast<void>(farewell(row));
  }
  for (Handle handle : mine) manager.destroy(now, handle);
  while (manager.next_deadline() != kNever) {
    now = manager.next_deadline();
    manager.on_time(now);
  }
  CHECK(manager.connection_count() == 0);
  CHECK(manager.rows().empty());
  return 0;
}
