// The one place that knows every algorithm.
#include "engine/congestion/dcqcn.h"

namespace verbena::engine {

std::unique_ptr<CongestionControl> make_control(const CongestionSettings& settings,
                                                uint64_t port_rate) {
  switch (settings.algorithm) {
    case CongestionSettings::kDcqcn:
      return std::make_unique<Dcqcn>(settings.dcqcn, port_rate);
    case CongestionSettings::kNone:
    case CongestionSettings::kSwift:
    case CongestionSettings::kHpcc:
      break;
  }
  return nullptr;
}

}  // namespace verbena::engine
