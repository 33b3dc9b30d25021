// Attach, roads and routes, published counters, and leaving: the slow path of the host room.
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <fstream>

#include "broker/client.h"
#include "host/host_addresses.h"
#include "roads.h"

namespace verbena::host {
namespace {

INSTANTIATE_TEST_SUITE_P(All, Roads, testing::Bool(),
                         [](const auto& info) { return info.param ? "local" : "wire"; });

engine::AddressVector route(const char* from, const char* to) {
  engine::AddressVector out;
  if (*from) out.source = *parse_gid(from);
  out.destination = *parse_gid(to);
  return out;
}

TEST_P(Roads, own_addresses_are_known) {
  HostAddresses addresses;
  EXPECT_TRUE(addresses.contains_now(*parse_gid("127.0.0.1")));
  EXPECT_TRUE(addresses.contains_now(*parse_gid("127.3.2.1")));
  EXPECT_TRUE(addresses.contains_now(*parse_gid("::1")));
  EXPECT_FALSE(addresses.contains_now(*parse_gid("192.0.2.1")));
  EXPECT_EQ(addresses.interface_of(*parse_gid("127.0.0.1")), if_nametoindex("lo"));
  EXPECT_EQ(addresses.interface_of(*parse_gid("192.0.2.1")), 0u);
}

TEST_P(Roads, new_address_is_seen_within_a_second_of_engine_time) {
  Child a([](int) {
    HostAddresses addresses;
    engine::Gid gid = *parse_gid("192.0.2.77");
    Instant now{0};
    DEMAND(!addresses.contains(now, gid));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    strcpy(request.ifr_name, "lo:7");
    auto* address = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
    address->sin_family = AF_INET;
    inet_pton(AF_INET, "192.0.2.77", &address->sin_addr);
    DEMAND(ioctl(fd, SIOCSIFADDR, &request) == 0);
    DEMAND(!addresses.contains(now + milliseconds(900), gid));
    DEMAND(addresses.contains(now + milliseconds(1100), gid));
    DEMAND(addresses.contains(now + milliseconds(1101), gid));
    request.ifr_flags = 0;
    ioctl(fd, SIOCSIFFLAGS, &request);
  });
  EXPECT_EQ(a.wait(), 0);
}

// A program's first queue pair while broker and standby are stopped: an error with its reason, in
// the return value and in the explain log, and the next try may succeed.
TEST_P(Roads, attach_to_stopped_brokers_says_so) {
  char log[] = "/tmp/verbena-explain-XXXXXX";
  close(mkstemp(log));
  Child keeper([](int socket) {
    Peer peer;
    say(socket, "attached");
    hear(socket);
  });
  ASSERT_EQ(keeper.receive(), "attached");
  auto observer = broker::Observer::open();
  ASSERT_TRUE(observer);
  const link::HostPage& page = observer->host_page();
  ASSERT_TRUE(lab::eventually([&] {
    return page.standby_pid.load() != 0 && page.standby_pid.load() != page.broker_pid.load();
  }));
  pid_t broker = page.broker_pid.load(), standby = page.standby_pid.load();
  ::kill(broker, SIGSTOP);
  ::kill(standby, SIGSTOP);
  setenv("VERBENA_LOG", (std::string("explain:") + log).c_str(), 1);
  Child program([](int socket) {
    Result<void> attached = Process::get().attach();
    DEMAND(!attached && attached.error().code == ETIMEDOUT);
    lab::say(socket, "refused");
    lab::hear(socket);
    Peer peer;  // attaches
    lab::say(socket, "attached");
  });
  unsetenv("VERBENA_LOG");
  EXPECT_EQ(program.receive(), "refused");
  std::ifstream lines(log);
  std::string line;
  std::getline(lines, line);
  EXPECT_NE(line.find("cannot attach: the broker does not answer (is verbena-broker stopped?)"),
            std::string::npos)
      << line;
  ::kill(broker, SIGCONT);
  ::kill(standby, SIGCONT);
  program.send("again");
  EXPECT_EQ(program.receive(), "attached");
  EXPECT_EQ(program.wait(), 0);
  keeper.send("end");
  EXPECT_EQ(keeper.wait(), 0);
  unlink(log);
}

TEST_P(Roads, unreachable_destinations_say_why) {
  EXPECT_TRUE(check_route(route("127.0.0.1", "127.0.0.1"), 0));
  Result<void> none = check_route(route("", "198.51.100.1"), 0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENETUNREACH);
  EXPECT_EQ(none.error().message,
            "no route to 198.51.100.1: Network is unreachable; check `ip route get 198.51.100.1`");
  Result<void> link_local = check_route(route("", "fe80::1"), 0);
  ASSERT_FALSE(link_local);
  EXPECT_EQ(link_local.error().code, EINVAL);
  EXPECT_EQ(link_local.error().message,
            "no route to fe80::1: a link-local address needs its interface (sin6_scope_id; in "
            "programs' options fe80::1%INTERFACE)");
  Result<void> mixed = check_route(route("127.0.0.1", "::1"), 0);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, EINVAL);
  EXPECT_NE(mixed.error().message.find("one is IPv4, the other IPv6"), std::string::npos);
  Result<void> foreign = check_route(route("203.0.113.9", "127.0.0.1"), 0);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, EADDRNOTAVAIL);
}

TEST_P(Roads, both_ends_choose_the_same_road) {
  auto body = [](int socket) {
    PeerOptions options;
    Peer peer(options);
    meet(socket, peer);
    DEMAND(peer.path() == Roads::expected());
    Process& process = Process::get();
    Process::Guard guard(process);
    Result<engine::Path> nobody = process.choose_path(route("127.0.0.1", "127.0.0.1"), 77 << 16);
    DEMAND(nobody && *nobody == engine::Path::kWire);  // nobody has slot 77
    Result<engine::Path> own =
        process.choose_path(route("127.0.0.1", "127.0.0.1"), peer.qp().qpn());
    DEMAND(own && *own == Roads::expected());
    Result<engine::Path> away = process.choose_path(route("", "198.51.100.1"), 1 << 16);
    DEMAND(!away && away.error().code == ENETUNREACH);
  };
  Child a(body), b(body);
  introduce(a, b);
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

uint64_t device_counter(const broker::CountersPage& page, const char* name) {
  for (uint32_t i = 0; i < page.device_count.load(); ++i)
    if (broker::counter_name(page.device_names[i]) == name) return page.device[i].load();
  return UINT64_MAX;
}

uint64_t qp_counter(const broker::CountersPage& page, const broker::QpSample& row,
                    const char* name) {
  for (uint32_t i = 0; i < page.qp_count.load(); ++i)
    if (broker::counter_name(page.qp_names[i]) == name) return row.counters[i];
  return UINT64_MAX;
}

TEST_P(Roads, counters_are_published_when_the_engine_comes_to_rest) {
  Child b([](int socket) {
    Peer peer;
    meet(socket, peer);
    hear(socket);
  });
  Child a([](int socket) {
    PeerOptions options;
    options.timeout = 20;  // no retransmission on a loaded machine
    Peer peer(options);
    meet(socket, peer);
    for (int i = 0; i < 7; ++i) {
      DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 100, 0) == 0);
      DEMAND(peer.wait().status == WcStatus::kSuccess);
    }
    say(socket, std::to_string(peer.qp().qpn()));
    hear(socket);
    DEMAND(Process::get().devices().has_value());
  });
  introduce(a, b);
  auto qpn = static_cast<uint32_t>(std::stoul(a.receive()));
  Result<broker::Observer> observer = broker::Observer::open();
  ASSERT_TRUE(observer) << observer.error().message;
  Result<broker::PeerSegment> segment = observer->open_peer(static_cast<uint8_t>(qpn >> 16));
  ASSERT_TRUE(segment) << segment.error().message;
  const broker::CountersPage& page = segment->segment->counters;
  EXPECT_TRUE(lab::eventually([&] { return device_counter(page, "tx_write_requests") == 7; }));
  EXPECT_EQ(device_counter(page, "port_xmit_data"), 700u);
  broker::QpSample row;
  ASSERT_TRUE(broker::read_row(page.rows[0], row));
  EXPECT_EQ(row.qpn, qpn);
  EXPECT_EQ(row.state, 3);  // IBV_QPS_RTS
  EXPECT_EQ(row.type, 2);   // IBV_QPT_RC
  EXPECT_EQ(row.path, static_cast<uint8_t>(expected()));
  EXPECT_EQ(qp_counter(page, row, "packets_sent"), 7u);
  EXPECT_EQ(qp_counter(page, row, "bytes_sent"), 700u);
  EXPECT_FALSE(broker::read_row(page.rows[1], row));
  a.send("end");
  b.send("end");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

// exit() with traffic coming in and the thread at work: no crash, no hang, and the slot is free.
TEST_P(Roads, exit_in_the_middle_of_traffic) {
  Child b([](int socket) {
    Peer* peer = new Peer;  // lives through exit(), as an application's would
    meet(socket, *peer);
    hear(socket);
    exit(0);
  });
  Child a([](int socket) {
    PeerOptions options;
    options.timeout = 10;
    options.retry_cnt = 2;
    Peer peer(options);
    meet(socket, peer);
    say(socket, "go");
    engine::WorkCompletion last;
    do {
      DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 60000, 0) == 0);
      last = peer.wait();
    } while (last.status == WcStatus::kSuccess);
    DEMAND(last.status == WcStatus::kRetryExcErr);
  });
  introduce(a, b);
  EXPECT_EQ(a.receive(), "go");
  usleep(20'000);
  double start = seconds_now();
  b.send("exit");
  EXPECT_EQ(b.wait(), 0);
  EXPECT_LT(seconds_now() - start, 2.0);
  EXPECT_EQ(a.wait(), 0);
}

TEST_P(Roads, missing_broker_is_said) {
  setenv("VERBENA_BROKER", "/nonexistent/verbena-broker", 1);
  Child a([](int) {
    // A broker of an earlier test may still answer; in a namespace of its own nobody does.
    DEMAND(unshare(CLONE_NEWNET) == 0);
    Result<void> attached = Process::get().attach();
    DEMAND(!attached && attached.error().code == ENOENT);
    DEMAND(attached.error().message.find("/nonexistent/verbena-broker") != std::string::npos);
    setenv("VERBENA_FAULT", "lose=everything", 1);
    setenv("VERBENA_BROKER", VERBENA_BROKER_PATH, 1);
    attached = Process::get().attach();
    DEMAND(!attached && attached.error().code == EINVAL);
    unsetenv("VERBENA_FAULT");
    DEMAND(Process::get().attach());
    DEMAND(Process::get().attach());
  });
  EXPECT_EQ(a.wait(), 0);
}

// Refused where the program makes its first queue pair; nothing on the program's stderr.
TEST_P(Roads, misspelt_settings_are_refused) {
  const struct {
    const char *name, *value, *sentence;
  } settings[] = {
      {"VERBENA_LOCAL", "maybe", "VERBENA_LOCAL=maybe is not known; use on or off"},
      {"VERBENA_FAULT_GUARD", "maybe", "VERBENA_FAULT_GUARD=maybe is not known; use on or off"},
      {"VERBENA_LOG", "on", "VERBENA_LOG=on is not known; use explain or explain:FILE"},
      {"VERBENA_LOG", "explain:/nowhere/x", "VERBENA_LOG: cannot open /nowhere/x"},
      {"VERBENA_TRACE", "x", "VERBENA_TRACE=x is not known; use packets or packets:FILE"},
      {"VERBENA_TRACE", "packets:/nowhere/x", "VERBENA_TRACE: cannot open /nowhere/x"},
  };
  for (const auto& setting : settings) {
    Child program([&](int) {
      setenv(setting.name, setting.value, 1);
      testing::internal::CaptureStderr();
      Result<void> attached = Process::get().attach();
      std::string said = testing::internal::GetCapturedStderr();
      DEMAND(said.empty());
      DEMAND(!attached);
      DEMAND(attached.error().code == (strchr(setting.value, '/') ? ENOENT : EINVAL));
      DEMAND(attached.error().message.find(setting.sentence) != std::string::npos);
    });
    EXPECT_EQ(program.wait(), 0) << setting.name << "=" << setting.value;
  }
}

}  // namespace
}  // namespace verbena::host
