// A snapshot in its three printed forms.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/stats_snapshot.h"

namespace verbena::tools {
namespace {

Snapshot snapshot(uint64_t packets) {
  QpStats qp{.qpn = 0x030001,
             .peer_qpn = 0x040002,
             .type = "RC",
             .state = "RTS",
             .path = "local",
             .counters = {{"packets_sent", packets}, {"errors", 0}}};
  ProcessStats process{.slot = 3,
                       .pid = 41,
                       .uid = 1000,
                       .program = "ib_write_bw",
                       .device = {{"port_xmit_packets", packets}, {"out_of_sequence", 0}},
                       .queue_pairs = {qp}};
  return Snapshot{.broker_pid = 40, .takeovers = 1, .processes = {process}};
}

TEST(StatsText, ShowsWhatIsNotZero) {
  EXPECT_EQ(stats_text(snapshot(10), nullptr, 0),
            "ib_write_bw (pid 41, uid 1000, slot 3)\n"
            "    port_xmit_packets                          10\n"
            "  QP 0x030001 RC RTS to 0x040002, local\n"
            "    packets_sent                               10\n");
  EXPECT_EQ(stats_text(Snapshot{}, nullptr, 0), "no RDMA process runs in this network namespace\n");
}

TEST(StatsText, ShowsRates) {
  const Snapshot before = snapshot(10);
  EXPECT_EQ(stats_text(snapshot(110), &before, 2.0),
            "ib_write_bw (pid 41, uid 1000, slot 3)\n"
            "    port_xmit_packets                         110             50/s\n"
            "  QP 0x030001 RC RTS to 0x040002, local\n"
            "    packets_sent                              110             50/s\n");
}

TEST(StatsText, DoesNotObeyNames) {
  Snapshot now = snapshot(1);
  now.processes[0].program = "\x1b[2Jevil";
  EXPECT_EQ(stats_text(now, nullptr, 0).rfind("?[2Jevil (pid", 0), 0u);
}

TEST(StatsJson, HasEverything) {
  const auto json = nlohmann::json::parse(stats_json(snapshot(10)));
  EXPECT_EQ(json["broker_pid"], 40);
  const auto& process = json["processes"][0];
  EXPECT_EQ(process["program"], "ib_write_bw");
  EXPECT_EQ(process["counters"]["out_of_sequence"], 0);
  EXPECT_EQ(process["queue_pairs"][0]["qpn"], 0x030001);
  EXPECT_EQ(process["queue_pairs"][0]["counters"]["packets_sent"], 10);
  EXPECT_TRUE(nlohmann::json::parse(stats_json(Snapshot{}))["processes"].empty());
}

TEST(StatsPrometheus, GroupsSamplesByMetric) {
  Snapshot now = snapshot(10);
  now.processes.push_back(now.processes[0]);
  now.processes[1].program = "a\"b\\c";
  now.processes[1].queue_pairs.clear();
  EXPECT_EQ(
      stats_prometheus(now),
      "# HELP verbena_processes RDMA processes of this network namespace\n"
      "# TYPE verbena_processes gauge\n"
      "verbena_processes 2\n"
      "# HELP verbena_out_of_sequence_total requests ahead of the expected PSN (packets)\n"
      "# TYPE verbena_out_of_sequence_total counter\n"
      "verbena_out_of_sequence_total{program=\"ib_write_bw\",pid=\"41\",slot=\"3\"} 0\n"
      "verbena_out_of_sequence_total{program=\"a\\\"b\\\\c\",pid=\"41\",slot=\"3\"} 0\n"
      "# HELP verbena_port_xmit_packets_total packets sent (packets)\n"
      "# TYPE verbena_port_xmit_packets_total counter\n"
      "verbena_port_xmit_packets_total{program=\"ib_write_bw\",pid=\"41\",slot=\"3\"} 10\n"
      "verbena_port_xmit_packets_total{program=\"a\\\"b\\\\c\",pid=\"41\",slot=\"3\"} 10\n"
      "# HELP verbena_qp_errors_total errors\n"
      "# TYPE verbena_qp_errors_total counter\n"
      "verbena_qp_errors_total{program=\"ib_write_bw\",pid=\"41\",slot=\"3\",qpn=\"0x030001\","
      "peer_qpn=\"0x040002\",type=\"RC\"} 0\n"
      "# HELP verbena_qp_packets_sent_total packets_sent\n"
      "# TYPE verbena_qp_packets_sent_total counter\n"
      "verbena_qp_packets_sent_total{program=\"ib_write_bw\",pid=\"41\",slot=\"3\","
      "qpn=\"0x030001\",peer_qpn=\"0x040002\",type=\"RC\"} 10\n");
}

TEST(StatsNames, FollowTheAbi) {
  EXPECT_EQ(qp_type_name(2), "RC");
  EXPECT_EQ(qp_type_name(4), "UD");
  EXPECT_EQ(qp_type_name(77), "type 77");
  EXPECT_EQ(qp_state_name(3), "RTS");
  EXPECT_EQ(qp_state_name(6), "ERR");
  EXPECT_EQ(qp_state_name(9), "state 9");
}

}  // namespace
}  // namespace verbena::tools
