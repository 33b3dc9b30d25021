// Statistics over samples; see samples.h.
#include "sim/samples.h"

#include <algorithm>
#include <cmath>

namespace verbena::sim {

double PortSeries::mean() const {
  if (queue_bytes.size() <= skip) return 0;
  double sum = 0;
  for (size_t i = skip; i < queue_bytes.size(); ++i) sum += queue_bytes[i];
  return sum / static_cast<double>(queue_bytes.size() - skip);
}

double PortSeries::deviation() const {
  if (queue_bytes.size() <= skip) return 0;
  double middle = mean(), sum = 0;
  for (size_t i = skip; i < queue_bytes.size(); ++i)
    sum += (queue_bytes[i] - middle) * (queue_bytes[i] - middle);
  return std::sqrt(sum / static_cast<double>(queue_bytes.size() - skip));
}

uint64_t PortSeries::percentile(double share) const {
  if (queue_bytes.size() <= skip) return 0;
  std::vector<uint32_t> sorted(queue_bytes.begin() + static_cast<std::ptrdiff_t>(skip),
                               queue_bytes.end());
  auto rank = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(rank),
                   sorted.end());
  return sorted[rank];
}

uint64_t PortSeries::most() const {
  uint64_t most = 0;
  for (size_t i = skip; i < queue_bytes.size(); ++i)
    most = std::max<uint64_t>(most, queue_bytes[i]);
  return most;
}

bool Samples::full() const {
  return at.size() % 2 == 0 && (at.size() >= kMost || at.size() * ports.size() >= kMostOfPorts);
}

namespace {

template <typename T>
void halve(std::vector<T>& series) {
  for (size_t i = 0; 2 * i + 1 < series.size(); ++i) series[i] = series[2 * i + 1];
  series.resize(series.size() / 2);
}

}  // namespace

void Samples::thin() {
  interval *= 2;
  halve(at);
  for (PortSeries& port : ports) {
    halve(port.queue_bytes);
    halve(port.stopped);
    port.skip /= 2;
  }
  for (FlowSeries& flow : flows) {
    halve(flow.received);
    halve(flow.rates);
    halve(flow.alphas);
  }
  halve(received_bytes);
  halve(paused_ports);
  halve(rates);
  halve(alphas);
}

}  // namespace verbena::sim
