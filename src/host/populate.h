// On-demand regions (ODP) name memory that may not be mapped when a peer asks for it. Before such
// an access the engine asks here to make the pages present; a fault becomes an error, not a
// SIGSEGV.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::host {

// Makes the pages of [address, address + length) present, writable when `write`. False when part
// of it is not mapped, or not mapped so.
bool populate(uint8_t* address, size_t length, bool write);

}  // namespace verbena::host
