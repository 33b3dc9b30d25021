// A world of connection managers: two or three hosts whose MADs are lost, repeated, delayed and so
// reordered, and programs that connect, accept, reject, disconnect, destroy and close at random.
// The checks: events of a connection come in a legal order and at most once, no queue pair of a
// peer is connected twice, nobody gives a peer up that has answered, no timer and no row is left in
// the end, no attempt ends without an outcome, and nothing is retried when nothing is lost.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/prng.h"
#include "cm/manager.h"

namespace verbena::sim::test {

class CmWorld {
 public:
  explicit CmWorld(uint64_t seed);
  // False: failure() says what was wrong.
  bool run();
  const std::string& failure() const { return failure_; }
  std::string describe() const;
  uint64_t established() const { return established_; }

 private:
  struct Program {  // what one host knows of one connection
    cm::Handle handle;
    bool active = false;
    bool datagram = false;
    bool destroyed = false;
    uint32_t seen = 0;      // events, one bit each
    uint32_t peer_qpn = 0;  // of a passive end: whose REQ it was
  };
  // What the road has seen of one attempt to connect, by the queue pair of its REQ.
  struct Attempt {
    uint32_t reps = 0;       // put on the road, retries included
    bool confirmed = false;  // an RTU or a DREQ reached the passive end
  };
  struct Host {
    std::unique_ptr<cm::Manager> manager;
    std::vector<Program> programs;
    std::vector<cm::Handle> listeners;
  };
  struct InFlight {
    size_t to;
    cm::OutgoingMad mad;
  };

  engine::Gid address(size_t host) const;
  void fail(const std::string& what);
  void act(size_t host);
  void connect(size_t host);
  void touch(size_t host, Program& program);
  void open(size_t host);
  void collect(size_t host);
  void put(const cm::OutgoingMad& mad);
  void on_event(size_t host, const cm::Event& event);
  void answer(size_t host, Program& program, const cm::Event& event);
  void check_order(const Program& program, cm::EventType type);
  Instant step(Instant next_act);
  void check_end();
  void check_request(size_t host, const Program& program);
  void check_unreachable(const Program& program);
  uint32_t owes_rtu(const InFlight& mad) const;
  void check_rtu(size_t host, uint32_t comm_id);
  void watch_road(const cm::OutgoingMad& mad, bool arrives);

  uint64_t seed_;
  Prng prng_;
  Instant now_;
  uint32_t loss_ppm_ = 0, repeat_ppm_ = 0;
  Duration most_delay_;
  bool prompt_ = false;  // nothing is lost and every program answers at once
  int acts_ = 0;
  uint32_t next_qpn_ = 0x100;
  uint64_t established_ = 0;
  std::vector<Host> hosts_;
  std::multimap<Instant, InFlight> road_;
  std::map<uint32_t, Attempt> attempts_;
  std::map<uint32_t, uint32_t> active_ids_;   // comm id of the active end -> queue pair of its REQ
  std::map<uint32_t, uint32_t> passive_ids_;  // comm id of a passive end -> the same
  std::string failure_;
};

}  // namespace verbena::sim::test
