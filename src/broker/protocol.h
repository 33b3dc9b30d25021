// What clients and broker say to each other over the abstract SEQPACKET socket: one request, one
// reply, descriptors beside them. Both ends are of one build; the version number refuses others.
#pragma once

#include <cstdint>

#include "wire/cm_mad.h"

namespace verbena::broker {

inline constexpr uint32_t kProtocolMagic = 0x61627256;  // "Vrba"
inline constexpr uint16_t kProtocolVersion = 4;
// Abstract name (no file, scope = network namespace, as the address it serves). The number is the
// protocol version, so brokers of different versions do not meet.
inline constexpr char kDefaultName[] = "verbena-4";

enum class RequestType : uint16_t {
  kAttach = 1,  // fds: segment, eventfd -> lease; fds back: host page, udp4, [udp6]
  // After the broker died: the same lease again, by token. fds: segment, eventfd, udp4, [udp6], for
  // a broker that knows no lease; fds back: as of kAttach, and they may be others than before.
  kReclaim = 2,
  kOpenPeer = 3,  // slot -> fds: segment, eventfd
  kDetach = 4,
  kObserve = 5,  // no lease; fds back: host page. kOpenPeer is then allowed (verbena stats)
  // A second connection of a process, for its connection manager: names the lease by token and
  // slot. Afterwards the broker sends MadMessages on it, and it takes the two below.
  kManage = 6,
  kBindPort = 7,     // service -> reply.slot is the port
  kReleasePort = 8,  // service, as it was bound
};

enum ServiceFlags : uint32_t {
  kServiceReuse = 1,      // may share the port with others that say so, until one listens
  kServiceOneFamily = 2,  // [::] without IPv4
  kServiceListens = 4,    // of a port bound before by the same process: it listens from now on
  kServiceAgain = 8,      // told to a new broker; the port is this process's already
};

// A port of one rdma_cm port space on one address of this host.
struct Service {
  uint16_t space = 0;        // cm::PortSpace
  uint16_t port = 0;         // kBindPort: 0 lets the broker choose
  uint32_t flags = 0;        // ServiceFlags
  uint8_t address[16] = {};  // GID form; :: or ::ffff:0.0.0.0 is any
};

struct Request {
  uint32_t magic = kProtocolMagic;
  uint16_t version = kProtocolVersion;
  RequestType type{};
  uint64_t token = 0;  // random, chosen by the client: names its lease
  uint64_t pid_namespace = 0;
  uint64_t access_class = 0;
  uint64_t start_time = 0;
  int32_t pid = 0;    // in the client's PID namespace
  uint32_t slot = 0;  // kReclaim, kOpenPeer
  uint32_t local_ok = 0;
  uint32_t sequence = 0;  // counts the requests of a process; never 0
  Service service;        // kBindPort, kReleasePort
};

struct Reply {
  uint32_t magic = kProtocolMagic;
  uint16_t version = kProtocolVersion;
  RequestType type{};  // of the request
  int32_t error = 0;   // errno; 0 = done
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint32_t sequence = 0;  // of the request; 0: said unasked, before hanging up
  char text[1000] = {};   // of an error, ends with 0
};

inline constexpr uint32_t kMadMagic = 0x6d627256;  // "Vrbm"

// A management datagram that came to QP1 for a process, with its addresses.
struct MadMessage {
  uint32_t magic = kMadMagic;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint16_t reserved = 0;
  uint8_t source[16] = {};       // the peer, GID form
  uint8_t destination[16] = {};  // this host
  uint8_t mad[wire::kMadBytes] = {};
};

}  // namespace verbena::broker
