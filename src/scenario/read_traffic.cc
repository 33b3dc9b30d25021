// [[flow]], [[workload]] and [[event]]: names become numbers, lists become flows.
#include <algorithm>

#include "scenario/csv.h"
#include "scenario/schema.h"
#include "scenario/sections.h"

namespace verbena::scenario {
namespace {

constexpr size_t kMostFlowFile = 256 << 20;

// Every flow has a copy.
Status short_name(const Reader& in, const std::string& path, const std::string& name) {
  constexpr size_t kMost = 64;
  if (name.size() <= kMost) return {};
  return in.error({path}, fmt::format("has {} bytes; {} are the most", name.size(), kMost));
}

Status read_flow(Reader& in, const toml::table& table, const std::string& path,
                 const NodeNames& names, std::unordered_map<std::string, uint32_t>& named,
                 std::vector<Flow>& flows) {
  FlowForm form;
  form.flow.bytes = kEndless;
  std::vector<BoundKey> bound;
  bind_keys(bound, flow_form_keys(), form);
  bind_keys(bound, flow_keys(), form.flow);
  if (auto good = in.read(table, path, bound); !good) return good;
  for (const auto& [key, name] : {std::pair{"from", form.from}, {"to", form.to}}) {
    if (name.empty())
      return in.error(table.source(), join_path(path, key), "is missing; name a host");
    if (names.host(name) < 0)
      return in.error({join_path(path, key)},
                      fmt::format("\"{}\" is no host; {}", name, hint(name, names.words(false))));
  }
  for (const auto& [key, name] : {std::pair{"name", &form.name}, {"group", &form.group}})
    if (auto good = short_name(in, join_path(path, key), *name); !good) return good;
  Flow& flow = form.flow;
  flow.source = static_cast<uint32_t>(names.host(form.from));
  flow.destination = static_cast<uint32_t>(names.host(form.to));
  if (flow.source == flow.destination)
    return in.error({join_path(path, "to")}, "a host does not send to itself");
  if (flow.verb == Verb::kRead && flow.bytes == kEndless)
    return in.error(table.source(), join_path(path, "bytes"), "a read needs a size");
  flow.group = !form.group.empty() ? form.group : !form.name.empty() ? form.name : "flows";
  for (const std::string& name : form.after) {
    const auto found = named.find(name);
    if (found == named.end())
      return in.error({join_path(path, "after")},
                      fmt::format("no [[flow]] above is named \"{}\"", name));
    if (flows[found->second].bytes == kEndless)
      return in.error({join_path(path, "after")},
                      fmt::format("flow \"{}\" is endless; nothing comes after it", name));
    flow.after.push_back(found->second);
  }
  if (!form.name.empty() && !named.emplace(form.name, flows.size()).second)
    return in.error({join_path(path, "name")},
                    fmt::format("a [[flow]] above is named \"{}\" too", form.name));
  flows.push_back(std::move(flow));
  return {};
}

// Flows as a CSV file has them: src, dst, size_B, start_ns.
Status listed_flows(const Reader& in, const std::string& at, const std::string& path,
                    const NodeNames& names, const Workload& usual, std::vector<Flow>& flows) {
  const auto text = read_text_file(path, kMostFlowFile);
  if (!text) return in.error({at}, text.error().message);
  const auto csv = parse_csv(path, *text, kMaxFlows);
  if (!csv) return in.error({at}, csv.error().message);
  const int from = csv->column("src"), to = csv->column("dst"), size = csv->column("size_B"),
            start = csv->column("start_ns");
  if (from < 0 || to < 0 || size < 0 || start < 0)
    return in.error({at},
                    fmt::format("{} lacks one of the columns src, dst, size_B, start_ns", path));
  if (flows.size() + csv->rows.size() > kMaxFlows)
    return in.error({at}, fmt::format("{} flows; {} in all are the most",
                                      flows.size() + csv->rows.size(), kMaxFlows));
  for (const Csv::Row& row : csv->rows) {
    Flow flow;
    for (const auto& [column, host] : {std::pair{from, &flow.source}, {to, &flow.destination}}) {
      const std::string& name = row.cells[static_cast<size_t>(column)];
      const int64_t found = names.host(name);
      if (found < 0)
        return in.error({at}, fmt::format("{}:{}: \"{}\" is no host", path, row.line, name));
      *host = static_cast<uint32_t>(found);
    }
    const auto bytes = csv->number(row, size, uint64_t{1} << 50);
    const auto ns = csv->number(row, start, 3'600'000'000'000);
    if (!bytes || !ns) return in.error({at}, (bytes ? ns : bytes).error().message);
    if (*bytes == 0 || flow.source == flow.destination)
      return in.error({at},
                      fmt::format("{}:{}: {}", path, row.line,
                                  *bytes == 0 ? "size_B is 0" : "a host does not send to itself"));
    flow.bytes = *bytes;
    flow.start = usual.start + static_cast<Time>(*ns) * fabric::kNanosecond;
    flow.verb = usual.verb;
    flow.dscp = usual.dscp;
    flow.priority = usual.priority;
    flow.group = usual.name;
    flows.push_back(std::move(flow));
  }
  return {};
}

Status take_cdf(const Reader& in, const std::string& at, const std::string& name,
                Workload& workload) {
  const auto& known = SizeCdf::names();
  if (std::find(known.begin(), known.end(), name) != known.end()) {
    workload.cdf = *SizeCdf::named(name);
    return {};
  }
  const std::string path = path_beside(in.file(), name);
  const auto text = read_text_file(path, kMostFlowFile);
  if (!text)
    return in.error({at}, fmt::format("\"{}\" is none of {}, and no file: {}", name,
                                      fmt::join(known, ", "), text.error().message));
  auto cdf = SizeCdf::parse(*text);
  if (!cdf) return in.error({at}, fmt::format("{}: {}", path, cdf.error().message));
  workload.cdf = std::move(*cdf);
  return {};
}

Status read_workload(Reader& in, const toml::table& table, const std::string& path,
                     const NodeNames& names, uint64_t seed, Scenario& scenario) {
  const Key<WorkloadForm>& kind_key = workload_form_keys().front();
  const toml::node* kind_node = table.get("kind");
  if (kind_node == nullptr)
    return in.error(table.source(), join_path(path, "kind"),
                    fmt::format("is missing; it may be {}", format_range(kind_key)));
  const auto chosen = in.value(*kind_node, join_path(path, "kind"), kind_key);
  if (!chosen) return tl::unexpected(chosen.error());
  const WorkloadKind& kind = workload_kinds()[chosen->whole];
  WorkloadForm form;
  Workload workload;
  workload.kind = static_cast<Workload::Kind>(chosen->whole);
  std::vector<BoundKey> bound;
  bind_keys(bound, workload_form_keys(), form);
  bind_keys(bound, kind.form, form);
  bind_keys(bound, workload_keys(), workload);
  bind_keys(bound, kind.keys, workload);
  if (auto good = in.read(table, path, bound); !good) return good;
  if (auto good = short_name(in, join_path(path, "name"), form.name); !good) return good;
  workload.name = form.name.empty() ? std::string(kind.name) : form.name;
  for (const auto& [key, list, hosts] :
       {std::tuple{"from", &form.from, &workload.from}, {"to", &form.to, &workload.to}}) {
    auto found = names.hosts(*list);
    if (!found)
      return in.error({join_path(path, key), join_path(path, "kind")}, found.error().message);
    *hosts = std::move(*found);
  }
  const auto refuse = [&](const std::string& message) {
    return in.error({join_path(path, "kind")}, message);
  };
  if (workload.kind == Workload::kList) {
    if (form.file.empty()) return refuse("a list needs its file");
    return listed_flows(in, join_path(path, "file"), path_beside(in.file(), form.file), names,
                        workload, scenario.flows);
  }
  if (workload.kind == Workload::kPoisson) {
    if (auto good = take_cdf(in, join_path(path, "cdf"), form.cdf, workload); !good) return good;
    workload.load_ppm = static_cast<uint32_t>(form.load * 1e6 + 0.5);
    if (workload.until == 0) workload.until = scenario.duration;
    if (workload.until == 0) return refuse("needs until: the end of arrivals");
  }
  Prng prng(seed);
  auto added = add_workload(workload, scenario.topology, prng, scenario.flows);
  if (!added) return refuse(added.error().message);
  return {};
}

Status link_event(const Reader& in, const std::string& path, const EventForm& form,
                  const NodeNames& names, const LinksBetween& between, Topology& topology) {
  const auto& found = between.find(names.node(form.a), names.node(form.b));
  for (uint32_t number : found) {
    Link& link = topology.links[number];
    link.changes.push_back({form.at, false});
    if (form.until != fabric::kForever) link.changes.push_back({form.until, true});
  }
  if (found.empty())
    return in.error({path + ".b", path + ".a", path + ".kind"},
                    fmt::format("no link joins \"{}\" and \"{}\"", form.a, form.b));
  return {};
}

// A chain of flows adds its starts up; what begins after a day is a mistake, after a hundred days
// no number.
Status latest_start(const Reader& in, const std::vector<Flow>& flows) {
  constexpr Time kLatest = 24 * 3600 * fabric::kSecond;
  std::vector<Time> latest(flows.size());
  for (size_t i = 0; i < flows.size(); ++i) {
    for (uint32_t before : flows[i].after) latest[i] = std::max(latest[i], latest[before]);
    latest[i] += flows[i].start;
    if (latest[i] > kLatest)
      return in.error({"flow.0.start", "workload.0.start", "workload.0.kind"},
                      fmt::format("flow {} of all would begin after more than a day, at {}", i,
                                  format_time(latest[i])));
  }
  return {};
}

Status storm_event(const Reader& in, const std::string& path, const EventForm& form,
                   const NodeNames& names, Scenario& scenario) {
  const int64_t host = names.host(form.host);
  if (host < 0)
    return in.error(
        {path + ".host", path + ".kind"},
        fmt::format("\"{}\" is no host; {}", form.host, hint(form.host, names.words(false))));
  fabric::HostSettings& port = scenario.hosts[static_cast<size_t>(host)].port;
  port.storm_mask = form.priorities;
  port.storm_from = form.at;
  port.storm_until = form.until;
  port.storm_interval = form.interval;
  return {};
}

}  // namespace

Status read_traffic(Reader& in, const toml::table& root, Scenario& scenario) {
  const NodeNames names(scenario.topology);
  const auto flows = in.tables(root, "flow");
  if (!flows) return tl::unexpected(flows.error());
  std::unordered_map<std::string, uint32_t> named;
  for (size_t i = 0; i < flows->size(); ++i)
    if (auto good =
            read_flow(in, *(*flows)[i], fmt::format("flow.{}", i), names, named, scenario.flows);
        !good)
      return good;
  const auto workloads = in.tables(root, "workload");
  if (!workloads) return tl::unexpected(workloads.error());
  Prng seeds(scenario.seed);
  for (size_t i = 0; i < workloads->size(); ++i)
    if (auto good = read_workload(in, *(*workloads)[i], fmt::format("workload.{}", i), names,
                                  seeds.next(), scenario);
        !good)
      return good;
  return latest_start(in, scenario.flows);
}

Status read_events(Reader& in, const toml::table& root, Scenario& scenario) {
  const auto tables = in.tables(root, "event");
  if (!tables) return tl::unexpected(tables.error());
  const NodeNames names(scenario.topology);
  const LinksBetween between(scenario.topology);
  for (size_t i = 0; i < tables->size(); ++i) {
    const std::string path = fmt::format("event.{}", i);
    EventForm form;
    std::vector<BoundKey> bound;
    bind_keys(bound, event_keys(), form);
    if (auto good = in.read(*(*tables)[i], path, bound); !good) return good;
    if (form.until <= form.at)
      return in.error(
          {path + ".until", path + ".at"},
          fmt::format("is {}, not after at = {}", format_time(form.until), format_time(form.at)));
    auto good = form.kind == EventForm::kLinkDown
                    ? link_event(in, path, form, names, between, scenario.topology)
                    : storm_event(in, path, form, names, scenario);
    if (!good) return good;
  }
  for (Link& link : scenario.topology.links)
    std::stable_sort(link.changes.begin(), link.changes.end(),
                     [](const Link::Change& a, const Link::Change& b) { return a.at < b.at; });
  return {};
}

}  // namespace verbena::scenario
