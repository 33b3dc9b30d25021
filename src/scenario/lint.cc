// The table of rules, and what a finding looks like in print.
#include "scenario/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "scenario/lint_view.h"

namespace verbena::scenario {
namespace {

constexpr size_t kPlacesShown = 4;

constexpr LintRule kRules[] = {
    {1, "pfc-without-headroom", "a priority pauses its sender, but has no headroom", "SONiC#480",
     lint_headroom},
    {2, "mixed-classes", "some queue pairs travel in a lossy class, others in a lossless one",
     "NCCL#2383", lint_mixed_classes},
    {3, "no-flow-control", "neither PFC nor congestion control", "NCCL#378, NCCL#306",
     lint_no_flow_control},
    {4, "one-way-class", "the two directions of a connection travel in different classes",
     "UCX#10325, UCX#6910", lint_one_way},
    {5, "dscp-map", "a switch puts the adapters' DSCP into another class than they mean",
     "SONiC's default map against Cumulus'", lint_dscp_map},
    {6, "trust-or-ect", "the DSCP is not trusted, or packets are not ECN-capable",
     "default of mlnx_qos; lossless network guides", lint_trust},
    {7, "no-marks", "congestion control waits for marks that no switch makes",
     "sonic-buildimage#21891", lint_no_marks},
    {8, "few-marks", "thresholds or probability leave almost no marks",
     "sonic-swss#4718; featureprofiles#1540", lint_few_marks},
    {9, "threshold-order", "Kmin < Kmax < XOFF does not hold", "SIGCOMM 2015, section 4",
     lint_thresholds},
    {10, "cable-length", "headroom is for a shorter cable than the link has",
     "sonic-buildimage#25606, #25208, #28846; sonic-swss#4797", lint_cable},
    {11, "shared-headroom", "several lossless groups share one headroom", "sonic-buildimage#29565",
     lint_shared_headroom},
    {12, "watchdog-times", "the watchdog fires on ordinary pauses, or misses a choppy storm",
     "SONiC#1535, #1660; sonic-swss#3036; sonic-mgmt#27589", lint_watchdog},
    {13, "asymmetric-pfc", "asymmetric PFC together with a watchdog",
     "sonic-swss#1128, #1360; sonic-buildimage#9453", lint_asymmetric},
    {14, "mtu", "packets are longer than a port takes, or the two ends differ",
     "NCCL PR#2135; nccl-mesh-plugin#12; dgx-spark-playbooks#103", lint_mtu},
    {15, "cycle", "lossless paths wait for each other in a ring: PFC can deadlock",
     "SONiC HLD#950; sonic-buildimage#10176, #12605", lint_cycle},
    {16, "control-class", "CNPs wait in the queue of the data that they are to slow down",
     "NCCL PR#1194; TransferBench#316", lint_control_class},
    {17, "roce-v1", "packets carry neither DSCP nor ECT, as RoCE v1 does",
     "NCCL#426, #769; uccl#803", lint_roce_v1},
    {18, "alpha", "alpha differs between switches of a tier, or an adapter itself pauses",
     "SIGCOMM 2016, RDMA over Commodity Ethernet at Scale; NCCL#173", lint_alpha},
    {19, "unheard-pauses", "the peer does not obey the pauses that a port sends", "IEEE 802.1Qbb",
     lint_unheard_pauses},
};

std::string places_text(const std::vector<std::string>& places) {
  if (places.empty()) return "";
  const size_t shown = std::min(places.size(), kPlacesShown);
  std::string text = fmt::format(
      "{}", fmt::join(places.begin(), places.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (places.size() > shown) text += fmt::format(" and {} more", places.size() - shown);
  return text + ": ";
}

}  // namespace

std::span<const LintRule> lint_rules() {
  return kRules;
}

std::vector<Finding> lint(const Scenario& scenario) {
  const LintView view(scenario);
  std::vector<Finding> all;
  for (const LintRule& rule : kRules) {
    Findings findings(rule.number);
    rule.check(view, findings);
    for (Finding& finding : findings.take()) all.push_back(std::move(finding));
  }
  std::sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.line, a.rule, a.what) < std::tie(b.line, b.rule, b.what);
  });
  return all;
}

void Findings::add(Severity severity, int line, const std::string& place, std::string what,
                   std::string then, std::string fix) {
  for (Finding& known : all_) {
    if (known.line != line || known.what != what) continue;
    if (std::find(known.places.begin(), known.places.end(), place) == known.places.end())
      known.places.push_back(place);
    return;
  }
  Finding finding{rule_, severity, line, {}, std::move(what), std::move(then), std::move(fix)};
  if (!place.empty()) finding.places.push_back(place);
  all_.push_back(std::move(finding));
}

std::string text_of(const std::string& file, const Finding& finding) {
  std::string where = file;
  if (finding.line > 0) where += fmt::format(":{}", finding.line);
  std::string_view name;
  for (const LintRule& rule : kRules)
    if (rule.number == finding.rule) name = rule.name;
  return fmt::format("{}: {}: {}{} [{} {}]\n  then: {}\n  fix: {}\n", where,
                     severity_name(finding.severity), places_text(finding.places), finding.what,
                     finding.rule, name, finding.then, finding.fix);
}

}  // namespace verbena::scenario
