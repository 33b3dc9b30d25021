// Is a GID one of this host's own, and is there a route to one that is not? The first decides
// between shared memory and the network, the second lets a wrong address fail at connect with a
// sentence instead of minutes later with RETRY_EXC_ERR.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/address.h"

namespace verbena::host {

class HostAddresses {
 public:
  // Whether `gid` is an address of this network namespace (127.0.0.0/8 is). Reads the interfaces
  // again when the answer would be no: addresses come and go.
  bool contains_now(const engine::Gid& gid);
  // The same for the data path: reads the interfaces at most once a second.
  bool contains(Instant now, const engine::Gid& gid);
  // The interface that has the address; 0 when none has.
  uint32_t interface_of(const engine::Gid& gid);

 private:
  struct Entry {
    engine::Gid gid;
    uint32_t interface_index;
  };
  const Entry* find(const engine::Gid& gid) const;
  void refresh();

  std::vector<Entry> entries_;  // sorted by GID
  Instant refreshed_ = kLongAgo;
  engine::Gid last_miss_;  // memory of one: a datagram queue pair repeats its destination
};

// Asks the kernel whether packets from `route.source` can leave for `route.destination`; sends
// nothing. `interface_index` is the scope of link-local addresses. Errors: EINVAL GIDs of different
// families, EADDRNOTAVAIL the source is no longer an address of this host, ENETUNREACH and
// EHOSTUNREACH no route, EACCES a broadcast address or a prohibiting route.
Result<void> check_route(const engine::AddressVector& route, uint32_t interface_index);

// The address from which the kernel would send to `destination`: `wanted` itself, if it is not all
// zero. Errors as check_route().
Result<engine::Gid> source_of_route(const engine::Gid& wanted, const engine::Gid& destination,
                                    uint32_t interface_index);

}  // namespace verbena::host
