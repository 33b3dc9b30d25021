// Two ends of a connection by rdma_cm, in one program so that every event can be seen in order.
// Plain librdmacm, linked against the system's; nothing here knows Verbena.
//
//   cc examples/connection.c -o connection -lrdmacm -libverbs
//   VERBENA_LOG=explain build/bin/verbena run -- ./connection [ADDRESS]
//
// The client connects, a message crosses, the server disconnects; then the server says no to a
// second client; then a third one asks for a port where nobody listens. Exit code 0: all of it
// happened as told.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPort = 7471, kNobody = 7472 };

static struct rdma_event_channel *server, *client;

static void check(int failed, const char *what) {
  if (!failed) return;
  perror(what);
  exit(1);
}

// The next event of one end, which must be `wanted`; printed, its private data copied to `data`.
static struct rdma_cm_id *expect(struct rdma_event_channel *end, enum rdma_cm_event_type wanted,
                                 char data[32]) {
  struct rdma_cm_event *event;
  check(rdma_get_cm_event(end, &event), "rdma_get_cm_event");
  printf("%s: %s, status %d\n", end == server ? "server" : "client", rdma_event_str(event->event),
         event->status);
  if (event->event != wanted) exit(1);
  if (data && event->param.conn.private_data) memcpy(data, event->param.conn.private_data, 32);
  struct rdma_cm_id *id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

static void add_queue_pair(struct rdma_cm_id *id) {
  struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 32}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
  check(rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
}

// A client's id, as far as the request: its answer is an event.
static struct rdma_cm_id *ask(struct sockaddr_in to, uint16_t port) {
  struct rdma_cm_id *id;
  check(rdma_create_id(client, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
  to.sin_port = htons(port);
  check(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000), "rdma_resolve_addr");
  expect(client, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
  check(rdma_resolve_route(id, 2000), "rdma_resolve_route");
  expect(client, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
  add_queue_pair(id);
  struct rdma_conn_param param = {.private_data = "may I?", .private_data_len = 7,
                                  .retry_count = 7, .rnr_retry_count = 7};
  check(rdma_connect(id, &param), "rdma_connect");
  return id;
}

static void end(struct rdma_cm_id *id) {
  rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

// A message from the server to the client, on the connection of the two.
static void talk(struct rdma_cm_id *from, struct rdma_cm_id *to) {
  static char sent[32] = "a message over RDMA", received[32];
  struct ibv_mr *mr = rdma_reg_msgs(to, received, sizeof received);
  check(!mr || rdma_post_recv(to, NULL, received, sizeof received, mr), "rdma_post_recv");
  check(rdma_post_send(from, NULL, sent, sizeof sent, NULL, IBV_SEND_INLINE), "rdma_post_send");
  struct ibv_wc wc;
  check(rdma_get_recv_comp(to, &wc) != 1 || wc.status, "rdma_get_recv_comp");
  printf("client: received \"%s\"\n", received);
  rdma_dereg_mr(mr);
}

int main(int count, char **words) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kPort)};
  check(inet_pton(AF_INET, count > 1 ? words[1] : "127.0.0.1", &address.sin_addr) != 1, "address");
  server = rdma_create_event_channel();
  client = rdma_create_event_channel();
  check(!server || !client, "rdma_create_event_channel");
  struct rdma_cm_id *listener;
  check(rdma_create_id(server, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
  check(rdma_bind_addr(listener, (struct sockaddr *)&address), "rdma_bind_addr");
  check(rdma_listen(listener, 4), "rdma_listen");

  char data[32] = "";
  struct rdma_cm_id *active = ask(address, kPort);
  struct rdma_cm_id *passive = expect(server, RDMA_CM_EVENT_CONNECT_REQUEST, data);
  printf("server: asked \"%s\"\n", data);
  add_queue_pair(passive);
  struct rdma_conn_param yes = {.private_data = "yes", .private_data_len = 4};
  check(rdma_accept(passive, &yes), "rdma_accept");
  expect(client, RDMA_CM_EVENT_ESTABLISHED, data);
  printf("client: answered \"%s\"\n", data);
  expect(server, RDMA_CM_EVENT_ESTABLISHED, NULL);
  talk(passive, active);
  check(rdma_disconnect(passive), "rdma_disconnect");
  expect(client, RDMA_CM_EVENT_DISCONNECTED, NULL);
  check(rdma_disconnect(active), "rdma_disconnect");
  expect(server, RDMA_CM_EVENT_DISCONNECTED, NULL);
  end(active);
  end(passive);

  active = ask(address, kPort);
  passive = expect(server, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
  check(rdma_reject(passive, "no", 3), "rdma_reject");
  expect(client, RDMA_CM_EVENT_REJECTED, data);
  printf("client: answered \"%s\"\n", data);
  end(active);
  rdma_destroy_id(passive);

  active = ask(address, kNobody);
  expect(client, RDMA_CM_EVENT_REJECTED, NULL);
  end(active);
  rdma_destroy_id(listener);
  rdma_destroy_event_channel(server);
  rdma_destroy_event_channel(client);
  return 0;
}
