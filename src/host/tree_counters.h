// The counter files of a generated tree follow the traffic. Any number of processes run in one
// tree, so each adds what it counted since it last wrote, under a lock on the tree's root: a file
// holds the sum over all processes, also those that have ended, as an adapter's counter would.
//
// Files are written in place, because programs keep them open and read them again; and their length
// never changes, because others read to the end in two steps, and a number that grew between the
// two would give the second its last digit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::host {

// How old a counter file may be, in milliseconds: what hw_counters/lifespan says (Linux's default)
// and the pace at which a process at rest publishes.
inline constexpr int kCounterLifespanMs = 10;

// A file's content: the number in decimal, and line breaks up to kCounterBytes. A shell's $(), and
// everybody who takes one line, drops those.
inline constexpr size_t kCounterBytes = 21;  // 20 digits and a line break
std::string counter_text(uint64_t value);

struct CounterDelta {
  std::string_view name;  // [A-Za-z0-9_]+
  uint64_t added = 0;     // in the file's unit; a file wraps at 2^64
};

// The factor from the engine's unit to the file's: 4 for the bytes of port_xmit_data and
// port_rcv_data, which sysfs gives in 4-byte words (IBA 16.1.3.5 PortXmitData), else 1.
uint64_t counter_divisor(std::string_view name);

// An exclusive hold of one tree's counters. Never waits.
class TreeCounters {
 public:
  // Errors: EWOULDBLOCK another process is writing, otherwise the errno of open(2).
  static Result<TreeCounters> lock(const std::string& tree);
  TreeCounters(TreeCounters&& other) noexcept;
  TreeCounters& operator=(TreeCounters&&) = delete;
  ~TreeCounters();

  // Adds to the counters of port 1 of `device`; a missing file is created. The number of files
  // written. Errors: EINVAL a bad name, ENOENT no such device in the tree, otherwise the errno of
  // the file operation; counters before the bad one have been added.
  Result<size_t> add(const std::string& device, std::span<const CounterDelta> counters);

 private:
  explicit TreeCounters(int root) : root_(root) {}
  int root_;  // the tree's directory, locked
};

}  // namespace verbena::host
