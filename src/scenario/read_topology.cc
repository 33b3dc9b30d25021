// [topology] and [[link]]: a shape with its counts, or a list of links, and what single links have
// of their own.
#include <errno.h>

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "scenario/csv.h"
#include "scenario/schema.h"
#include "scenario/sections.h"

namespace verbena::scenario {
namespace {

constexpr size_t kMostLinkFile = 64 << 20;
constexpr std::string_view kLinks = "links";

struct Wire {  // what a link is made of, as far as it was given
  uint64_t rate = 0;
  fabric::Time delay = -1;
  double cable = -1;
};

Status settle_wire(const Reader& in, const std::string& path, const std::string& prefix,
                   const Wire& wire, Link& link) {
  const std::string delay = prefix + "delay", cable = prefix + "cable";
  if (wire.delay >= 0 && wire.cable >= 0)
    return in.error({join_path(path, cable)},
                    fmt::format("{} and {} say the same thing; give one", cable, delay));
  if (wire.rate != 0) link.settings.bits_per_second = wire.rate;
  if (wire.delay >= 0) {
    link.settings.delay = wire.delay;
    link.cable_metres = 0;
  }
  if (wire.cable >= 0) {
    link.settings.delay = static_cast<fabric::Time>(wire.cable * kCablePsPerMetre);
    link.cable_metres = wire.cable;
  }
  return {};
}

Status wires(const Reader& in, const TopologyForm& form, Shape& shape) {
  shape.host_link.settings.gap_bytes = form.gap;
  const Wire host{form.rate, form.delay, form.cable};
  const Wire fabric{form.fabric_rate, form.fabric_delay, form.fabric_cable};
  if (auto good = settle_wire(in, "topology", "", host, shape.host_link); !good) return good;
  shape.fabric_link = shape.host_link;
  return settle_wire(in, "topology", "fabric_", fabric, shape.fabric_link);
}

const ShapeKind* kind_named(std::string_view name) {
  for (const ShapeKind& kind : shape_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

// A count that other kinds have.
Status no_strangers(const Reader& in, const toml::table& table, const std::string& kind_name) {
  const ShapeKind* kind = kind_named(kind_name);
  std::vector<std::string_view> own;
  if (kind != nullptr)
    for (const ShapeCount& count : kind->counts) own.push_back(count.name);
  else
    own = {"switches", "file", "name"};
  for (const ShapeKind& other : shape_kinds())
    for (const ShapeCount& count : other.counts) {
      const toml::node* node = table.get(count.name);
      if (node != nullptr && std::find(own.begin(), own.end(), count.name) == own.end())
        return in.error(node->source(), join_path("topology", count.name),
                        fmt::format("kind \"{}\" has no such count; it takes {}", kind_name,
                                    fmt::join(own, ", ")));
    }
  return {};
}

Result<LinkForm> read_link(Reader& in, const toml::table& table, const std::string& path) {
  LinkForm form;
  std::vector<BoundKey> bound;
  bind_keys(bound, link_keys(), form);
  if (auto good = in.read(table, path, bound); !good) return tl::unexpected(good.error());
  if (form.a.empty() || form.b.empty())
    return in.error(table.source(), path, "does not say what it joins; give a and b");
  return form;
}

Status shape_link(const Reader& in, const std::string& path, const LinkForm& form, Link& link) {
  if (form.gap != UINT32_MAX) link.settings.gap_bytes = form.gap;
  return settle_wire(in, path, "", {form.rate, form.delay, form.cable}, link);
}

// A table of links with the columns node_a, node_b, rate_gbps, delay_ns, a_is_switch, b_is_switch;
// with a column "topology", the rows of `name`.
Status links_of_file(Reader& in, const TopologyForm& form, const Link& usual,
                     std::vector<NamedLink>& links, std::vector<std::string>& switches) {
  const std::string path = path_beside(in.file(), form.file);
  const auto text = read_text_file(path, kMostLinkFile);
  if (!text) return in.error({"topology.file"}, text.error().message);
  const auto csv = parse_csv(path, *text, kMaxLinks);
  if (!csv) return in.error({"topology.file"}, csv.error().message);
  std::unordered_set<std::string> known(switches.begin(), switches.end());
  const int which = csv->column("topology"), a = csv->column("node_a"), b = csv->column("node_b"),
            rate = csv->column("rate_gbps"), delay = csv->column("delay_ns"),
            a_switch = csv->column("a_is_switch"), b_switch = csv->column("b_is_switch");
  if (a < 0 || b < 0 || a_switch < 0 || b_switch < 0)
    return in.error({"topology.file"},
                    fmt::format("{} lacks one of the columns node_a, node_b, a_is_switch, "
                                "b_is_switch",
                                path));
  for (const Csv::Row& row : csv->rows) {
    const auto cell = [&](int column) { return row.cells[static_cast<size_t>(column)]; };
    if (which >= 0 && cell(which) != form.name) continue;
    NamedLink link{cell(a), cell(b), usual};
    for (const auto& [name, flag] : {std::pair{link.a, a_switch}, {link.b, b_switch}}) {
      const auto is_switch = csv->number(row, flag, 1);
      if (!is_switch) return in.error({"topology.file"}, is_switch.error().message);
      if (*is_switch && known.insert(name).second) switches.push_back(name);
    }
    if (rate >= 0) {
      const auto gbps = csv->number(row, rate, 10'000);
      if (!gbps || *gbps == 0)
        return in.error(
            {"topology.file"},
            gbps ? fmt::format("{}:{}: rate_gbps is 0", path, row.line) : gbps.error().message);
      link.link.settings.bits_per_second = *gbps * 1'000'000'000;
    }
    if (delay >= 0) {
      const auto ns = csv->number(row, delay, 1'000'000'000);
      if (!ns) return in.error({"topology.file"}, ns.error().message);
      link.link.settings.delay = static_cast<fabric::Time>(*ns) * fabric::kNanosecond;
      link.link.cable_metres = 0;
    }
    links.push_back(std::move(link));
  }
  if (links.empty())
    return in.error({"topology.name", "topology.file"},
                    fmt::format("{} has no link of \"{}\"", path, form.name));
  return {};
}

Status named_links(Reader& in, const toml::table& root, const Link& usual,
                   std::vector<NamedLink>& links) {
  const auto tables = in.tables(root, "link");
  if (!tables) return tl::unexpected(tables.error());
  std::set<std::pair<std::string, std::string>> joined;
  for (const NamedLink& known : links) joined.insert(std::minmax(known.a, known.b));
  for (size_t i = 0; i < tables->size(); ++i) {
    const toml::table& table = *(*tables)[i];
    const std::string path = fmt::format("link.{}", i);
    const auto form = read_link(in, table, path);
    if (!form) return tl::unexpected(form.error());
    if (!joined.insert(std::minmax(form->a, form->b)).second)
      return in.error(table.source(), path,
                      fmt::format("{} and {} are joined already; for more links between them "
                                  "write count = 2",
                                  form->a, form->b));
    if (links.size() + form->count > kMaxLinks)
      return in.error(table.source(), path, fmt::format("{} links are the most", kMaxLinks));
    NamedLink link{form->a, form->b, usual};
    if (auto good = shape_link(in, path, *form, link.link); !good) return good;
    links.insert(links.end(), form->count, link);
  }
  return {};
}

Status read_links(Reader& in, const toml::table& root, const toml::table& table,
                  const TopologyForm& form, Topology& topology) {
  Shape wire;
  if (auto good = wires(in, form, wire); !good) return good;
  std::vector<NamedLink> links;
  std::vector<std::string> switches = form.switch_names;
  if (!form.file.empty())
    if (auto good = links_of_file(in, form, wire.host_link, links, switches); !good) return good;
  if (auto good = named_links(in, root, wire.host_link, links); !good) return good;
  if (links.empty())
    return in.error(table.source(), "topology",
                    "kind \"links\" needs [[link]] tables, or file = \"links.csv\"");
  auto built = topology_of_links(links, switches);
  if (!built) return in.error({"topology.switches", "topology.kind"}, built.error().message);
  topology = std::move(*built);
  return {};
}

// [[link]] beside a shape: what single links have of their own.
Status change_links(Reader& in, const toml::table& root, Topology& topology) {
  const auto tables = in.tables(root, "link");
  if (!tables) return tl::unexpected(tables.error());
  const NodeNames names(topology);
  const LinksBetween between(topology);
  for (size_t i = 0; i < tables->size(); ++i) {
    const std::string path = fmt::format("link.{}", i);
    const auto form = read_link(in, *(*tables)[i], path);
    if (!form) return tl::unexpected(form.error());
    if (form->count != 1)
      return in.error({path + ".count"}, "only with kind = \"links\"; see parallel");
    const auto& found = between.find(names.node(form->a), names.node(form->b));
    for (uint32_t link : found)
      if (auto good = shape_link(in, path, *form, topology.links[link]); !good) return good;
    if (found.empty())
      return in.error((*tables)[i]->source(), path,
                      fmt::format("no link joins {} and {} in this topology", form->a, form->b));
  }
  return {};
}

}  // namespace

Status read_topology(Reader& in, const toml::table& root, Topology& topology) {
  const toml::node* node = root.get("topology");
  static const toml::table kEmpty;
  const toml::table* table = &kEmpty;
  if (node != nullptr) {
    const auto found = in.table(*node, "topology");
    if (!found) return tl::unexpected(found.error());
    table = *found;
  }
  TopologyForm form;
  if (const toml::node* kind = table->get("kind")) {
    const auto value = in.value(*kind, "topology.kind", topology_keys().front());
    if (!value) return tl::unexpected(value.error());
    form.kind = static_cast<uint32_t>(value->whole);
  }
  const auto& kinds = topology_keys().front().choices;
  form.shape.kind = kinds[form.kind];
  if (auto good = no_strangers(in, *table, form.shape.kind); !good) return good;
  std::vector<BoundKey> bound;
  bind_keys(bound, topology_keys(), form);
  const bool listed = form.shape.kind == kLinks;
  std::vector<Key<Shape>> counts;
  if (listed)
    bind_keys(bound, topology_list_keys(), form);
  else
    counts = count_keys(*kind_named(form.shape.kind));
  bind_keys(bound, counts, form.shape);
  if (auto good = in.read(*table, "topology", bound); !good) return good;
  if (listed) return read_links(in, root, *table, form, topology);
  if (auto good = wires(in, form, form.shape); !good) return good;
  auto built = build_topology(form.shape);
  if (!built) return in.error({"topology.kind"}, built.error().message);
  topology = std::move(*built);
  if (auto good = check_topology(topology); !good)
    return in.error({"topology.kind"}, good.error().message);
  return change_links(in, root, topology);
}

}  // namespace verbena::scenario
