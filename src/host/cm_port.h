// What librdmacm uses of the process beside it: the connection manager's machine, its ports and the
// events, behind one table of virtual calls, because the two libraries are linked apart and share
// no other symbol than verbena_rdmacm_port() (version node VERBENA_PRIVATE). Both are of one build.
//
// Calls take the process lock themselves. Events come on whichever thread drives the engine, with
// that lock held: the sink may take locks of its own and wake people, and must not call back.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "cm/manager.h"

namespace verbena::host {

// A port of this host, as bind() gave it.
struct CmBinding {
  cm::Handle listener;
  uint16_t port = 0;
};

class CmPort {
 public:
  // Where events go; null: nowhere. Once, before any other call.
  using Sink = void (*)(cm::Event&& event);
  virtual void sink(Sink sink) = 0;
  // Called in a forked child when the parent's connections and ports have been given up: handles of
  // before answer EINVAL.
  using Forked = void (*)();
  virtual void forked(Forked forked) = 0;

  // Takes a slot and opens the line to the broker; later calls are cheap. Every call below does it
  // by itself. Errors: those of Process::attach().
  virtual Result<void> open() = 0;

  // Takes `port` (0: any) of the port space for this process. `address`: a GID of this host; :: is
  // any, of both families unless `one_family`; ::ffff:0.0.0.0 is any IPv4. Errors: EADDRINUSE,
  // ENOSPC.
  virtual Result<CmBinding> bind(cm::PortSpace space, uint16_t port, const engine::Gid& address,
                                 bool reuse, bool one_family) = 0;
  // EADDRINUSE when another with `reuse` listens there.
  virtual Result<void> listen(const CmBinding& binding, uint32_t backlog) = 0;
  virtual void release(const CmBinding& binding) = 0;
  // The active side's port, which its peer sees and nothing here matches by: the next one of
  // Linux's ephemeral range, round and round, whoever else has it.
  virtual uint16_t ephemeral_port() = 0;

  // As cm::Manager's calls of the same names. `known` hears of the handle before any event of it
  // can come; called with the process lock held.
  virtual Result<cm::Handle> connect(const cm::ConnectRequest& request,
                                     const std::function<void(cm::Handle)>& known = nullptr) = 0;
  virtual void request_taken(cm::Handle connection) = 0;
  virtual Result<void> accept(cm::Handle connection, const cm::QpParameters& qp,
                              std::span<const uint8_t> private_data) = 0;
  virtual Result<void> reject(cm::Handle connection, uint16_t reason,
                              std::span<const uint8_t> private_data) = 0;
  virtual Result<void> establish(cm::Handle connection) = 0;
  virtual Result<void> communication_established(cm::Handle connection) = 0;
  virtual Result<void> disconnect(cm::Handle connection) = 0;
  virtual void destroy(cm::Handle connection) = 0;

  // The local address from which `destination` is reached (the kernel's route), and its interface.
  // `source` all zero: the kernel chooses; else it must be of this host. Errors: ENETUNREACH,
  // EHOSTUNREACH, EADDRNOTAVAIL.
  struct LocalEnd {
    engine::Gid source;
    uint32_t interface_index = 0;
    uint32_t mtu = 0;  // of the interface, bytes
  };
  virtual Result<LocalEnd> local_end(const engine::Gid& source, const engine::Gid& destination,
                                     uint32_t scope_id) = 0;

  // Waits until `fd` is readable, driving the engine meanwhile (see Process::wait_readable): what
  // rdma_get_cm_event blocks in. 0 or errno (EINTR).
  virtual int wait_readable(int fd) = 0;
  virtual void explain(const std::string& text) = 0;
  virtual bool explaining() const = 0;

 protected:
  ~CmPort() = default;
};

CmPort& cm_port();  // of this process

}  // namespace verbena::host

// What libibverbs.so.1 exports for librdmacm.so.1 (abi/rdmacm_door.cc).
extern "C" verbena::host::CmPort* verbena_rdmacm_port();
