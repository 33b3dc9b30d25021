// What clients and broker say to each other over the abstract SEQPACKET socket: one request, one
// reply, descriptors beside them. Both ends are of one build; the version number refuses others.
#pragma once

#include <cstdint>

namespace verbena::broker {

inline constexpr uint32_t kProtocolMagic = 0x61627256;  // "Vrba"
inline constexpr uint16_t kProtocolVersion = 2;
// Abstract name (no file, scope = network namespace, as the address it serves). The number is the
// protocol version, so brokers of different versions do not meet.
inline constexpr char kDefaultName[] = "verbena-2";

enum class RequestType : uint16_t {
  kAttach = 1,    // fds: segment, eventfd -> lease; fds back: host page, udp4, [udp6]
  kReclaim = 2,   // after the broker died: the same lease again, by token
  kOpenPeer = 3,  // slot -> fds: segment, eventfd
  kDetach = 4,
  kObserve = 5,  // no lease; fds back: host page. kOpenPeer is then allowed (verbena stats)
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

}  // namespace verbena::broker
