// Why connection managers say no, in words: the reasons of a REJ and the statuses of a SIDR_REP.
// One table for the explain log, which tells the short text, and `verbena explain`, which tells
// all.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace verbena::cm {

// Reasons of a REJ that this machine gives (IBA 12.6.7.2).
inline constexpr uint16_t kRejTimeout = 4, kRejInvalidCommId = 6, kRejInvalidService = 8,
                          kRejInvalidTransport = 9, kRejStale = 10, kRejInvalidGid = 12,
                          kRejInvalidMtu = 26, kRejConsumer = 28, kRejDuplicateCommId = 30;
// SIDR status (IBA 12.11.2.2).
inline constexpr uint8_t kSidrValid = 0, kSidrUnsupported = 1, kSidrReject = 2;

struct Reason {
  uint16_t number;
  const char* name;    // as in Linux: "IB_CM_REJ_STALE_CONN"
  const char* text;    // what it says, half a line
  const char* causes;  // one per line
  const char* change;  // what to do, one per line
};

std::span<const Reason> reject_reasons();  // in numeric order: 1 to 33, and 35
std::span<const Reason> sidr_statuses();   // in numeric order: 1 to 5

// "REJ 8 (invalid service ID: nothing listens on that port)". A number that no table has: "REJ 77
// (no reason that the standard knows)".
std::string reject_text(uint16_t reason);
// The same of a SIDR status other than 0: "SIDR status 1 (...)".
std::string sidr_text(uint8_t status);

}  // namespace verbena::cm
