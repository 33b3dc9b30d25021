// The one place that knows every algorithm.
#include "engine/congestion/dcqcn.h"
#include "engine/congestion/hpcc.h"
#include "engine/congestion/swift.h"

namespace verbena::engine {

std::unique_ptr<CongestionControl> make_control(const CongestionSettings& settings,
                                                const FlowShape& shape) {
  switch (settings.algorithm) {
    case CongestionSettings::kDcqcn:
      return std::make_unique<Dcqcn>(settings.dcqcn, shape.port_rate);
    case CongestionSettings::kSwift:
      return std::make_unique<Swift>(settings.swift, shape);
    case CongestionSettings::kHpcc:
      return std::make_unique<Hpcc>(settings.hpcc, shape);
    case CongestionSettings::kNone:
      break;
  }
  return nullptr;
}

}  // namespace verbena::engine
