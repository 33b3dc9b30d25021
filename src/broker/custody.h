// What must survive the broker: slot sockets, the host page and the leases. The broker and its
// standby each hold one Custody; the broker tells the standby every change before it answers the
// client who asked for it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "broker/protocol.h"
#include "broker/slot_sockets.h"
#include "link/host_page.h"

namespace verbena::broker {

struct LeaseRow {
  bool used = false;
  uint64_t token = 0;
  uint32_t generation = 0;
  link::Fd segment;
  link::Fd wakeup;      // eventfd
  link::Fd process;     // pidfd; not valid where the kernel has none
  int connection = -1;  // the broker's; the standby has none
  int manager = -1;     // the connection of its connection manager, likewise
};

// A change on its way to the standby. Descriptors: kSockets udp4, [udp6]; kLease segment, wakeup,
// [process].
struct Update {
  enum class Type : uint32_t { kSockets, kLease, kFree, kQuit };
  Type type{};
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint32_t reserved = 0;
  uint64_t token = 0;
};

struct Claim;

class Custody {
 public:
  // Fresh state: groups bound, host page made.
  Result<void> open(uint16_t port);
  // The state of processes that have handed over all sockets on the port (restoration.h). On an
  // error what the claims had is lost.
  Result<void> restore(uint16_t port, std::vector<Claim>& claims);

  SocketGroup& sockets() { return sockets_; }
  link::HostPage& page() { return *page_; }
  int page_fd() const { return page_fd_.get(); }
  LeaseRow& lease(uint32_t slot) { return leases_[slot]; }
  uint32_t lease_count() const { return lease_count_; }

  std::optional<uint32_t> lowest_free() const;
  std::optional<uint32_t> find(uint64_t token) const;

  // Fills the row and publishes it on the host page.
  void grant(uint32_t slot, const Request& request, uint32_t uid, LeaseRow row);
  // The standby's half of grant(): the host page is already written.
  void record(uint32_t slot, LeaseRow row);
  // Ends the lease: host page, multicast memberships, stale datagrams. `publish` false in the
  // standby, which only forgets.
  void release(uint32_t slot, bool publish);
  // The owner gave its slot back while no broker answered.
  bool released_by_owner(uint32_t slot) const;

 private:
  Result<void> make_page();
  void publish(uint32_t slot, const Request& request, uint32_t uid, LeaseRow row);
  void change_groups(uint32_t slot, bool join);

  SocketGroup sockets_;
  link::Fd page_fd_;
  link::HostPage* page_ = nullptr;
  std::array<LeaseRow, link::kSlots> leases_;
  uint32_t lease_count_ = 0;
};

}  // namespace verbena::broker
