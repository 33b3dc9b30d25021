// dcb, mlnx_qos and files: what each line sets at a host or a switchdev port.
#include "scenario/import_linux.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "said.h"
#include "scenario/headroom.h"

namespace verbena::scenario {
namespace {

using fabric::Trust;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(ImportLinux, AHostAsGuidesSetItUp) {
  const Imported imported = import_linux(
      "mlnx_qos -i eth2 --trust dscp\n"
      "mlnx_qos -i eth2 --pfc 0,0,0,1,0,0,0,0\n"
      "cma_roce_tos -d mlx5_0 -t 106\n"
      "echo 106 > /sys/class/infiniband/mlx5_0/tc/1/traffic_class\n"
      "echo 48 | sudo tee /sys/class/net/eth2/ecn/roce_np/cnp_dscp\n"
      "echo 1 > /sys/class/net/eth2/ecn/roce_np/enable/3\n"
      "echo 1 > /sys/class/net/eth2/ecn/roce_rp/enable/3\n"
      "ip link set eth2 mtu 4200\n",
      {});
  EXPECT_THAT(complaints(imported), IsEmpty());
  EXPECT_TRUE(imported.has_host);
  EXPECT_FALSE(imported.has_switch);
  EXPECT_EQ(imported.host.port.pfc.rx_mask, 0x08);
  EXPECT_EQ(imported.host.port.pfc.tx_mask, 0x08);
  EXPECT_EQ(imported.host.adapter.dscp, 26);
  EXPECT_EQ(imported.host.adapter.priority, 3);
  EXPECT_EQ(imported.host.adapter.path_mtu, 4096u);
  EXPECT_EQ(imported.host.adapter.congestion.np.cnp_dscp, 48);
  EXPECT_EQ(imported.host.adapter.congestion.algorithm, engine::CongestionSettings::kDcqcn);
  EXPECT_EQ(imported.lines.at("host.pfc"), 2);
  EXPECT_EQ(imported.lines.at("host.dscp"), 4);
}

TEST(ImportLinux, TrustPcpSendsUntaggedRoceAsPriority0) {
  const Imported imported =
      import_linux("cma_roce_tos -d mlx5_0 -t 106\nmlnx_qos -i eth2 --pfc 0,0,0,1,0,0,0,0\n", {});
  EXPECT_EQ(imported.host.adapter.dscp, 26);
  EXPECT_EQ(imported.host.adapter.priority, 0);
}

TEST(ImportLinux, DcbOfAHost) {
  const Imported imported = import_linux(
      "dcb app add dev eth0 dscp-prio 26:3 48:6\n"
      "dcb pfc set dev eth0 prio-pfc all:off 3:on\n"
      "dcb ets set dev eth0 prio-tc all:0 3:1 6:2 tc-tsa all:ets 2:strict tc-bw 0:40 1:60\n",
      {});
  EXPECT_THAT(complaints(imported), IsEmpty());
  EXPECT_EQ(imported.host.port.pfc.tx_mask, 0x08);
  EXPECT_EQ(imported.host.adapter.priority, 3);
  EXPECT_EQ(imported.host.port.queues[3].weight, 60u);
  EXPECT_EQ(imported.host.port.queues[0].weight, 40u);
  EXPECT_TRUE(imported.host.port.queues[6].strict);
}

TEST(ImportLinux, MlnxQosOptions) {
  const Imported imported = import_linux(
      "mlnx_qos -i eth1 -p 0,1,2,3,4,5,6,7 -s ets,ets,ets,ets,ets,ets,strict,ets "
      "-t 10,10,10,40,10,10,0,10 -f 0,0,0,1,0,0,0,0\n"
      "mlnx_qos -i eth1 --dscp2prio=set,30,5\n"
      "mlnx_qos -i eth1 --trust=dscp\n"
      "mlnx_qos -i eth1 --buffer_size=30848,230912,0,0,0,0,0,0 --prio2buffer=0,0,0,1,0,0,0,0\n"
      "export NCCL_IB_TC=120\n",
      {});
  EXPECT_THAT(complaints(imported), IsEmpty());
  EXPECT_EQ(imported.host.adapter.dscp, 30);
  EXPECT_EQ(imported.host.adapter.priority, 5);
  EXPECT_EQ(imported.host.port.queues[3].weight, 40u);
  EXPECT_TRUE(imported.host.port.queues[6].strict);
  EXPECT_EQ(imported.host.port.receive_buffer_bytes, 230'912u);
  const uint64_t xoff = 230'912 - mlx5_headroom(100'000'000'000, 0, 1500).xoff_bytes;
  EXPECT_EQ(imported.host.port.receive_xoff_bytes, xoff);
  EXPECT_EQ(imported.host.port.receive_xon_bytes, xoff - 9216);
}

TEST(ImportLinux, CableLengthAloneWritesPfcOff) {
  const Imported imported = import_linux(
      "mlnx_qos -i eth1 --pfc 0,0,0,1,0,0,0,0\nmlnx_qos -i eth1 --cable_len 100\n", {});
  EXPECT_EQ(imported.host.port.pfc.tx_mask, 0);
  EXPECT_THAT(complaints(imported), ElementsAre("2 warning: --cable_len without --pfc writes PFC "
                                                "off for every priority; give both on one "
                                                "line: --pfc 0,0,0,1,0,0,0,0 --cable_len N"));
  const Imported both =
      import_linux("mlnx_qos -i eth1 --pfc 0,0,0,1,0,0,0,0 --cable_len 100\n", {});
  EXPECT_EQ(both.host.port.pfc.tx_mask, 0x08);
  EXPECT_EQ(both.host.port.pfc.cable_metres, 100);
}

TEST(ImportLinux, SwitchdevPorts) {
  const Imported imported = import_linux(
      "dcb app add dev swp1 dscp-prio 26:3\n"
      "dcb buffer set dev swp1 prio-buffer all:0 3:1 buffer-size all:0 1:100K\n"
      "dcb pfc set dev swp1 prio-pfc 3:on\n"
      "dcb ets set dev swp1 prio-tc all:0 3:3\n"
      "dcb rewr add dev swp1 prio-dscp 3:28\n",
      {});
  EXPECT_THAT(complaints(imported), IsEmpty());
  EXPECT_TRUE(imported.has_switch);
  EXPECT_FALSE(imported.has_host);
  const fabric::PortSettings& port = imported.settings.ports.at(0);
  EXPECT_EQ(port.trust, Trust::kBoth);
  EXPECT_EQ(port.dscp_to_priority[26], 3);
  EXPECT_EQ(port.dscp_to_priority[48], 0);
  EXPECT_EQ(port.pfc.tx_mask, 0x08);
  EXPECT_EQ(port.priority_to_group[3], 1);
  EXPECT_EQ(port.priority_to_queue[3], 3);
  EXPECT_TRUE(port.groups[1].lossless);
  EXPECT_EQ(port.groups[1].headroom_bytes, 102'400u - 2 * 9216);
  EXPECT_EQ(port.remark_dscp[3], 28);
}

TEST(ImportLinux, CongestionControlByItsNames) {
  const Imported imported = import_linux(
      "echo 1200 > /sys/class/net/eth2/ecn/roce_rp/rpg_time_reset\n"
      "echo 20 > /sys/class/net/eth2/ecn/roce_rp/rpg_ai_rate\n"
      "echo 2 > /sys/kernel/debug/mlx5/0000:01:00.0/cc_params/np_min_time_between_cnps\n"
      "echo 95 > /sys/kernel/debug/mlx5/0000:01:00.0/cc_params/rp_rpg_min_dec_fac\n"
      "echo 0 > /sys/class/net/eth2/ecn/roce_rp/enable/3\n",
      {});
  EXPECT_THAT(complaints(imported), IsEmpty());
  const engine::CongestionSettings& cc = imported.host.adapter.congestion;
  EXPECT_EQ(cc.dcqcn.rpg_time_reset, microseconds(1200));
  EXPECT_EQ(cc.dcqcn.rpg_ai_rate, 20'000'000u);
  EXPECT_EQ(cc.np.min_time_between_cnps, microseconds(2));
  EXPECT_EQ(cc.dcqcn.rpg_min_dec_fac, 95u);
  EXPECT_EQ(cc.algorithm, engine::CongestionSettings::kNone);
}

TEST(ImportLinux, WhatIsWrongIsToldWithItsLine) {
  const Imported imported = import_linux(
      "dcb pfc set dev eth0 prio-pfc 9:on\n"
      "dcb pfc set eth0 prio-pfc 3:on\n"
      "dcb pfcc set dev eth0 prio-pfc 3:on\n"
      "dcb ets set dev eth0 prio-tcs 0:0\n"
      "mlnx_qos -i eth0 --pfc 0,0,1\n"
      "mlnx_qos --trust dscp\n"
      "mlnx_qos -i eth0 --cabel_len 5\n"
      "echo 5 > /sys/class/net/eth2/ecn/roce_rp/rpg_ai_rat\n"
      "cma_roce_mode -d mlx5_0 -p 1 -m 1\n"
      "cma_roce_tos -d mlx5_0 -t 26\n"
      "show interface\n"
      "dcb ets set dev eth0 tc-tsa all:ets tc-bw all:20\n",
      {});
  EXPECT_THAT(
      complaints(imported),
      ElementsAre(
          "1 error: '9:on' is no mapping; mappings are KEY:VALUE with a key of 0-7 or all",
          "2 error: dcb pfc set without a device; the form is: dcb pfc set dev DEV ...",
          "3 error: dcb has no object 'pfcc'; objects: app, apptrust, buffer, dcbx, ets, maxrate, "
          "pfc, "
          "rewr",
          "4 error: dcb ets takes no 'prio-tcs'; keywords: willing, tc-tsa, reco-tc-tsa, tc-bw, "
          "pg-bw, "
          "reco-tc-bw, prio-tc, reco-prio-tc",
          "5 error: mlnx_qos: pfc takes eight numbers up to 1, not '0,0,1'; for example: --pfc "
          "0,0,0,1,0,0,0,0",
          "6 error: mlnx_qos without an interface; the form is: mlnx_qos -i DEV --pfc ...",
          "7 error: mlnx_qos has no option '--cabel_len'; options: -i, --pfc, --trust, "
          "--dscp2prio, "
          "--prio_tc, --tsa, --tcbw, --cable_len, --buffer_size, --prio2buffer, --ratelimit, "
          "--dcbx",
          "8 error: 'rpg_ai_rat' is no parameter of congestion control; did you mean rpg_ai_rate?",
          "9 warning: rdma_cm connects with RoCE v1, which has no IP header: no DSCP, no ECN, and "
          "routers drop it; cma_roce_mode -d DEV -p 1 -m 2",
          "10 warning: ToS 26 is DSCP 6; DSCP 26 is ToS 104",
          "11 error: 'show' is no command that sets up RoCE; known: dcb, mlnx_qos, cma_roce_tos, "
          "cma_roce_mode, ip, ethtool, echo, export, sysctl, modprobe, ibv_devinfo, show_gids",
          "12 error: the bandwidths of the ETS classes sum to 160, not 100; the driver refuses it: "
          "make "
          "them 100"));
}

TEST(ImportLinux, NoEffectIsSaid) {
  const Imported imported = import_linux(
      "sysctl -w net.ipv4.tcp_ecn=1\n"
      "ethtool -A eth0 rx off tx off\n"
      "dcb pfc show dev eth0\n"
      "mlnx_qos -i eth0 -r 10,0,0,0,0,0,0,0\n",
      {});
  EXPECT_THAT(said(imported), ElementsAre("1 note: 'sysctl -w net.ipv4.tcp_ecn=1' has no effect "
                                          "here: it does not set how packets are "
                                          "queued",
                                          "2 note: 'ethtool -A eth0 rx off tx off' has no effect "
                                          "here: only PFC is simulated at hosts, "
                                          "not global pause",
                                          "4 note: mlnx_qos: ratelimit has no effect here"));
}

}  // namespace
}  // namespace verbena::scenario
