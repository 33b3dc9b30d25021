// Objects that can be named by handle, and how wrappers share what lies behind them.
#pragma once

#include "abi/objects.h"

namespace verbena::abi {

Handles<Pd>& pd_handles();
Handles<Mr>& mr_handles();
Handles<Dm>& dm_handles();

// One wrapper less; the last one frees the domain.
inline void release_domain(Domain* domain) {
  if (--domain->holders == 0) delete domain;
}

// An object was made in (or left) a protection domain through `pd`. An import that was undone while
// objects still named it goes with the last of them.
void enter_domain(Pd* pd);
void leave_domain(Pd* pd);
void unimport_domain(Pd* pd);

}  // namespace verbena::abi
