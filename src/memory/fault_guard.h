// Registered memory that the program unmapped, protected or truncated while it was registered. An
// adapter has pinned such pages and never notices; here the first packet that touches them would
// kill the program. Copies run under a guard that turns the fault into a refusal.
//
// The guard is a handler for SIGSEGV and SIGBUS that knows its own copies and hands everything else
// to the handler that was there before. A program that sets its own handler later replaces it, and
// is back to dying from its own mistake.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::memory {

// Once per process; later calls do nothing. Without it guarded() just calls.
void install_fault_guard();

// Calls `body(argument)`. False: it touched memory that is not there, and was abandoned at that
// point: it must hold no lock and own nothing. Not to be nested.
bool run_guarded(void (*body)(void*), void* argument);

template <typename Body>
bool guarded(Body body) {
  return run_guarded([](void* b) { (*static_cast<Body*>(b))(); }, &body);
}

// Whether every page of the range can be read or written now. Writing changes no byte. True for
// everything while no guard is installed.
bool present(const uint8_t* address, size_t length, bool write);

}  // namespace verbena::memory
