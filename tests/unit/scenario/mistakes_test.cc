// Every way a scenario can be wrong is one sentence with file, line and key.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "scenario/scenario.h"

namespace verbena::scenario {
namespace {

std::string error_of(const std::string& text, const std::vector<Override>& overrides = {}) {
  auto parsed = parse_scenario("x.toml", text, overrides);
  return parsed ? "no error" : parsed.error().message;
}
// The text, and a flow that makes it a scenario.
std::string with_flow(const std::string& text) {
  return text + "\n[[flow]]\nfrom = 0\nto = 1\nbytes = \"1KB\"\n";
}
std::string flawed(const std::string& text) {
  return error_of(with_flow(text));
}

TEST(Mistakes, NoToml) {
  EXPECT_EQ(error_of("[scenario]\nseed = \n").rfind("x.toml:2: not valid TOML: ", 0), 0u);
}

TEST(Mistakes, UnknownKeys) {
  EXPECT_EQ(flawed("[scenaro]\nseed = 1"),
            "x.toml:1: scenaro: unknown section; did you mean scenario?");
  EXPECT_EQ(flawed("[scenario]\nsede = 1"),
            "x.toml:2: scenario.sede: unknown key; did you mean seed?");
  EXPECT_EQ(flawed("[switch.ecn]\nkmin = \"1KB\""),
            "x.toml:2: switch.ecn.kmin: unknown key; did you mean min?");
  EXPECT_EQ(flawed("[switch.ecn]\nthreshold = \"1KB\""),
            "x.toml:2: switch.ecn.threshold: unknown key; there is mark, drop, min, max, "
            "probability, at");
  EXPECT_EQ(flawed("[switch.queue.8]\nstrict = true"),
            "x.toml:1: switch.queue.8: unknown key; did you mean 0?");
  EXPECT_EQ(flawed("[host.dcqcn]\nrpg_ai_rat = \"5M\""),
            "x.toml:2: host.dcqcn.rpg_ai_rat: unknown key; did you mean rpg_ai_rate?");
  EXPECT_EQ(
      flawed("[[workload]]\nkind = \"shift\"\nload = \"5%\""),
      "x.toml:3: workload.0.load: unknown key; there is kind, name, from, bytes, start, verb, "
      "dscp, priority, step");
}

TEST(Mistakes, Units) {
  EXPECT_EQ(
      flawed("[switch.ecn]\nmin = 100000"),
      "x.toml:2: switch.ecn.min: 100000 has no unit; write a size such as \"100KB\" (1000) or "
      "\"64KiB\" (1024)");
  EXPECT_EQ(flawed("[switch.ecn]\nmin = \"100 us\""),
            "x.toml:2: switch.ecn.min: \"100 us\" is no size such as \"100KB\" (1000) or \"64KiB\" "
            "(1024)");
  EXPECT_EQ(flawed("[topology]\nrate = \"100\""),
            "x.toml:2: topology.rate: \"100\" is no rate such as \"100G\" or \"40Gbps\"");
  EXPECT_EQ(flawed("[scenario]\nduration = true"),
            "x.toml:2: scenario.duration: true is no value of it; write a time such as \"1us\", "
            "\"2.5ms\" or \"1s\"");
  EXPECT_EQ(flawed("[topology]\ncable = \"300\""),
            "x.toml:2: topology.cable: \"300\" is no length such as \"300m\" or \"4km\"");
  EXPECT_EQ(flawed("[switch.ecn]\nprobability = 30"),
            "x.toml:2: switch.ecn.probability: is 30; it may be 0% to 100%");
  EXPECT_EQ(flawed("[switch.ecn]\nprobability = \"x\""),
            "x.toml:2: switch.ecn.probability: \"x\" is no share such as \"30%\" or 0.3");
  EXPECT_EQ(flawed("[switch.ecn]\nprobability = []"),
            "x.toml:2: switch.ecn.probability: is an array; write a share such as \"30%\" or 0.3");
}

TEST(Mistakes, Ranges) {
  EXPECT_EQ(flawed("[host]\npath_mtu = \"9000B\""),
            "x.toml:2: host.path_mtu: is \"9000B\"; it may be 256B to 4KiB");
  EXPECT_EQ(flawed("[host]\ndscp = 64"), "x.toml:2: host.dscp: is 64; it may be 0 to 63");
  EXPECT_EQ(flawed("[host]\ndscp = -1"), "x.toml:2: host.dscp: is -1; it may be 0 to 63");
  EXPECT_EQ(flawed("[host]\npayload = 1"), "x.toml:2: host.payload: is 1; it may be true or false");
  EXPECT_EQ(flawed("[host]\ncongestion = \"timely\""),
            "x.toml:2: host.congestion: is \"timely\"; it may be \"none\", \"dcqcn\", \"swift\" or "
            "\"hpcc\"");
  EXPECT_EQ(flawed("[switch.pfc]\npriorities = [3, 8]"),
            "x.toml:2: switch.pfc.priorities: 8 is no priority; they are 0 to 7");
  EXPECT_EQ(flawed("[switch.pfc]\npriorities = 3"),
            "x.toml:2: switch.pfc.priorities: is 3; write a list of priorities such as [3]");
  EXPECT_EQ(flawed("[switch]\ndscp_to_priority = { 26 = 8 }"),
            "x.toml:2: switch.dscp_to_priority.26: is 8; it may be 0 to 7");
  EXPECT_EQ(flawed("[switch]\ndscp_to_priority = { 64 = 1 }"),
            "x.toml:2: switch.dscp_to_priority.64: the left side is a number from 0 to 63, a range "
            "such as 24-31, or default");
  EXPECT_EQ(
      flawed("[switch]\ndscp_to_priority = 3"),
      "x.toml:2: switch.dscp_to_priority: is 3; write a table such as { 26 = 3, default = 0 }");
  EXPECT_EQ(flawed("[switch.queue.3]\nweight = 0"),
            "x.toml:2: switch.queue.3.weight: is 0; it may be 1 to 1000");
  EXPECT_EQ(flawed("[switch.routing]\nflowlet_entries = 1000"),
            "x.toml:2: switch.routing.flowlet_entries: is 1000; it must be a power of two");
}

TEST(Mistakes, ImpossibleTogether) {
  EXPECT_EQ(flawed("[switch.ecn]\nmin = \"2MB\"\nmax = \"1MB\""),
            "x.toml:2: switch.ecn.min: 2MB (Kmin) is above max = 1MB (Kmax)");
  EXPECT_EQ(flawed("[switch.queue.3.ecn]\nmax = \"1KB\""),
            "x.toml:2: switch.queue.3.ecn.max: 150KB (Kmin) is above max = 1KB (Kmax)");
  EXPECT_EQ(flawed("[switch]\nbuffer = \"100KB\""),
            "x.toml:2: switch.buffer: headroom and reserved bytes of the 2 ports of s0 are 196736; "
            "its buffer of 100KB must be larger");
  EXPECT_EQ(flawed("[switch.group]\nheadroom = \"20MB\""),
            "x.toml:2: switch.group.headroom: headroom and reserved bytes of the 2 ports of s0 are "
            "40000000; its buffer of 32MiB must be larger");
  EXPECT_EQ(flawed("[topology]\ndelay = \"1us\"\ncable = \"200m\""),
            "x.toml:3: topology.cable: cable and delay say the same thing; give one");
  EXPECT_EQ(flawed("[scenario]\nduration = \"1ms\"\nwarm_up = \"1ms\""),
            "x.toml:3: scenario.warm_up: is 1ms, not before the end at 1ms");
  EXPECT_EQ(flawed("[host.receive]\nxoff = \"2MiB\""),
            "x.toml:2: host.receive.xoff: xon = 256KiB, xoff = 2MiB and buffer = 1MiB must rise");
  EXPECT_EQ(
      error_of("[[flow]]\nfrom = 0\nto = 1\n"),
      "x.toml:1: scenario.duration: is missing, and a flow is endless; say when the run ends");
  EXPECT_EQ(error_of(""),
            "x.toml:1: scenario.duration: is missing, and there is no flow; say when the run ends");
}

TEST(Mistakes, Topology) {
  EXPECT_EQ(flawed("topology = 3"), "x.toml:1: topology: is 3; it must be a table: [topology]");
  EXPECT_EQ(flawed("[topology]\nkind = \"tree\"")
                .rfind("x.toml:2: topology.kind: is \"tree\"; it may be \"star\", ", 0),
            0u);
  EXPECT_EQ(flawed("[topology]\nkind = \"star\"\nleaves = 3"),
            "x.toml:3: topology.leaves: kind \"star\" has no such count; it takes hosts");
  EXPECT_EQ(flawed("[topology]\nkind = \"fat-tree\"\nk = 5"),
            "x.toml:2: topology.kind: k is 5; it must be even");
  EXPECT_EQ(flawed("[topology]\nkind = \"ring\"\nswitches = 2"),
            "x.toml:3: topology.switches: is 2; it may be 3 to 1000");
  const std::string links = "[topology]\nkind = \"links\"\nswitches = [\"s\"]\n";
  EXPECT_EQ(flawed(links),
            "x.toml:1: topology: kind \"links\" needs [[link]] tables, or file = \"links.csv\"");
  EXPECT_EQ(flawed(links + "[[link]]\na = \"x\""),
            "x.toml:4: link.0: does not say what it joins; give a and b");
  EXPECT_EQ(flawed(links + "[[link]]\na = \"x\"\nb = \"s\"\n[[link]]\na = \"s\"\nb = \"x\""),
            "x.toml:7: link.1: s and x are joined already; for more links between them write "
            "count = 2");
  EXPECT_EQ(flawed(links + "[[link]]\na = \"x\"\nb = \"y\""),
            "x.toml:3: topology.switches: s cannot be reached from x");
  EXPECT_EQ(flawed("[[link]]\na = \"h0\"\nb = \"h1\"\nrate = \"40G\""),
            "x.toml:1: link.0: no link joins h0 and h1 in this topology");
  EXPECT_EQ(flawed("[topology]\nkind = \"links\"\nfile = \"none.csv\""),
            "x.toml:3: topology.file: cannot open none.csv");
}

TEST(Mistakes, Names) {
  EXPECT_EQ(flawed("[switch.s1]\nmtu = \"1500B\""),
            "x.toml:1: switch.s1: no switch and no key has this name; did you mean s0?");
  EXPECT_EQ(flawed("[switch]\ndscp_to_priorty = { 26 = 3 }"),
            "x.toml:2: switch.dscp_to_priorty: no switch and no key has this name; did you mean "
            "dscp_to_priority?");
  EXPECT_EQ(flawed("[host.h9]\ndscp = 3"),
            "x.toml:1: host.h9: no host and no key has this name; did you mean h0?");
  EXPECT_EQ(flawed("[switch.s0.port.2]\nmtu = \"1500B\""),
            "x.toml:1: switch.s0.port.2: no such port; write a number, 0 to 1, or the name of the "
            "node behind it");
  EXPECT_EQ(flawed("[switch.port.2]\nmtu = \"1500B\""),
            "x.toml:1: switch.port: ports belong to one switch: [switch.NAME.port.N]");
}

TEST(Mistakes, Flows) {
  const std::string ends = "[scenario]\nduration = \"1ms\"\n";
  EXPECT_EQ(error_of(ends + "[[flow]]\nto = 1"), "x.toml:3: flow.0.from: is missing; name a host");
  EXPECT_EQ(error_of(ends + "[[flow]]\nfrom = 0\nto = 2"),
            "x.toml:5: flow.0.to: \"2\" is no host; there is h0, h1");
  EXPECT_EQ(error_of(ends + "[[flow]]\nfrom = 0\nto = 0"),
            "x.toml:5: flow.0.to: a host does not send to itself");
  EXPECT_EQ(error_of(ends + "[[flow]]\nfrom = 0\nto = 1\nverb = \"read\""),
            "x.toml:3: flow.0.bytes: a read needs a size");
  EXPECT_EQ(error_of(ends + "[[flow]]\nfrom = 0\nto = 1\nafter = \"a\""),
            "x.toml:6: flow.0.after: no [[flow]] above is named \"a\"");
  EXPECT_EQ(error_of(ends + "[[flow]]\nname = \"a\"\nfrom = 0\nto = 1\n"
                            "[[flow]]\nfrom = 0\nto = 1\nafter = \"a\""),
            "x.toml:10: flow.1.after: flow \"a\" is endless; nothing comes after it");
  EXPECT_EQ(error_of(ends + "[[flow]]\nname = \"a\"\nfrom = 0\nto = 1\n"
                            "[[flow]]\nname = \"a\"\nfrom = 0\nto = 1\n"),
            "x.toml:8: flow.1.name: a [[flow]] above is named \"a\" too");
  EXPECT_EQ(error_of(ends + "[flow]\nfrom = 0\nto = 1"),
            "x.toml:3: flow: is a table; write [[flow]] above each");
}

TEST(Mistakes, Workloads) {
  EXPECT_EQ(
      flawed("[[workload]]\nfrom = 0")
          .rfind("x.toml:1: workload.0.kind: is missing; it may be \"long\", \"incast\", ", 0),
      0u);
  EXPECT_EQ(flawed("[[workload]]\nkind = \"incast\"\nbytes = \"1KB\""),
            "x.toml:2: workload.0.kind: 2 in to; an incast has one receiver");
  EXPECT_EQ(flawed("[[workload]]\nkind = \"shift\"\nstep = 4"),
            "x.toml:2: workload.0.kind: a step of 4 among 2 hosts leads back to the sender");
  EXPECT_EQ(flawed("[[workload]]\nkind = \"ring-allreduce\""),
            "x.toml:2: workload.0.kind: needs bytes: how much each message has");
  EXPECT_EQ(flawed("[[workload]]\nkind = \"permutation\"\nfrom = [0, \"0-1\"]"),
            "x.toml:2: workload.0.kind: host 0 is named twice");
  EXPECT_EQ(flawed("[[workload]]\nkind = \"permutation\"\nfrom = \"0-7\""),
            "x.toml:3: workload.0.from: 2 of \"0-7\" is no host; there are 2");
  EXPECT_EQ(flawed("[[workload]]\nkind = \"poisson\""),
            "x.toml:2: workload.0.kind: needs until: the end of arrivals");
  EXPECT_EQ(flawed("[[workload]]\nkind = \"poisson\"\ncdf = \"Websearch\"\nuntil = \"1ms\""),
            "x.toml:3: workload.0.cdf: \"Websearch\" is none of WebSearch, FbHdp, AliStorage, and "
            "no file: cannot open Websearch");
  EXPECT_EQ(flawed("[[workload]]\nkind = \"list\""),
            "x.toml:2: workload.0.kind: a list needs its file");
  EXPECT_EQ(flawed("[[workload]]\nkind = \"storage-read\"\nbytes = \"1KB\"\nrequests = 9000000"),
            "x.toml:4: workload.0.requests: is 9000000; it may be 1 to 1000000");
}

TEST(Mistakes, EventsAndExpectations) {
  EXPECT_EQ(flawed("[[event]]\na = \"h0\"\nb = \"h1\"\nat = \"1us\""),
            "x.toml:3: event.0.b: no link joins \"h0\" and \"h1\"");
  EXPECT_EQ(flawed("[[event]]\na = \"h0\"\nb = \"s0\"\nat = \"2us\"\nuntil = \"1us\""),
            "x.toml:5: event.0.until: is 1us, not after at = 2us");
  EXPECT_EQ(flawed("[[event]]\nkind = \"storm\"\nhost = \"s0\""),
            "x.toml:3: event.0.host: \"s0\" is no host; did you mean h0?");
  for (const char* bad : {"\"5\"", "\"< 5\"", "\"5..3\"", "[]", "nan", "\"<= x\""})
    EXPECT_EQ(
        flawed(std::string("[expect]\ndrops = ") + bad),
        "x.toml:2: expect.drops: write a number, true, false, \"<= 5\", \">= 1\" or \"3..5\"");
}

TEST(Mistakes, Overrides) {
  const std::string good = with_flow("");
  EXPECT_EQ(error_of(good, {{"switch.ecn.mni", "1KB"}}),
            "--set switch.ecn.mni: unknown key; did you mean min?");
  EXPECT_EQ(
      error_of(good, {{"switch.ecn.min", "5"}}),
      "--set switch.ecn.min: 5 has no unit; write a size such as \"100KB\" (1000) or \"64KiB\" "
      "(1024)");
  EXPECT_EQ(error_of(good, {{"switch.ecn.min", "9MB"}}),
            "--set switch.ecn.min: 9MB (Kmin) is above max = 1500KB (Kmax)");
  EXPECT_EQ(error_of(good, {{"flow.3.bytes", "1KB"}}),
            "--set flow.3.bytes: write the number of the table, 0 to 0, and its key");
  EXPECT_EQ(error_of(good, {{"flow.0.bytes.x", "1KB"}}),
            "--set flow.0.bytes.x: bytes is a value, not a table");
  EXPECT_EQ(error_of(good, {{"", "1KB"}}), "--set : no key; write SECTION.KEY=VALUE");
  EXPECT_EQ(error_of(good, {{"swich.ecn.min", "1KB"}}),
            "--set swich: unknown section; did you mean switch?");
}

// Whatever a file holds: one sentence, and the program goes on.
TEST(Mistakes, NoTextEndsTheProgram) {
  const std::string good = with_flow(
      "[scenario]\nseed = 5\n[topology]\nkind = \"leaf-spine\"\n[switch.ecn]\nmin = \"1KB\"\n"
      "[switch.leaf0.port.h0]\nmtu = \"1500B\"\n[host.\"h*\"]\ndscp = 5\n[expect]\ndrops = \"<= "
      "5\"\n");
  ASSERT_EQ(error_of(good), "no error");
  const std::string spice =
      "[]{}=\"'.,#\n\t \\\x01\xff"
      "a0-_+:T*\r9";
  Prng prng(1);
  size_t refused = 0;
  for (int round = 0; round < 4'000; ++round) {
    std::string text = good.substr(0, prng.below(2) ? good.size() : prng.below(good.size()));
    for (uint64_t i = prng.between(1, 4); i != 0; --i) {
      const size_t at = prng.below(text.size() + 1);
      if (prng.below(2) || at == text.size())
        text.insert(at, 1, spice[prng.below(spice.size())]);
      else
        text.erase(at, 1 + prng.below(3));
    }
    const std::string error = error_of(text);
    if (error == "no error") continue;
    ++refused;
    EXPECT_EQ(error.rfind("x.toml:", 0), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  EXPECT_GT(refused, 1'000u);
}

}  // namespace
}  // namespace verbena::scenario
