// GIDs as people write them (RFC 5952), without any system header.
#include "engine/address.h"

#include <fmt/format.h>

namespace verbena::engine {

namespace {

struct Run {
  int start = -1, length = 1;  // one zero group alone is written out
};

Run longest_zero_run(const uint16_t (&groups)[8]) {
  Run best, current{0, 0};
  for (int i = 0; i < 8; ++i) {
    current = groups[i] == 0 ? Run{current.start, current.length + 1} : Run{i + 1, 0};
    if (current.length > best.length) best = current;
  }
  return best;
}

}  // namespace

std::string address_text(const Gid& gid) {
  const auto& b = gid.bytes;
  if (gid.is_ipv4()) return fmt::format("{}.{}.{}.{}", b[12], b[13], b[14], b[15]);
  uint16_t groups[8];
  for (int i = 0; i < 8; ++i) groups[i] = static_cast<uint16_t>(b[2 * i] << 8 | b[2 * i + 1]);
  Run zeros = longest_zero_run(groups);
  std::string text;
  for (int i = 0; i < 8; ++i) {
    if (i == zeros.start) {
      text += "::";
      i += zeros.length - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    text += fmt::format("{:x}", groups[i]);
  }
  return text;
}

}  // namespace verbena::engine
