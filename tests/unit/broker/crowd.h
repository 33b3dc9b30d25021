// Processes that hold slots, and datagrams that find out whether the kernel routes to them exactly.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "lab.h"

namespace verbena::broker {

// Sends twelve bytes of BTH, enough for the kernel's filter. As sendto(2).
int send_to_slot(int socket, uint32_t qpn, uint8_t mark);

// Datagrams for `slot` that arrive within `timeout_ms` of each other; -1 when one is for another.
int count_arrivals(int socket, uint8_t slot, int expected, int timeout_ms = 1000);

// A process that attaches, says its slot, keeps its lease and answers commands until told to end:
// "count N", "open SLOT", "die" without giving the slot back, "leave".
void slot_owner(int socket);

struct Crowd {
  std::deque<lab::Child> children;
  std::vector<int> slots;

  explicit Crowd(int count);
  // 100 packets to every child but those `except`; true when each got exactly its own.
  ::testing::AssertionResult routes_exactly(const std::set<size_t>& except = {});
};

}  // namespace verbena::broker
