// The inside of Manager: its tables and what its three files share. manager.cc holds the calls,
// receive.cc a MAD's way in, timers.cc retries, timewait and the tables.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/prng.h"
#include "cm/mads.h"

namespace verbena::cm {

inline constexpr size_t kMaxOutgoing = 4096;      // not taken: more are lost, as on a wire
inline constexpr size_t kMaxExplanations = 1024;  // not taken
inline constexpr size_t kMaxHeld = 128;           // requests that wait for a listen()

struct Listener {
  Handle handle;
  PortSpace space{};
  uint16_t port = 0;
  engine::Gid address;
  bool one_family = false;
  bool listening = false;
  uint32_t backlog = 0;
  uint32_t pending = 0;  // requests given out and not yet taken by the program
};

struct Connection {
  Handle handle;
  bool used = false;
  bool orphan = false;    // destroyed: only the peer is still served
  bool active = false;    // we sent the REQ
  bool datagram = false;  // SIDR
  bool pending = false;   // counts in its listener's backlog
  bool mra_sent = false;
  bool tells_exit = false;  // kTimewait ends with kTimewaitExit
  State state = State::kIdle;
  Route route;
  Handle listener;
  uint64_t service = 0;
  uint64_t transaction_id = 0;
  uint64_t dreq_transaction_id = 0;  // the peer's
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint32_t local_qpn = 0;
  uint32_t remote_qpn = 0;
  uint8_t ack_timeout = 0;
  uint8_t max_retries = 0;
  uint8_t retries_left = 0;
  Duration wait;    // for each answer of the peer
  Duration linger;  // for which a refusal is repeated to repeated requests
  Instant deadline = kNever;
  bool has_last = false;
  Mad last{};                      // sent last; again on a time-out, or to a repeated request
  size_t changed_at = ~size_t{0};  // where changed_rows_ has it
};

// The other end for the explain log: "port 7471 of 192.0.2.2", or of one that came here "192.0.2.2
// at port 7471 here".
std::string peer_text(const Connection& c);

struct HeldRequest {
  Instant deadline;
  Route back;
  Mad mad;
};

struct Manager::Impl {
  using PeerKey = std::tuple<engine::Gid, uint32_t, bool>;  // its address, its comm id, SIDR
  using QpKey = std::pair<engine::Gid, uint32_t>;           // its address, its queue pair

  Impl(Manager& owner, const Options& opts) : manager(owner), options(opts), prng(opts.seed) {
    next_id = static_cast<uint32_t>(prng.next());
    next_generation = opts.first_generation;
    transaction_high = prng.next() << 32;
    connections.emplace_back();  // index 0: none
  }

  // timers.cc
  Connection* create();
  Connection* find(Handle handle);
  Listener* find_listener(Handle handle);
  Connection* by_comm_id(uint32_t id, const Route& back);
  Row row_of(const Connection& c) const;
  void set_state(Connection& c, State state);
  void arm(Connection& c, Instant deadline);
  void leave_lookups(Connection& c);
  void free_queue_pair(const Connection& c);
  void become_idle(Connection& c);
  void release(Connection& c);
  void taken(Connection& c);
  void send(const Route& route, const Mad& mad);
  void send_last(Connection& c, const Mad& mad);
  void send_waiting(Instant now, Connection& c, const Mad& mad);
  void enter_timewait(Instant now, Connection& c, bool tells_exit);
  void linger(Instant now, Connection& c);
  Event& emit(Connection& c, EventType type, int32_t status = 0);
  void explain(std::string text);
  void expire(Instant now, Connection& c);
  void give_up(Instant now, Connection& c);
  void end_held(Instant now);
  void begin_disconnect(Instant now, Connection& c);
  void refuse(Instant now, Connection& c, uint16_t reason, std::span<const uint8_t> private_data);

  // receive.cc
  void dispatch(Instant now, const Route& back, std::span<const uint8_t> mad);
  void on_req(Instant now, const Route& back, std::span<const uint8_t> mad);
  void on_repeated_req(Instant now, Connection& c, uint64_t transaction, const wire::CmReq& req);
  void on_sidr_req(Instant now, const Route& back, std::span<const uint8_t> mad);
  void deliver(Connection& c, const Listener& listener, Incoming incoming,
               std::span<const uint8_t> private_data);
  Listener* listener_for(const Incoming& incoming);
  bool hold(Instant now, const Route& back, std::span<const uint8_t> mad);
  bool is_stale(Instant now, const Route& back, uint64_t transaction, const wire::CmReq& req);
  void on_mra(Instant now, const Route& back, const wire::CmMra& mra);
  void on_rej(Instant now, const Route& back, const wire::CmRej& rej);
  void on_rep(const Route& back, std::span<const uint8_t> mad);
  void on_rtu(const Route& back, const wire::CmRtu& rtu);
  void on_dreq(Instant now, const Route& back, std::span<const uint8_t> mad);
  void on_drep(Instant now, const Route& back, const wire::CmDrep& drep);
  void on_sidr_rep(const Route& back, const wire::CmSidrRep& rep);

  Manager& manager;
  Event unseen;  // of a connection that its program has destroyed
  Options options;
  Prng prng;
  uint32_t next_id;
  uint64_t transaction_high;
  uint32_t next_generation = 1;
  Instant latest;  // of all calls that told the time
  size_t in_use = 0;
  std::deque<Connection> connections;
  std::deque<uint32_t> free;
  std::unordered_map<uint32_t, uint32_t> ids;  // local comm id -> index
  std::map<PeerKey, uint32_t> peers;           // passive: whose REQ it was
  std::map<QpKey, uint32_t> queue_pairs;
  std::set<std::pair<Instant, uint32_t>> timers;
  std::vector<Listener> listeners;
  std::deque<HeldRequest> held;
};

}  // namespace verbena::cm
