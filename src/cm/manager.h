// The IB connection manager of one process as a sans-IO machine (IBA volume 1, chapter 12, over
// QP1): management datagrams and time in, management datagrams and events out. What rdma_cm adds on
// the wire (service ids made of port spaces and ports, the IP header in front of a REQ's private
// data) is here too, so that both ends are tested in simulated worlds.
//
// Not thread-safe: whoever drives it holds its lock. Handles are indices with a generation: one
// that was destroyed answers nothing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/address.h"
#include "wire/cm_mad.h"

namespace verbena::cm {

using wire::kMadBytes;
inline constexpr uint32_t kMaxConnections = 65536;  // of a process, incl. timewait
inline constexpr size_t kMaxListeners = 16384;
inline constexpr uint32_t kDefaultBacklog = 1024;  // as Linux

// rdma_cm's port spaces (upper half of the service id's lower 32 bits).
enum class PortSpace : uint16_t { kIpoib = 0x0002, kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013f };

// (port space << 16) | port, as rdma_cm numbers services.
constexpr uint64_t service_id(PortSpace space, uint16_t port) {
  return uint64_t{static_cast<uint16_t>(space)} << 16 | port;
}

// Whether peers ask for a service of that space with a SIDR_REQ; all others are connected to.
constexpr bool is_datagram(PortSpace space) {
  return space == PortSpace::kUdp || space == PortSpace::kIpoib;
}

struct Handle {
  uint32_t index = 0;  // 0: none
  uint32_t generation = 0;
  bool operator==(const Handle&) const = default;
};

// Where a peer's connection manager is, and the local address it is spoken to from.
struct Route {
  engine::Gid source;
  engine::Gid destination;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  // 20 bits
};

// What both ends tell each other about their queue pairs, in REQ and REP.
struct QpParameters {
  uint32_t qpn = 0;                 // 24 bits
  uint32_t qkey = 0;                // SIDR and REP of datagram services
  uint32_t starting_psn = 0;        // 24 bits: where the receiver of this starts to send (IBA 12.6)
  uint8_t responder_resources = 0;  // READs and atomics the sender of this can serve
  uint8_t initiator_depth = 0;      // READs and atomics it will have outstanding
  uint8_t retry_count = 7;          // REQ only, 3 bits
  uint8_t rnr_retry_count = 7;      // 3 bits
  bool flow_control = true;
  bool srq = false;
};

enum class Transport : uint8_t { kRc = 0, kUc = 1, kXrc = 3 };

struct ConnectRequest {
  Route route;
  // As the program names both ends, for the IP header; all zero: those of the route. They differ
  // when a device stands for a loopback address.
  engine::Gid source_address, destination_address;
  PortSpace space = PortSpace::kTcp;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  Transport transport = Transport::kRc;
  QpParameters qp;
  uint8_t path_mtu = 3;      // code 1..5: 256..4096
  uint8_t ack_timeout = 19;  // 5 bits, of the path: packet life time + 1
  uint16_t pkey = 0xffff;
  std::vector<uint8_t> private_data;  // at most 56 bytes; SIDR (kUdp, kIpoib): at most 180
};

// A REQ or SIDR_REQ as the listener sees it.
struct Incoming {
  Handle listener;
  Route route;  // from here to the peer
  PortSpace space = PortSpace::kTcp;
  uint16_t source_port = 0;         // the peer's
  uint16_t destination_port = 0;    // ours
  engine::Gid source_address;       // from the IP header: the peer's
  engine::Gid destination_address;  // ours
  Transport transport = Transport::kRc;
  bool datagram = false;  // SIDR
  QpParameters qp;        // the peer's
  uint8_t path_mtu = 3;
  uint8_t ack_timeout = 19;
  uint16_t pkey = 0xffff;
};

enum class EventType : uint8_t {
  kRequest,       // passive: a REQ (or SIDR_REQ) arrived; `incoming`, private data of full length
  kResponse,      // active: the REP arrived (answer with establish() or reject())
  kEstablished,   // passive: RTU, or the peer's first traffic was reported; active: after
                  // establish()
  kRejected,      // `status`: the REJ's reason
  kUnreachable,   // no answer to REQ or REP after all retries; `status`: -ETIMEDOUT
  kConnectError,  // the exchange broke off; `status`: negative errno
  kDisconnected,  // DREQ arrived, or our DREQ was answered or given up
  kTimewaitExit,  // the queue pair's number may be used again
  kSidrResponse,  // `status`: the SIDR status, 0 valid; qp.qpn and qp.qkey of the service
};

struct Event {
  EventType type{};
  Handle connection;
  int32_t status = 0;
  QpParameters qp;                    // kResponse, kSidrResponse, kRequest: the peer's
  std::vector<uint8_t> private_data;  // full field length, padded with zeros, as on IB
  std::optional<Incoming> incoming;   // kRequest
};

struct OutgoingMad {
  Route route;
  std::array<uint8_t, kMadBytes> bytes;
};

struct Options {
  // Comm ids, request ids: (slot << 24) | 24 bits, so that a host's broker finds the process.
  uint8_t slot = 1;
  uint64_t seed = 1;  // of the first comm ids, PSN-like values, transaction ids
  // Never 0 on the wire: rdma_cm of Linux refuses a node GUID of 0. Not the node GUID here but a
  // random number of each process: Linux knows a peer's comm ids and queue pairs by it, and keeps
  // those of a process that ended until its own time-outs, while the next process may have the same
  // slot, and a container of another host the same MAC address.
  uint64_t ca_guid = 0;
  uint32_t first_generation = 1;  // of the handles: those given out before a fork answer nothing
  uint8_t response_timeout = 20;  // 4.096 us * 2^n that a peer is given to answer
  uint8_t max_retries = 15;
  // A REQ for a port that is bound and not yet listening waits this long for the listen(): programs
  // connect between the two calls of their server.
  Duration listen_grace = milliseconds(500);
};

// State of one connection, for those that watch a process from outside (see rows()).
enum class State : uint8_t {
  kIdle,
  kReqSent,
  kRepWait,
  kReqReceived,
  kMraSent,
  kRepSent,
  kRepReceived,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
};
const char* state_name(State state);

// What somebody else must know to say goodbye for a process that was killed.
struct Row {
  State state = State::kIdle;
  Route route;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint32_t remote_qpn = 0;
  uint64_t transaction_id = 0;
};

// A row that is another than before; kIdle: empty now. `index` is small and used again.
struct ChangedRow {
  uint32_t index = 0;
  Row row;
};

class Manager {
 public:
  explicit Manager(const Options& options);
  ~Manager();

  // --- ports. The machine only matches; who owns a port on this host is the broker's business.
  // `address`: :: is any, of both families unless `one_family`; ::ffff:0.0.0.0 is any IPv4. A bound
  // port that does not listen holds requests back (grace).
  Result<Handle> bind(PortSpace space, uint16_t port, const engine::Gid& address, bool one_family);
  Result<void> listen(Handle listener, uint32_t backlog);  // backlog 0: kDefaultBacklog
  // A request counts against the backlog until the program has it: this call, accept() or any end.
  void request_taken(Handle connection);
  // Ends it; requests whose event still lies in events() are rejected (consumer) and their events
  // removed. Those given out stay connections.
  void close_listener(Instant now, Handle listener);

  // --- connections. Errors: EINVAL wrong state or handle, or private data too long; ENOMEM.
  Result<Handle> connect(Instant now, const ConnectRequest& request);  // REQ or SIDR_REQ
  Result<void> accept(Instant now, Handle connection, const QpParameters& qp,
                      std::span<const uint8_t> private_data);  // REP, or SIDR_REP with status 0
  Result<void> reject(Instant now, Handle connection, uint16_t reason,
                      std::span<const uint8_t> private_data);  // REJ; SIDR_REP status 2
  Result<void> establish(Instant now, Handle connection);      // active: RTU
  // Passive: the first message came before the RTU (COMM_EST).
  Result<void> communication_established(Instant now, Handle connection);
  Result<void> disconnect(Instant now, Handle connection);  // DREQ or, after one, DREP
  // Forgets the connection, saying to the peer what its state asks for (REJ, DREQ). The comm id
  // stays reserved through timewait. Idempotent.
  void destroy(Instant now, Handle connection);
  State state(Handle connection) const;

  // --- the machine's verbs
  // A MAD that came to QP1; anything malformed is dropped and counted.
  void receive(Instant now, const Route& back, std::span<const uint8_t> mad);
  void on_time(Instant now);
  Instant next_deadline() const;
  // MADs to send now, oldest first; taken by swapping.
  std::vector<OutgoingMad>& outgoing() { return outgoing_; }
  std::vector<Event>& events() { return events_; }

  struct Counters {
    uint64_t sent = 0, received = 0, retried = 0, duplicates = 0, malformed = 0, unknown = 0;
  };
  const Counters& counters() const { return counters_; }
  // Every connection that a peer believes in; and those that changed since this was last cleared.
  std::vector<Row> rows() const;
  std::vector<ChangedRow>& changed_rows() { return changed_rows_; }
  size_t connection_count() const;  // incl. timewait
  const Options& options() const;
  uint32_t next_generation() const;  // of the next handle
  // The cause of every REJ sent, REJ received, time-out and dropped MAD, for the explain log.
  std::vector<std::string>& explanations() { return explanations_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::vector<OutgoingMad> outgoing_;
  std::vector<Event> events_;
  std::vector<ChangedRow> changed_rows_;
  std::vector<std::string> explanations_;
  Counters counters_;
};

// --- for a host's broker, which sees MADs of all its processes ---

// Whose MAD this is: the slot of a comm id, the service that a REQ or SIDR_REQ asks for, or
// everybody's: a REJ of a peer that gave up its REQ may know no comm id but its own (IBA 12.6.7),
// by which the process that has the request knows it.
struct Destination {
  bool by_service = false;
  bool to_all = false;
  uint8_t slot = 0;         // when not by_service
  uint64_t service_id = 0;  // when by_service
  engine::Gid address;      // by_service: the destination address of its IP header
};
// Nothing when the MAD is malformed or no CM MAD at all.
std::optional<Destination> destination_of(std::span<const uint8_t> mad);

// The answer of a host where nobody is: REJ (reason 8) to a REQ, SIDR_REP (status 1) to a
// SIDR_REQ, DREP to a DREQ of a process that has gone, REJ (reason 6, invalid comm id) to a REP.
// Nothing for MADs that deserve no answer (REJ, RTU, DREP, MRA, ...).
std::optional<std::array<uint8_t, kMadBytes>> answer_for_nobody(std::span<const uint8_t> mad);

// The last MAD of a killed process about one of its connections: DREQ, or REJ while it was being
// set up. Nothing when the peer knows already.
std::optional<std::array<uint8_t, kMadBytes>> farewell(const Row& row);

}  // namespace verbena::cm
