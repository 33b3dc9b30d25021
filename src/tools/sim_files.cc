// Comma-separated, one line of names first, numbers with a point; see docs/simulation.md for the
// columns.
#include "tools/sim_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tools/sim_json.h"
#include "tools/whole_file.h"

namespace verbena::tools {

using fabric::PortId;

namespace {

const char* verb_name(scenario::Verb verb) {
  switch (verb) {
    case scenario::Verb::kWrite:
      return "write";
    case scenario::Verb::kRead:
      return "read";
    case scenario::Verb::kSend:
      return "send";
  }
  return "";
}

double in_us(fabric::Time time) {
  return static_cast<double>(time) / kPsPerUs;
}

std::string flow_line(const SimRun& run, uint32_t index) {
  const scenario::Scenario& scenario = run.experiment->scenario();
  const scenario::Flow& flow = scenario.flows[index];
  const sim::FlowResult& result = run.experiment->flows()[index];
  const auto& nodes = scenario.topology.nodes;
  const bool done = result.end >= 0;
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{}\n", index, csv_cell(flow.group),
      csv_cell(nodes[flow.source].name), csv_cell(nodes[flow.destination].name),
      verb_name(flow.verb), flow.bytes == scenario::kEndless ? "" : fmt::format("{}", flow.bytes),
      result.start < 0 ? "" : fmt::format("{:.6f}", in_us(result.start)),
      done ? fmt::format("{:.6f}", in_us(result.end)) : "",
      done ? fmt::format("{:.6f}", in_us(result.end - result.start)) : "",
      done && result.alone > 0 ? fmt::format("{:.6f}", result.slowdown()) : "", result.received,
      result.failed ? "failed"
      : done        ? "done"
                    : "open");
}

std::string flows_csv(const SimRun& run) {
  std::string out =
      "flow,group,source,destination,verb,bytes,start_us,end_us,fct_us,slowdown,received_bytes,"
      "status\n";
  for (uint32_t i = 0; i < run.experiment->flows().size(); ++i) out += flow_line(run, i);
  return out;
}

std::string ports_csv(const SimRun& run) {
  const fabric::Network& network = run.experiment->network();
  const auto now = static_cast<double>(std::max<fabric::Time>(1, network.now()));
  std::string out =
      "port,node,peer,bits_per_second,use,sent_bytes,sent_packets,queue_mean_bytes,"
      "queue_p50_bytes,queue_p99_bytes,queue_max_bytes,ce_marks,drops,lossless_drops,priority,"
      "prio_sent_packets,pauses_sent,pauses_received,pauses_expired,paused_us\n";
  for (PortId id = 0; id < network.ports(); ++id) {
    const fabric::Port& port = network.port(id);
    const sim::PortSeries& series = run.experiment->samples().ports[id];
    uint64_t most = 0, marks = 0, drops = 0;
    for (uint64_t bytes : port.counters.most_bytes) most = std::max(most, bytes);
    for (uint64_t count : port.counters.marks) marks += count;
    for (uint64_t count : port.counters.drops) drops += count;
    const auto& nodes = run.experiment->scenario().topology.nodes;
    const std::string common =
        fmt::format("{}:{},{},{},{},{:.6f},{},{},{:.1f},{},{},{},{},{},{}",
                    csv_cell(nodes[port.node].name), port.number, csv_cell(nodes[port.node].name),
                    csv_cell(nodes[network.port(port.peer).node].name), port.link.bits_per_second,
                    static_cast<double>(port.counters.busy) / now, port.counters.tx_bytes,
                    port.counters.tx_packets, series.mean(), series.percentile(0.5),
                    series.percentile(0.99), most, marks, drops, port.counters.lossless_drops);
    for (uint32_t p = 0; p < fabric::kPriorities; ++p) {
      const fabric::PriorityCounters& c = port.counters.priority[p];
      if (p > 0 && c.tx_packets + c.tx_pause + c.rx_pause == 0) continue;
      out += fmt::format("{},{},{},{},{},{},{:.6f}\n", common, p, c.tx_packets, c.tx_pause,
                         c.rx_pause, c.expired, in_us(c.paused));
    }
  }
  return out;
}

// The ports whose queue was ever seen not empty.
std::vector<PortId> queue_columns(const sim::Samples& samples) {
  std::vector<PortId> out;
  for (PortId id = 0; id < samples.ports.size(); ++id)
    if (samples.ports[id].most() > 0) out.push_back(id);
  return out;
}

Result<void> write_series(const SimRun& run, const std::string& path) {
  auto file = WholeFile::create(path);
  if (!file) return tl::unexpected(file.error());
  const sim::Samples& samples = run.experiment->samples();
  const std::vector<PortId> ports = queue_columns(samples);
  std::string line = "time_us,received_bytes,paused_ports,rates_bps,alpha_mean";
  for (PortId id : ports)
    line += "," + csv_cell(fmt::format("queue_bytes {}", run.experiment->port_name(id)));
  for (const sim::FlowSeries& flow : samples.flows)
    line += fmt::format(",received_bytes flow {0},rate_bps flow {0},alpha flow {0}", flow.flow);
  file->write(line + "\n");
  for (size_t i = 0; i < samples.at.size(); ++i) {
    line = fmt::format("{:.6f},{},{},{},{:.6f}", in_us(samples.at[i]), samples.received_bytes[i],
                       samples.paused_ports[i], samples.rates[i], samples.alphas[i]);
    for (PortId id : ports) line += fmt::format(",{}", samples.ports[id].queue_bytes[i]);
    for (const sim::FlowSeries& flow : samples.flows)
      line += fmt::format(",{},{},{:.6f}", flow.received[i], flow.rates[i], flow.alphas[i]);
    file->write(line + "\n");
  }
  return file->commit();
}

// The scenario's text, under a comment that says what the command line changed.
Result<std::string> scenario_text(const SimRun& run) {
  const scenario::Scenario& scenario = run.experiment->scenario();
  std::ifstream in(scenario.file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return fail(EIO, fmt::format("cannot read {} again", scenario.file));
  std::string out = fmt::format("# verbena sim {} --seed {}", scenario.file, scenario.seed);
  for (const scenario::Override& change : run.overrides)
    out += fmt::format(" --set '{}={}'", change.key, change.value);
  return out + "\n" + text.str();
}

}  // namespace

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

Result<void> make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) return {};
  const int error = errno;
  struct stat about;
  if (error == EEXIST && stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) return {};
  return fail(error, fmt::format("cannot make the folder {}: {}", path,
                                 strerror(error == EEXIST ? ENOTDIR : error)));
}

Result<void> write_run_files(const SimRun& run, const std::string& folder) {
  if (auto good = make_folder(folder); !good) return good;
  auto scenario = scenario_text(run);
  if (!scenario) return tl::unexpected(scenario.error());
  const std::pair<const char*, std::string> files[] = {
      {"flows.csv", flows_csv(run)},
      {"ports.csv", ports_csv(run)},
      {"summary.json", json_text(summary_json(run)) + "\n"},
      {"scenario.toml", *scenario}};
  for (const auto& [name, text] : files)
    if (auto good = write_whole_file(folder + "/" + name, text); !good) return good;
  return write_series(run, folder + "/series.csv");
}

}  // namespace verbena::tools
