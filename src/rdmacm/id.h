// The objects behind librdmacm's public structs. A program's rdma_cm_id is the head of an Id; what
// the connection manager reports reaches it through a channel, from whichever thread drives the
// engine.
//
// Locks: one for all objects here (`library()`), taken after the process lock, never before it: no
// verbs call and no call of the CmPort is made while it is held.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host/cm_port.h"

namespace verbena::rdmacm {

inline constexpr int kResolveMs = 2000;          // of calls that the program does not time
inline constexpr uint16_t kConsumerReject = 28;  // IBA 12.6.7.2

// Of this process; the first call directs the connection manager's events here.
host::CmPort& port();

struct Id;

// An event on its way to the program, which sees its head.
struct Record : rdma_cm_event {
  Id* owner = nullptr;  // whose destruction waits for the acknowledgement
  std::vector<uint8_t> data;
  cm::QpParameters peer;
  std::optional<engine::Gid> group;  // of a multicast event
  cm::EventType cause{};
  bool from_cm = false;
};

struct Channel : rdma_event_channel {
  std::deque<std::unique_ptr<Record>> records;
  uint32_t waiters = 0;    // threads inside rdma_get_cm_event
  bool abandoned = false;  // destroyed by the program; the last waiter frees it
  uint32_t generation = 0;

  Channel() { fd = -1; }
  ~Channel();  // closes fd
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
};

enum class Stage : uint8_t {
  kIdle,
  kBound,
  kResolved,
  kRouted,
  kConnecting,
  kConnected,
  kListening,
};

struct Group {
  engine::Gid gid;
  void* context = nullptr;
  bool attached = false;
  ibv_qp* qp = nullptr;  // that it was attached with
};

struct Id : rdma_cm_id {
  Stage stage = Stage::kIdle;
  std::unique_ptr<Channel> own_channel;  // when the program gave none: calls wait (synchronous id)
  cm::Handle connection;
  std::optional<host::CmBinding> binding;
  engine::Gid source, destination;
  uint32_t scope = 0;  // interface of link-local addresses
  int gid_index = 0;
  uint8_t path_mtu = 3;  // code, of the port or, from a REQ, of the connection
  uint8_t rate = 0;      // of the port, IBTA code
  uint32_t psn = 0;      // that we announced: the peer starts to send at it (IBA 12.6.5)
  cm::QpParameters peer;
  // As agreed: READs and atomics that we serve, and that we have outstanding.
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t retry_count = 7, rnr_retry_count = 7;
  std::optional<uint8_t> ack_timeout;  // as the program asked
  uint8_t path_timeout = 17;           // of the path: its packet life time, as Linux 6.2's, + 1
  uint8_t tos = 0;
  bool reuse = false, one_family = false;
  bool passive = false;
  bool answered = false;  // passive: rdma_accept has been called
  // rdma_create_ep of a listener: what its requests get.
  ibv_pd* request_pd = nullptr;
  std::optional<ibv_qp_init_attr> request_qp;
  std::vector<uint8_t> connect_data;  // rdma_addrinfo's ai_connect
  ibv_sa_path_rec path{};
  uint32_t unacknowledged = 0;
  uint32_t generation = 0;
  std::vector<Group> groups;
  uint8_t max_responder_resources = 0, max_initiator_depth = 0;  // of the device

  Channel& events() { return *static_cast<Channel*>(channel); }
  bool synchronous() const { return own_channel != nullptr; }
  bool datagram() const { return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB; }
  // What the connection carries: the queue pair's type once there is one.
  ibv_qp_type type() const { return qp != nullptr ? qp->qp_type : qp_type; }
};

inline Id* of(rdma_cm_id* id) {
  return static_cast<Id*>(id);
}

std::mutex& library();
using Lock = std::lock_guard<std::mutex>;

// --- events (channel.cc)
int open_channel(Channel& channel);                 // 0 or errno
void push(Id& id, std::unique_ptr<Record> record);  // library() held
// An event of our own making: address resolved, route resolved.
void report(Id& id, rdma_cm_event_type type, int status = 0);
// A request that the program takes now gets its channel: its listener's or, of a synchronous
// listener, one of its own. 0 or errno.
int give_channel(Id& child, Id& listener);
// Queued events that name the id, removed; the children of removed requests. library() held.
std::vector<Id*> forget_events(Id& id);
// Those that wait go to the channel `to`. library() held.
void move_events(Id& id, Channel& to);
// Waits until the program has acknowledged every event of the id.
void await_acknowledgements(Id& id);
// Waits for the event of a synchronous id and keeps it in id->event. 0, or -1 with errno.
int complete(Id& id);

// --- what the connection manager says (from_cm.cc)
void on_cm_event(cm::Event&& event);  // the sink
// What the event asks of the id's queue pair, on the thread of the program that takes it. May turn
// it into another event; false: it is none of the program's business.
bool act(Record& record);
// Which id a connection or a listener belongs to.
void enter(const cm::Handle& handle, Id& id);  // library() held
void leave(const cm::Handle& handle);

// --- devices (devices.cc)
// Gives the id the device that has its source address. 0; ENODEV when none has; what kept one from
// being opened.
int take_device(Id& id);
// For a loopback address that no device has, as Linux does: any device's address of that family
// stands for both ends. 0; ENODEV.
int take_device_for_loopback(Id& id);
void take_context(Id& id, ibv_context* context);
// 0; EADDRNOTAVAIL: no address of this host; what kept from finding out (EMFILE).
int check_local(const engine::Gid& address);
ibv_xrcd* default_xrcd(ibv_context* context);  // null with errno

// --- addresses (address.cc)
std::optional<engine::Gid> gid_of(const sockaddr* address);  // nothing: a family we do not have
uint16_t port_of(const sockaddr* address);
uint32_t scope_of(const sockaddr* address);
void set_port(sockaddr* address, uint16_t port);
void fill_address(sockaddr_storage& to, const engine::Gid& gid, uint16_t port, uint32_t scope);
socklen_t length_of(const sockaddr* address);  // 0: unknown family
bool is_any(const engine::Gid& gid);           // of either family
ibv_gid to_verbs(const engine::Gid& gid);
std::string text_of(const engine::Gid& gid);  // "192.0.2.2" or "fd00::2"
// "192.0.2.1:40000 -> 192.0.2.2:7471", only the first half before a destination is known, "" of an
// id without any address.
std::string addresses_of(const rdma_cm_id& id);

// --- queue pairs (qp.cc); 0 or errno
int to_rtr(Id& id);
int to_rts(Id& id);
void to_error(Id& id);
void drop_queues(Id& id);  // the completion queues that the id made, unless something uses them
ibv_ah_attr address_handle(const Id& id, const engine::Gid& destination);

// --- multicast (multicast.cc)
void act_on_join(Record& record);
void leave_all_groups(Id& id);

// --- ids (identity.cc). Null with errno. `channel` null: a synchronous id.
Id* make_id(rdma_event_channel* channel, void* context, rdma_port_space space, ibv_qp_type qp_type);
// As that, without any channel: of a request.
Id* make_bare_id(void* context, rdma_port_space space, ibv_qp_type qp_type);
void discard(Id& id);   // ends one that the program has never seen
void release(Id& id);   // gives back what it has of the connection manager
uint32_t generation();  // how many forks lie between

// --- refusals (library.cc): -1, errno, and (where the call is named) a line in the explain log:
// "CALL (the id's addresses): why (EINVAL)"
int refuse(int error);
int refuse(int error, const char* call, const std::string& why);
int refuse(const char* call, const Error& error);
int refuse(const rdma_cm_id& id, int error, const char* call, const std::string& why);
int refuse(const rdma_cm_id& id, const char* call, const Error& error);
int refuse_null(const char* call);  // EINVAL: a pointer that must not be null

}  // namespace verbena::rdmacm
