// Whole processes that connect through the host's broker: events, ports, and what their peers hear
// when one of them, or the broker, is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connecting.h"
#include "host/connections.h"

namespace verbena::host {
namespace {

CmBinding listen() {
  Result<CmBinding> bound = port().bind(cm::PortSpace::kTcp, kPort, loopback(), false, false);
  DEMAND(bound.has_value());
  DEMAND(port().listen(*bound, 8).has_value());
  return *bound;
}

// Takes one connection up to ESTABLISHED.
cm::Handle serve_one() {
  cm::Event asked = expect(cm::EventType::kRequest);
  DEMAND(asked.incoming && asked.incoming->destination_port == kPort);
  DEMAND(asked.qp.qpn >> 16 == 0x12 && asked.qp.starting_psn == 77);
  DEMAND(asked.private_data.size() == 56 && asked.private_data[2] == 3);
  cm::QpParameters own;
  own.qpn = 0x654321;
  DEMAND(port().accept(asked.connection, own, std::vector<uint8_t>{9}).has_value());
  expect(cm::EventType::kEstablished);
  return asked.connection;
}

cm::Handle connect_one(const cm::ConnectRequest& asked = request()) {
  Result<cm::Handle> connection = port().connect(asked);
  DEMAND(connection.has_value());
  cm::Event answer = expect(cm::EventType::kResponse);
  DEMAND(answer.qp.qpn == 0x654321 && answer.private_data.size() == 196);
  DEMAND(port().establish(*connection).has_value());
  expect(cm::EventType::kEstablished);
  return *connection;
}

using Connections = ConnectionTest;

TEST_F(Connections, ConnectAndPart) {
  Child server([](int socket) {
    listen();
    say(socket, "listens");
    serve_one();
    expect(cm::EventType::kDisconnected);
    say(socket, "parted");
  });
  ASSERT_EQ(server.receive(), "listens");
  Child client([](int socket) {
    cm::Handle connection = connect_one();
    DEMAND(port().disconnect(connection).has_value());
    expect(cm::EventType::kDisconnected);
    say(socket, "parted");
  });
  EXPECT_EQ(client.receive(), "parted");
  EXPECT_EQ(server.receive(), "parted");
}

// Its queue pair number is still in the server's timewait.
TEST_F(Connections, TheSameClientTwiceInARow) {
  Child server([](int socket) {
    listen();
    say(socket, "listens");
    for (int i = 0; i < 2; ++i) {
      cm::Handle connection = serve_one();
      expect(cm::EventType::kDisconnected);
      DEMAND(port().disconnect(connection).has_value());
      say(socket, "parted");
    }
    hear(socket);
  });
  ASSERT_EQ(server.receive(), "listens");
  for (int i = 0; i < 2; ++i) {
    Child client([](int socket) {
      cm::Handle connection = connect_one(request(0x120001));
      DEMAND(port().disconnect(connection).has_value());
      expect(cm::EventType::kDisconnected);
      say(socket, "parted");
    });
    EXPECT_EQ(client.receive(), "parted");
    EXPECT_EQ(server.receive(), "parted");
    client.wait();
  }
}

TEST_F(Connections, NobodyListensIsAReject) {
  Child client([](int socket) {
    DEMAND(port().connect(request()).has_value());
    say(socket, std::to_string(expect(cm::EventType::kRejected).status));
  });
  EXPECT_EQ(client.receive(), "8");
}

// perftest's server closes one listener and opens the next while its client connects again.
TEST_F(Connections, ARequestBetweenTwoListenersWaits) {
  Child server([](int socket) {
    const CmBinding first = listen();
    say(socket, "listens");
    hear(socket);
    port().release(first);
    say(socket, "left");
    hear(socket);
    const CmBinding next = listen();
    serve_one();
    say(socket, "served");
    port().release(next);
    hear(socket);
  });
  ASSERT_EQ(server.receive(), "listens");
  server.send("leave");
  ASSERT_EQ(server.receive(), "left");
  Child client([](int socket) {
    say(socket, "asks");
    connect_one();
    say(socket, "connected");
  });
  ASSERT_EQ(client.receive(), "asks");
  EXPECT_EQ(client.receive(150), "") << "nobody has answered yet";
  server.send("again");
  EXPECT_EQ(client.receive(), "connected");
  EXPECT_EQ(server.receive(), "served");
  // Nobody comes back this time: the answer is as it was, only later.
  Child late([](int socket) {
    DEMAND(port().connect(request()).has_value());
    say(socket, std::to_string(expect(cm::EventType::kRejected).status));
  });
  EXPECT_EQ(late.receive(300), "");
  EXPECT_EQ(late.receive(), "8");
}

TEST_F(Connections, APortHasOneOwnerAndIsFreeAfterItsDeath) {
  Child owner([](int socket) {
    listen();
    say(socket, "listens");
    hear(socket);
  });
  ASSERT_EQ(owner.receive(), "listens");
  Child second([](int socket) {
    Result<CmBinding> refused =
        port().bind(cm::PortSpace::kTcp, kPort, engine::Gid{}, false, false);
    say(socket, refused ? "bound" : strerrorname_np(refused.error().code));
    hear(socket);
    const bool bound = lab::eventually([] {
      return port().bind(cm::PortSpace::kTcp, kPort, engine::Gid{}, false, false).has_value();
    });
    say(socket, bound ? "bound" : "never");
  });
  EXPECT_EQ(second.receive(), "EADDRINUSE");
  owner.kill(SIGKILL);
  second.send("again");
  EXPECT_EQ(second.receive(), "bound");
}

TEST_F(Connections, AKilledPeerIsADisconnect) {
  for (bool kill_server : {true, false}) {
    Child server([](int socket) {
      listen();
      say(socket, "listens");
      serve_one();
      say(socket, "established");
      expect(cm::EventType::kDisconnected, 3000);
      say(socket, "heard");
    });
    ASSERT_EQ(server.receive(), "listens");
    Child client([](int socket) {
      connect_one();
      say(socket, "established");
      expect(cm::EventType::kDisconnected, 3000);
      say(socket, "heard");
    });
    ASSERT_EQ(client.receive(), "established");
    ASSERT_EQ(server.receive(), "established");
    (kill_server ? server : client).kill(SIGKILL);
    EXPECT_EQ((kill_server ? client : server).receive(), "heard");
  }
}

// The next broker hears of the listener before it answers anybody.
TEST_F(Connections, AKilledBrokerLeavesTheListenerInPlace) {
  Child server([](int socket) {
    listen();
    say(socket, "listens");
    for (int i = 0; i < 3; ++i) {
      serve_one();
      expect(cm::EventType::kDisconnected);  // the client's end, told by whichever broker lives
    }
    say(socket, "served");
    hear(socket);
  });
  ASSERT_EQ(server.receive(), "listens");
  for (int i = 0; i < 3; ++i) {
    const pid_t broker = broker_pid();
    ASSERT_GT(broker, 0);
    ASSERT_EQ(::kill(broker, SIGKILL), 0);
    Child client([](int socket) {
      connect_one();
      say(socket, "connected");
      hear(socket);
    });
    EXPECT_EQ(client.receive(), "connected");
    client.send("end");
    client.wait();
  }
  EXPECT_EQ(server.receive(), "served");
  server.send("end");
}

// A fork has none of its parent's connections, and the parent keeps them.
TEST_F(Connections, AForkLeavesTheParentsConnectionsAlone) {
  Child server([](int socket) {
    CmBinding binding = listen();
    say(socket, "listens");
    cm::Handle connection = serve_one();
    const pid_t child = fork();
    if (child == 0) {
      bool good = !port().disconnect(connection).has_value();
      port().release(binding);
      // Its own, of the same number in its table, is another.
      Result<CmBinding> bound = bind_port(kPort + 1);
      good &= bound.has_value() && !(bound->listener == binding.listener);
      cm::ConnectRequest asked = request();
      asked.destination_port = kPort + 1;  // held: it does not listen yet
      Result<cm::Handle> own = port().connect(asked);
      good &= own.has_value() && !(*own == connection);
      port().destroy(connection);
      port().release(binding);
      good &= !port().accept(connection, {}, {}).has_value();
      good &= port().listen(*bound, 1).has_value();
      Process::Guard guard(Process::get());
      good &= Process::get().connections()->manager().state(*own) != cm::State::kIdle;
      _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say(socket, status == 0 ? "refused" : "allowed");
    expect(cm::EventType::kDisconnected);
    say(socket, "parted");
  });
  ASSERT_EQ(server.receive(), "listens");
  Child client([](int socket) {
    cm::Handle connection = connect_one();
    say(socket, "connected");
    hear(socket);
    DEMAND(port().disconnect(connection).has_value());
    expect(cm::EventType::kDisconnected);
  });
  ASSERT_EQ(client.receive(), "connected");
  EXPECT_EQ(server.receive(), "refused");
  client.send("part");
  EXPECT_EQ(server.receive(), "parted");
}

}  // namespace
}  // namespace verbena::host
