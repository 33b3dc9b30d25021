// The tables of keys that the reader goes by tell here what there is to write; what the reader
// fills in by itself (follow_pfc) is filled in before the comparison.
#include "scenario/write.h"

#include <fmt/format.h>

#include "scenario/schema_devices.h"

namespace verbena::scenario {
namespace {

using fabric::kPriorities;
using fabric::PortSettings;

// Sections in order; those in which nothing is set are left out.
class Writer {
 public:
  // Begins a section; it appears once something is written in it, or at once with `always`.
  void section(std::string name, bool always = false, std::string comment = "") {
    pending_ = fmt::format("\n[{}]{}\n", name, comment.empty() ? "" : "  # " + comment);
    if (always) flush();
  }
  void line(std::string_view key, const std::string& value) {
    flush();
    text_ += fmt::format("{} = {}\n", key, value);
  }
  // Keys whose values differ.
  template <typename T>
  void keys(const std::vector<Key<T>>& keys, const T& of, const T& base) {
    for (const Key<T>& key : keys) write(key, of, base);
  }
  template <typename T>
  void write(const Key<T>& key, const T& of, const T& base) {
    Value value = key.show(of);
    const Value known = key.show(base);
    if (format_value(key, value) == format_value(key, known)) return;
    for (size_t i = 0; i < value.map.size(); ++i)
      if (value.map[i] == known.map[i]) value.map[i] = -1;
    line(key.name, format_value(key, value));
  }
  std::string take() { return text_.starts_with('\n') ? text_.substr(1) : text_; }

 private:
  void flush() {
    text_ += pending_;
    pending_.clear();
  }

  std::string text_, pending_;
};

template <typename T>
bool same(const std::vector<Key<T>>& keys, const T& a, const T& b) {
  for (const Key<T>& key : keys)
    if (format_value(key, key.show(a)) != format_value(key, key.show(b))) return false;
  return true;
}

void write_pfc(Writer& out, const fabric::PfcSettings& of, const fabric::PfcSettings& base) {
  const bool together = of.rx_mask == of.tx_mask;
  for (const Key<fabric::PfcSettings>& key : pfc_keys()) {
    if (key.name == (together ? "rx" : "priorities")) continue;
    if (together && key.name == "tx") continue;
    if (together && key.name == "priorities" && base.rx_mask != of.rx_mask &&
        base.tx_mask == of.tx_mask) {
      out.line(key.name, format_value(key, key.show(of)));
      continue;
    }
    out.write(key, of, base);
  }
}

void write_group(Writer& out, const fabric::GroupSettings& of, const fabric::GroupSettings& base) {
  for (const Key<fabric::GroupSettings>& key : group_keys()) {
    if (key.name == (of.dynamic ? "static" : "alpha")) continue;
    const bool changed =
        key.name == (of.dynamic ? "alpha" : "static") && of.dynamic != base.dynamic;
    if (changed) {
      out.line(key.name, format_value(key, key.show(of)));
    } else {
      out.write(key, of, base);
    }
  }
}

void write_ecn(Writer& out, const std::string& path, const fabric::EcnSettings& of,
               const fabric::EcnSettings& base) {
  if (same(ecn_keys(), of, base)) return;
  out.section(path, true);
  for (const Key<fabric::EcnSettings>& key : ecn_keys())
    if (key.name == "mark")
      out.line(key.name, format_value(key, key.show(of)));  // the section alone would turn it on
    else
      out.write(key, of, base);
}

// What a port's own tables say; `base` is what the port begins with.
void write_port(Writer& out, const std::string& path, const PortSettings& of, PortSettings base) {
  const PortSettings begin = base;
  out.keys(port_keys(), of, base);
  out.section(path + ".pfc");
  write_pfc(out, of.pfc, base.pfc);
  base.pfc = of.pfc;
  base.priority_to_group = of.priority_to_group;
  base.priority_to_queue = of.priority_to_queue;
  const bool changed = of.pfc.tx_mask != begin.pfc.tx_mask || of.pfc.rx_mask != begin.pfc.rx_mask ||
                       of.priority_to_group != begin.priority_to_group ||
                       of.priority_to_queue != begin.priority_to_queue;
  if (changed) follow_pfc(base);
  for (uint32_t g = 0; g < kPriorities; ++g) {
    out.section(fmt::format("{}.group.{}", path, g));
    write_group(out, of.groups[g], base.groups[g]);
  }
  for (uint32_t q = 0; q < kPriorities; ++q) {
    out.section(fmt::format("{}.queue.{}", path, q));
    out.keys(queue_keys(), of.queues[q], base.queues[q]);
    write_ecn(out, fmt::format("{}.queue.{}.ecn", path, q), of.queues[q].ecn, base.queues[q].ecn);
  }
  out.section(path + ".watchdog");
  out.keys(watchdog_keys(), of.watchdog, base.watchdog);
}

// Another order of steps is a profile, and the values begin with that profile's.
void write_dcqcn(Writer& out, const engine::DcqcnSettings& of, engine::DcqcnSettings base) {
  out.section("host.dcqcn");
  const Key<engine::DcqcnSettings>& profile = dcqcn_keys().front();
  if (of.order != base.order) {
    out.line(profile.name, format_value(profile, profile.show(of)));
    base = engine::dcqcn_profile(profile.choices[of.order]).value_or(base);
  }
  out.keys(dcqcn_keys(), of, base);
}

bool same_port(const PortSettings& a, const PortSettings& b) {
  Writer out;
  write_port(out, "p", a, b);
  return out.take().empty();
}

}  // namespace

std::string switch_toml(const fabric::SwitchSettings& settings, SwitchForm::Formula formula,
                        const std::string& name,
                        const std::map<uint32_t, std::string>& port_names) {
  SwitchForm base = switch_profile(SwitchForm::kNone, SwitchForm::kOff);
  SwitchForm form = base;
  form.formula = formula;
  Writer out;
  out.section("switch", true);
  for (const Key<SwitchForm>& key : switch_form_keys())
    if (key.name == "profile") out.line(key.name, format_value(key, key.show(form)));
  out.keys(switch_form_keys(), form, base);
  out.keys(switch_keys(), settings, base.settings);
  write_port(out, "switch", settings.port, base.settings.port);
  out.section("switch.routing");
  out.keys(routing_keys(), settings.routing, base.settings.routing);
  for (const auto& [number, port] : settings.ports) {
    if (same_port(port, settings.port)) continue;
    const std::string path = fmt::format("switch.{}.port.{}", name, number);
    const auto named = port_names.find(number);
    out.section(path, true, named == port_names.end() ? "" : named->second);
    write_port(out, path, port, settings.port);
  }
  return out.take();
}

std::string host_toml(const Host& host) {
  const Host base = host_profile(false);
  Writer out;
  out.section("host", true);
  const engine::CongestionSettings& congestion = host.adapter.congestion;
  const engine::CongestionSettings& usual = base.adapter.congestion;
  out.keys(adapter_keys(), host.adapter, base.adapter);
  out.keys(congestion_keys(), congestion, usual);
  out.section("host.pfc");
  write_pfc(out, host.port.pfc, base.port.pfc);
  out.section("host.receive");
  out.keys(receive_keys(), host.port, base.port);
  out.section("host.storm");
  out.keys(storm_keys(), host.port, base.port);
  for (uint32_t q = 0; q < kPriorities; ++q) {
    out.section(fmt::format("host.queue.{}", q));
    for (const Key<fabric::QueueSettings>& key : queue_keys())
      if (key.name == "strict" || key.name == "weight")
        out.write(key, host.port.queues[q], base.port.queues[q]);
  }
  write_dcqcn(out, congestion.dcqcn, usual.dcqcn);
  out.section("host.np");
  out.keys(np_keys(), congestion.np, usual.np);
  out.section("host.swift");
  out.keys(swift_keys(), congestion.swift, usual.swift);
  out.section("host.hpcc");
  out.keys(hpcc_keys(), congestion.hpcc, usual.hpcc);
  return out.take();
}

std::string import_toml(const Imported& imported, const std::string& name) {
  std::string text;
  if (imported.has_switch)
    text += switch_toml(imported.settings, imported.formula, name, imported.port_names);
  if (imported.has_host) text += (text.empty() ? "" : "\n") + host_toml(imported.host);
  return text;
}

std::string replace_sections(std::string_view text, std::string_view section,
                             const std::string& with) {
  std::string kept;
  bool inside = false;
  for (std::string_view line : lines_of(text)) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin != line.npos && line[begin] == '[') {
      std::string_view name = line.substr(begin);
      name.remove_prefix(std::min(name.find_first_not_of('['), name.size()));
      inside =
          name.starts_with(section) && (name.size() == section.size() ||
                                        name[section.size()] == ']' || name[section.size()] == '.');
    }
    if (!inside) kept += fmt::format("{}\n", line);
  }
  while (kept.ends_with("\n\n")) kept.pop_back();
  return kept + (kept.empty() ? "" : "\n") + with;
}

}  // namespace verbena::scenario
