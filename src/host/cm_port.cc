// Each call: lock, the machine's verb, what it wants to say, unlock.
#include "host/cm_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <optional>
#include <utility>

#include "base/plain_socket.h"
#include "broker/ports.h"
#include "host/process.h"
#include "host/process_state.h"

namespace verbena::host {
namespace {

broker::Service service(cm::PortSpace space, uint16_t port, const engine::Gid& address,
                        uint32_t flags) {
  broker::Service out;
  out.space = static_cast<uint16_t>(space);
  out.port = port;
  out.flags = flags;
  memcpy(out.address, address.bytes.data(), sizeof(out.address));
  return out;
}

tl::unexpected<Error> forked_away() {
  return fail(EINVAL, "this process is a fork of the id's owner");
}

// --- one process's table

class ProcessCmPort final : public CmPort {
 public:
  void sink(Sink sink) override {
    Process::Guard guard(process_);
    process_.cm_sink(sink);
  }
  void forked(Forked forked) override { process_.cm_forked(forked); }
  Result<void> open() override { return process_.open_connections(); }

  Result<CmBinding> bind(cm::PortSpace space, uint16_t port, const engine::Gid& address, bool reuse,
                         bool one_family) override;
  Result<void> listen(const CmBinding& binding, uint32_t backlog) override;
  void release(const CmBinding& binding) override;
  uint16_t ephemeral_port() override;

  Result<cm::Handle> connect(const cm::ConnectRequest& request,
                             const std::function<void(cm::Handle)>& known) override {
    return with([&](cm::Manager& cm, Instant now) {
      Result<cm::Handle> made = cm.connect(now, request);
      if (made && known) known(*made);
      return made;
    });
  }
  void request_taken(cm::Handle connection) override {
    Process::Guard guard(process_);
    if (Connections* connections = process_.connections())
      connections->manager().request_taken(connection);
  }
  Result<void> accept(cm::Handle connection, const cm::QpParameters& qp,
                      std::span<const uint8_t> data) override {
    return with([&](cm::Manager& cm, Instant now) { return cm.accept(now, connection, qp, data); });
  }
  Result<void> reject(cm::Handle connection, uint16_t reason,
                      std::span<const uint8_t> data) override {
    return with(
        [&](cm::Manager& cm, Instant now) { return cm.reject(now, connection, reason, data); });
  }
  Result<void> establish(cm::Handle connection) override {
    return with([&](cm::Manager& cm, Instant now) { return cm.establish(now, connection); });
  }
  Result<void> communication_established(cm::Handle connection) override {
    return with([&](cm::Manager& cm, Instant now) {
      return cm.communication_established(now, connection);
    });
  }
  Result<void> disconnect(cm::Handle connection) override {
    return with([&](cm::Manager& cm, Instant now) { return cm.disconnect(now, connection); });
  }
  void destroy(cm::Handle connection) override {
    Process::Guard guard(process_);
    if (Connections* connections = process_.connections()) {
      connections->manager().destroy(process_.now(), connection);
      process_.say();
    }
  }

  Result<LocalEnd> local_end(const engine::Gid& source, const engine::Gid& destination,
                             uint32_t scope_id) override;
  int wait_readable(int fd) override { return process_.wait_readable(fd); }
  void explain(const std::string& text) override { process_.explain(text); }
  bool explaining() const override { return process_.explaining(); }

 private:
  // The machine's call, under the lock, with what follows from it.
  template <typename Call>
  auto with(Call call) -> decltype(call(std::declval<cm::Manager&>(), Instant{})) {
    if (Result<void> opened = open(); !opened) return tl::unexpected<Error>(opened.error());
    Process::Guard guard(process_);
    Connections* connections = process_.connections();
    if (connections == nullptr) return forked_away();
    auto result = call(connections->manager(), process_.now());
    process_.say();
    return result;
  }

  // Asks the broker and waits for its answer without the lock: a broker that is stopped must not
  // keep the engine from its timers. `settle` has the lock, and nothing came between it and the
  // broker's answer. Errors: ETIMEDOUT; what the broker said yes to then is given back.
  template <typename Settle>
  auto ask_broker(const broker::Service& wanted, Settle settle)
      -> decltype(settle(std::declval<Connections&>(), uint16_t{}));

  Process& process_ = Process::get();
  uint16_t next_port_ = 0;
};

template <typename Settle>
auto ProcessCmPort::ask_broker(const broker::Service& wanted, Settle settle)
    -> decltype(settle(std::declval<Connections&>(), uint16_t{})) {
  const Instant deadline = process_.now() + milliseconds(broker::ManagerLine::kAnswerMs);
  broker::ManagerLine::Ticket ticket = 0;
  while (true) {
    pollfd line{-1, POLLIN, 0};
    {
      Process::Guard guard(process_);
      Connections* connections = process_.connections();
      if (connections == nullptr) return forked_away();
      if (ticket == 0) ticket = connections->line().ask(wanted);
      process_.hear_broker();
      if (std::optional<Result<uint16_t>> said = connections->line().answer(ticket)) {
        if (!*said) return tl::unexpected<Error>(said->error());
        return settle(*connections, **said);
      }
      if (process_.now() >= deadline) {
        connections->line().abandon(ticket);
        return fail(ETIMEDOUT, "the broker does not answer (is verbena-broker stopped?)");
      }
      line.fd = connections->line().fd();
    }
    // Another thread may take the answer from the line, and then nothing rings here.
    constexpr int kLookMs = 1;
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    ::poll(&line, 1, kLookMs);
    ::pthread_setcancelstate(cancel_state, nullptr);
  }
}

Result<CmBinding> ProcessCmPort::bind(cm::PortSpace space, uint16_t port,
                                      const engine::Gid& address, bool reuse, bool one_family) {
  if (Result<void> opened = open(); !opened) return tl::unexpected<Error>(opened.error());
  const uint32_t flags = (reuse ? uint32_t{broker::kServiceReuse} : 0) |
                         (one_family ? uint32_t{broker::kServiceOneFamily} : 0);
  broker::Service wanted = service(space, port, address, flags);
  return ask_broker(wanted, [&](Connections& connections, uint16_t bound) -> Result<CmBinding> {
    wanted.port = bound;
    Result<cm::Handle> listener = connections.manager().bind(space, bound, address, one_family);
    if (!listener) {
      connections.line().release(wanted);
      return tl::unexpected<Error>(listener.error());
    }
    connections.ports()[listener->generation] = wanted;
    return CmBinding{*listener, bound};
  });
}

Result<void> ProcessCmPort::listen(const CmBinding& binding, uint32_t backlog) {
  broker::Service service;
  {
    Process::Guard guard(process_);
    Connections* connections = process_.connections();
    if (connections == nullptr) return forked_away();
    const auto known = connections->ports().find(binding.listener.generation);
    if (known == connections->ports().end()) return fail(EINVAL, "the port was given back");
    service = known->second;
  }
  service.flags |= broker::kServiceListens;
  return ask_broker(service, [&](Connections& connections, uint16_t) -> Result<void> {
    Result<void> listens = connections.manager().listen(binding.listener, backlog);
    process_.say();
    return listens;
  });
}

void ProcessCmPort::release(const CmBinding& binding) {
  Process::Guard guard(process_);
  Connections* connections = process_.connections();
  if (connections == nullptr) return;
  const auto known = connections->ports().find(binding.listener.generation);
  if (known == connections->ports().end()) return;
  connections->manager().close_listener(process_.now(), binding.listener);
  connections->line().release(known->second);
  connections->ports().erase(known);
  process_.say();
}

uint16_t ProcessCmPort::ephemeral_port() {
  constexpr uint16_t kFirst = broker::PortTable::kFirstEphemeral;
  constexpr uint16_t kCount = broker::PortTable::kLastEphemeral - kFirst + 1;
  Process::Guard guard(process_);
  if (next_port_ == 0) next_port_ = static_cast<uint16_t>(process_.now().ns() % kCount);
  next_port_ = static_cast<uint16_t>((next_port_ + 1) % kCount);
  return static_cast<uint16_t>(kFirst + next_port_);
}

Result<CmPort::LocalEnd> ProcessCmPort::local_end(const engine::Gid& source,
                                                  const engine::Gid& destination,
                                                  uint32_t scope_id) {
  Result<engine::Gid> from = source_of_route(source, destination, scope_id);
  if (!from) return tl::unexpected<Error>(from.error());
  LocalEnd local;
  local.source = *from;
  Process::Guard guard(process_);
  local.interface_index = process_.interface_of(local.source);
  if (local.interface_index == 0) local.interface_index = scope_id;
  ifreq request{};
  if (::if_indextoname(local.interface_index, request.ifr_name) != nullptr) {
    link::Fd probe(plain_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe.valid() && ::ioctl(probe.get(), SIOCGIFMTU, &request) == 0)
      local.mtu = static_cast<uint32_t>(request.ifr_mtu);
  }
  return local;
}

}  // namespace

CmPort& cm_port() {
  static CmPort& port = *new ProcessCmPort;  // never destroyed, as Process
  return port;
}

}  // namespace verbena::host
